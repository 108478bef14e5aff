//! The cluster's own directory of users: its server writes it as LDIF while it runs, and reads it while it is stopped. Its configuration
//! and its keys are not in a backup: `kiln configure` makes them.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{BackupError, Result, failed};
use crate::process;

/// With what shows that it works.
pub(super) const UNIT: (&str, &[&str]) = (
    "dirsrv@kiln.service",
    &["ldapwhoami", "-Q", "-Y", "EXTERNAL", "-H", "ldapi://%2frun%2fslapd-kiln.socket"],
);

/// Where the server may write and read.
const FOLDER: &str = "/var/lib/dirsrv/slapd-kiln/ldif";
const BACKEND: &str = "userroot";
const LIMIT: Duration = Duration::from_secs(3600);

/// As it is at one moment. `into` ends in `.gz`.
pub(super) fn dump(into: &Path) -> Result<()> {
    let exported = Path::new(FOLDER).join("kiln-backup.ldif");
    remove(&exported)?;
    let file = exported.to_string_lossy();
    let export = ["dsconf", "kiln", "backend", "export", "--ldif", &file, BACKEND];
    let export = process::run(&export, None, LIMIT).and_then(process::Output::checked);
    export.map_err(BackupError::Directory)?;
    let plain = into.with_extension("");
    fs::copy(&exported, &plain).map_err(failed("copy", &exported))?;
    remove(&exported)?;
    process::run(&["gzip", "--fast", &plain.to_string_lossy()], None, LIMIT)?.checked()?;
    Ok(())
}

fn staged() -> PathBuf {
    Path::new(FOLDER).join("kiln-restore.ldif")
}

/// Unpacks it where the server can read it. Entries of another base would be left out without a word, and the directory would be empty.
pub(super) fn stage(backup: &str, from: &Path, base: &str) -> Result<()> {
    let staged = staged();
    let packed = PathBuf::from(format!("{}.gz", staged.display()));
    fs::copy(from, &packed).map_err(failed("copy", from))?;
    process::run(&["gzip", "--decompress", "--force", &packed.to_string_lossy()], None, LIMIT)?.checked()?;
    let file = fs::File::open(&staged).map_err(failed("read", &staged))?;
    if !begins_with(BufReader::new(file), base) {
        remove(&staged)?;
        return Err(BackupError::OtherDirectory { name: backup.to_owned(), base: base.to_owned() });
    }
    process::call(&["chown", "dirsrv:dirsrv", &staged.to_string_lossy()])?;
    Ok(())
}

/// Whether the first entry is this one.
fn begins_with(ldif: impl std::io::BufRead, base: &str) -> bool {
    let first = ldif.lines().map_while(std::result::Result::ok).find_map(|line| {
        let dn = line.strip_prefix("dn: ")?;
        Some(dn.replace(", ", ",").eq_ignore_ascii_case(base))
    });
    first == Some(true)
}

/// The server is stopped.
pub(super) fn swap() -> Result<()> {
    let file = staged();
    let import = ["dsctl", "kiln", "ldif2db", BACKEND, &file.to_string_lossy()];
    process::run(&import, None, LIMIT)?.checked()?;
    process::call(&[
        "chown",
        "--recursive",
        "--no-dereference",
        "dirsrv:dirsrv",
        "/var/lib/dirsrv/slapd-kiln/",
    ])?;
    remove(&file)
}

/// The server runs again. Numbers of users who came after the backup are not given to others, who would own their files.
pub(super) fn after(base: &str, numbers: Option<u32>, say: &dyn Fn(&str)) {
    if let Some(next) = numbers
        && let Err(error) = crate::directory::raise_number(base, next)
    {
        say(&format!("numbers of users may be given a second time: {}", crate::explain(&error)));
    }
    // What sssd of this node has kept may be of users who are no longer there.
    let _ = process::call(&["sss_cache", "-E"]);
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("delete", file)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_of_the_same_base_is_taken() {
        let of = |dn: &str| {
            format!("version: 1\n\n# entry-id: 1\ndn: {dn}\nobjectClass: domain\n\ndn: ou=people,{dn}\n")
        };
        assert!(begins_with(of("dc=demo,dc=internal").as_bytes(), "dc=demo,dc=internal"));
        assert!(begins_with(of("DC=demo, dc=internal").as_bytes(), "dc=demo,dc=internal"));
        assert!(!begins_with(of("dc=other,dc=internal").as_bytes(), "dc=demo,dc=internal"));
        assert!(!begins_with("version: 1\n".as_bytes(), "dc=demo,dc=internal"));
    }
}
