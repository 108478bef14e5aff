//! RPM packages and signed repositories of them, made with Debian's rpm and createrepo-c.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster_dir::printed;

/// A package without files that claims to be another.
#[derive(Clone, Copy)]
pub struct Rpm {
    pub name: &'static str,
    /// Version and release.
    pub version: &'static str,
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", printed(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Makes a repository in a directory of exactly these packages, each signed with the key of a GnuPG home.
pub fn publish(dir: &Path, packages: &[Rpm], home: &Path) {
    publish_with(dir, packages, &[], home);
}

/// As [`publish`], with packages that are built already.
pub fn publish_with(dir: &Path, packages: &[Rpm], built: &[PathBuf], home: &Path) {
    let _ = fs::remove_dir_all(dir);
    let scratch = tempfile::tempdir().expect("a directory");
    let mut files = Vec::new();
    // The signature is written into the file.
    for file in built {
        let copy = scratch.path().join(file.file_name().expect("a name"));
        fs::copy(file, &copy).expect("a package");
        files.push(copy);
    }
    // A spec file has a name once.
    let mut rest = packages.to_vec();
    for round in 0.. {
        if rest.is_empty() {
            break;
        }
        let mut names = std::collections::BTreeSet::new();
        let (now, later): (Vec<Rpm>, Vec<Rpm>) = rest.into_iter().partition(|rpm| names.insert(rpm.name));
        let within = scratch.path().join(format!("{round}"));
        fs::create_dir(&within).expect("a directory");
        files.extend(build(&now, &within));
        rest = later;
    }
    let names: Vec<_> = files.iter().map(|file| file.file_name().expect("a name").to_owned()).collect();
    run(Command::new("rpmsign")
        .args(["--define", "__gpg /usr/bin/gpg", "--define", "_gpg_name tests@example.org", "--addsign"])
        .args(&files)
        .env("GNUPGHOME", home));
    fs::create_dir_all(dir).expect("a directory");
    for (file, name) in files.iter().zip(names) {
        fs::copy(file, dir.join(name)).expect("a package");
    }
    run(Command::new("createrepo_c").arg("--quiet").arg(dir));
}

/// All of one spec file: rpmbuild takes longer to start than to build.
fn build(packages: &[Rpm], scratch: &Path) -> Vec<PathBuf> {
    let mut spec = "Name: kiln-tests\nVersion: 1\nRelease: 1\nSummary: s\nLicense: none\nBuildArch: noarch\n\
                    %description\ns\n"
        .to_string();
    for Rpm { name, version } in packages {
        let (version, release) = version.split_once('-').expect("a release");
        let _ = write!(
            spec,
            "%package -n {name}\nVersion: {version}\nRelease: {release}\nSummary: s\n%description -n {name}\ns\n\
             %files -n {name}\n"
        );
    }
    let path = scratch.join("tests.spec");
    fs::write(&path, spec).expect("a file");
    // The same package has the same hash whenever it is built.
    run(Command::new("rpmbuild")
        .args(["--quiet", "-bb", "--define", "use_source_date_epoch_as_buildtime 1"])
        .args(["--define", "_buildhost tests.example.org", "--define"])
        .arg(format!("_topdir {}", scratch.display()))
        .arg(&path)
        .env("SOURCE_DATE_EPOCH", "1767225600"));
    let built = fs::read_dir(scratch.join("RPMS/noarch")).expect("packages").flatten();
    built.map(|entry| entry.path()).collect()
}

/// The hash that rpm has of a package while it is installed, from the package's file.
pub fn hash(dir: &Path, package: Rpm) -> String {
    let file = dir.join(format!("{}-{}.noarch.rpm", package.name, package.version));
    run(Command::new("rpm")
        .args(["--query", "--nosignature", "--queryformat", "%{SHA256HEADER}", "--package"])
        .arg(file))
}
