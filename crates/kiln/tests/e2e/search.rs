//! Searches files for a text, and for a secret in every form that it may have got there in: as it is, in base64, and inside of
//! compressed files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::cluster_dir::printed;

/// How the names of compressed files end, how the files themselves begin, and what unpacks them. Not all that has such a name is
/// one: dpkg names records of man pages so.
const COMPRESSED: [(&str, &[u8], &str); 3] =
    [("gz", b"\x1f\x8b", "gzip"), ("xz", b"\xfd7zXZ\0", "xz"), ("zst", b"\x28\xb5\x2f\xfd", "zstd")];

/// How many are unpacked at a time.
const AT_A_TIME: usize = 500;

/// Files below a directory that hold a text.
pub fn holding(dir: &Path, text: &str) -> Vec<PathBuf> {
    grep(dir, &[text.to_string()])
}

/// Files below a directory that hold a secret, whatever its form.
pub fn betraying(dir: &Path, secret: &str) -> Vec<PathBuf> {
    let forms = forms(secret);
    let mut found = grep(dir, &forms);
    for (ending, magic, program) in COMPRESSED {
        for some in files(dir, ending, magic).chunks(AT_A_TIME) {
            if is_inside(some, program, &forms) {
                let holds = |one: &&PathBuf| is_inside(std::slice::from_ref(*one), program, &forms);
                found.extend(some.iter().filter(holds).cloned());
            }
        }
    }
    // What is short is packed as it is.
    found.sort();
    found.dedup();
    found
}

/// As it is, and what there is of it in the base64 of any text around it: a byte before it or two shift all its bits.
pub fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_string()];
    for before in 0..3 {
        let shifted = [&[0; 2][..before], secret.as_bytes()].concat();
        // Without signs that have bits of what stands before it or behind it.
        let first = [0, 2, 3][before];
        for encoded in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            let last = encoded.len() - usize::from(!shifted.len().is_multiple_of(3));
            forms.push(encoded[first..last].to_string());
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

fn grep(place: &Path, texts: &[String]) -> Vec<PathBuf> {
    if !place.exists() {
        return Vec::new();
    }
    let mut command = Command::new("grep");
    command.args(["--recursive", "--files-with-matches", "--fixed-strings", "--null"]);
    command.args(texts.iter().flat_map(|text| ["--regexp", text])).arg(place).env("LC_ALL", "C");
    let output = command.output().expect("grep runs");
    // 0: found, 1: not found. Anything else: not all was searched.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}: {}", place.display(), printed(&output));
    names(&output.stdout)
}

/// Plain files, no links.
fn files(dir: &Path, ending: &str, magic: &[u8]) -> Vec<PathBuf> {
    if !dir.exists() {
        return Vec::new();
    }
    let output = Command::new("find")
        .arg(dir)
        .args(["-type", "f", "-name", &format!("*.{ending}"), "-print0"])
        .output()
        .expect("find runs");
    assert!(output.status.success(), "{}", printed(&output));
    let begins = |path: &PathBuf| {
        let mut first = Vec::new();
        let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        file.take(magic.len() as u64).read_to_end(&mut first).expect("a file that can be read");
        first == magic
    };
    names(&output.stdout).into_iter().filter(begins).collect()
}

/// As `--null` and `-print0` write them.
fn names(output: &[u8]) -> Vec<PathBuf> {
    let names = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

fn is_inside(files: &[PathBuf], program: &str, forms: &[String]) -> bool {
    let unpacked = tempfile::NamedTempFile::new().expect("a file");
    let output = Command::new(program)
        .args(["--decompress", "--stdout", "--"])
        .args(files)
        .stdout(File::create(unpacked.path()).expect("a file"))
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{program}: {}", printed(&output));
    !grep(unpacked.path(), forms).is_empty()
}

/// A search that finds nothing says something only if it would have found it.
pub fn finds_every_form(secret: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let mut hidden = Vec::new();
    for (at, around) in ["", "u:", "me:"].into_iter().enumerate() {
        let name = format!("base64-{at}");
        let text = STANDARD_NO_PAD.encode(format!("{around}{secret}{}", &"\n\n"[..at % 2]));
        fs::write(path(&name), text).expect("a file");
        hidden.push(path(&name));
    }
    for (ending, _, program) in COMPRESSED {
        let plain = path(&format!("{ending}-log"));
        let lines: Vec<String> = (0..2000).map(|line| format!("line {line}\n")).collect();
        let other = lines.concat();
        fs::write(&plain, format!("{other}{secret}\n{other}")).expect("a file");
        let packed = Command::new(program).arg(&plain).status().expect("the program runs");
        assert!(packed.success(), "{program}");
        let _ = fs::remove_file(&plain);
        let packed = path(&format!("{ending}-log.{ending}"));
        assert_eq!(holding(&packed, secret), Vec::<PathBuf>::new(), "{program} has not packed it");
        hidden.push(packed);
    }
    fs::write(path("other.gz"), fs::read(path("gz-log.gz")).expect("a file")).expect("a file");
    fs::write(path("harmless.gz"), "a file of dpkg's").expect("a file");
    hidden.push(path("other.gz"));
    hidden.sort();
    assert_eq!(betraying(dir.path(), secret), hidden);
}
