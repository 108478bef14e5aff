//! The fleet file as last read, and the connection to its cloud.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use kiln_cloud::{Access, Cloud};
use kiln_wire::FleetFile;

use crate::error::Result;

pub struct Fleet {
    pub file: FleetFile,
    pub cloud: Cloud,
    /// When `kiln configure` last wrote the file.
    pub written: Option<Timestamp>,
}

impl Fleet {
    pub fn read(path: &Path) -> Result<Self> {
        let written = std::fs::metadata(path).and_then(|m| m.modified()).ok();
        let fleet = Self::connect(FleetFile::read(path)?)?;
        Ok(Fleet { written: written.and_then(|w| w.try_into().ok()), ..fleet })
    }

    pub fn connect(file: FleetFile) -> Result<Self> {
        let access: Access = file.cloud.open()?;
        Ok(Fleet { cloud: Cloud::at(&access)?, file, written: None })
    }
}

/// Notices when the file was replaced.
pub struct FleetWatch {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl FleetWatch {
    pub fn new(path: PathBuf) -> Self {
        FleetWatch { path, seen: None }
    }

    /// `None`: nothing new since the last call.
    pub fn changed(&mut self) -> Option<Result<Fleet>> {
        let stamp = std::fs::metadata(&self.path).and_then(|m| Ok((m.modified()?, m.len()))).ok();
        if stamp.is_some() && stamp == self.seen {
            return None;
        }
        // A missing file is told once, not five times a second.
        if stamp.is_none() && self.seen == Some(MISSING) {
            return None;
        }
        self.seen = stamp.or(Some(MISSING));
        Some(Fleet::read(&self.path))
    }
}

const MISSING: (SystemTime, u64) = (SystemTime::UNIX_EPOCH, u64::MAX);

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"cluster":"c","cloud":{"kind":"local","url":"http://10.0.0.1:1","token":"t0ken"},
        "nodes":{"n-0":{"group":"standard","image":"i2","user_data":"s3cret","ssh_key":"ssh-ed25519 A"}}}"#;

    #[test]
    fn a_change_is_noticed_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.json");
        let mut watch = FleetWatch::new(path.clone());
        assert!(watch.changed().unwrap().is_err());
        assert!(watch.changed().is_none());
        std::fs::write(&path, TEXT).unwrap();
        assert!(watch.changed().unwrap().is_ok());
        assert!(watch.changed().is_none());
    }

    #[test]
    fn an_access_that_no_driver_knows_is_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.json");
        std::fs::write(&path, TEXT.replace("\"url\"", "\"address\"")).unwrap();
        let error = Fleet::read(&path).err().unwrap().chain();
        assert!(error.contains("access") && !error.contains("t0ken"), "{error}");
    }
}
