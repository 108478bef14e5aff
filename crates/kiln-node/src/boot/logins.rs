//! `/etc/nologin`: while it is there, sshd lets in nobody but root, and shows its text to the others.

use std::io;
use std::path::Path;

pub(super) const NOLOGIN: &str = "/etc/nologin";
const TEXT: &str = "Only root may log in: kiln-metadata.service could not keep the node's keys from users.\n";

/// An administrator's own file stays as it is; it has the same effect.
pub(super) fn close(path: &Path) -> io::Result<()> {
    if path.exists() { Ok(()) } else { std::fs::write(path, TEXT) }
}

/// Takes back what [`close`] did, and nothing that an administrator wrote.
pub(super) fn open(path: &Path) -> io::Result<()> {
    match std::fs::read_to_string(path) {
        Ok(text) if text == TEXT => std::fs::remove_file(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrators_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nologin");
        open(&path).unwrap();
        close(&path).unwrap();
        close(&path).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("Only root may log in"));
        open(&path).unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "maintenance until noon\n").unwrap();
        close(&path).unwrap();
        open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "maintenance until noon\n");
    }
}
