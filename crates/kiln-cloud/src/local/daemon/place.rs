//! Where a root is. The names of what its instances have on the host follow from the path, or are in the records: a daemon
//! that served a copy of the records would take the original's networks for its own.

use std::fs;
use std::path::Path;

use super::store;
use crate::{Error, Result};

const FILE: &str = "place";

/// Refuses records of another root; those of images and volumes, which name nothing on the host, may be taken along.
pub fn check(root: &Path, nothing_on_the_host: bool) -> Result<()> {
    let (path, own) = (root.join(FILE), root.as_os_str().as_encoded_bytes());
    match fs::read(&path) {
        Ok(text) if text == own => Ok(()),
        Ok(text) if !nothing_on_the_host => {
            let original = String::from_utf8_lossy(&text).into_owned();
            Err(Error::refused(format!(
                "{} is a copy of the local cloud in {original}, whose instances it cannot have",
                root.display()
            ))
            .with_hint(format!(
                "use {original}, or delete state/instances and state/networks in the copy, which then has its \
                 images and volumes"
            )))
        }
        _ => store::write_file(&path, own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stay_with_their_root() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&second).unwrap();
        for _ in 0..2 {
            check(&first, false).unwrap();
        }
        fs::copy(first.join(FILE), second.join(FILE)).unwrap();
        let refused = check(&second, false).unwrap_err().to_string();
        assert!(refused.contains("/second is a copy of the local cloud in ") && refused.contains("/first"));
        check(&second, true).unwrap();
        check(&second, false).unwrap();
    }
}
