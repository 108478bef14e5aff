//! Taking over the share's own `kiln`, so that every node runs the one its bundle was made by.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;

use kiln_wire::paths::KILN;
use kiln_wire::publication;
use sha2::{Digest, Sha256};

use super::say;
use crate::explain;
use crate::state::process_owner;
use crate::tree::Tree;

/// Set for the new binary, which must not look again: two that disagree would follow each other for ever.
const GUARD: &str = "KILN_NODE_UPDATED";

/// Does not return when there is another binary to run. Errors are reported, and the boot continues with the running
/// binary.
pub(super) fn adopt(share: &Path) {
    if std::env::var_os(GUARD).is_some() {
        return;
    }
    let program = match newer(share, Path::new("/proc/self/exe")) {
        Ok(None) => return,
        Ok(Some(program)) => program,
        Err(error) => {
            return say(&format!("cannot compare with the share's kiln: {}", explain(&error)));
        }
    };
    let installed = Tree::open(Path::new("/"))
        .and_then(|tree| tree.make_entry(KILN))
        .and_then(|entry| entry.write(&program, 0o755, process_owner()));
    if let Err(error) = installed {
        return say(&format!("cannot install the share's kiln: {}", explain(&error)));
    }
    say("continuing with the share's kiln");
    let error = std::process::Command::new(KILN).args(std::env::args_os().skip(1)).env(GUARD, "1").exec();
    say(&format!("cannot run the share's kiln: {error}"));
}

/// The share's program, if there is one and it differs from ours.
fn newer(share: &Path, ours: &Path) -> io::Result<Option<Vec<u8>>> {
    let (kiln, sum) = publication::kiln_files(share);
    let listed = match std::fs::read_to_string(sum) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let listed = listed.split_whitespace().next().unwrap_or_default().to_lowercase();
    let digest = |bytes: &[u8]| hex::encode(Sha256::digest(bytes));
    if listed == digest(&std::fs::read(ours)?) {
        return Ok(None);
    }
    let program = std::fs::read(kiln)?;
    if digest(&program) == listed {
        Ok(Some(program))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "the share's kiln does not match its checksum"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_different_program_with_a_true_checksum_is_taken() {
        let share = tempfile::tempdir().unwrap();
        let ours = share.path().join("ours");
        std::fs::write(&ours, "old").unwrap();
        assert!(newer(share.path(), &ours).unwrap().is_none());

        std::fs::create_dir(share.path().join("bin")).unwrap();
        let sum = hex::encode(Sha256::digest("new"));
        std::fs::write(share.path().join("bin/kiln.sha256"), format!("{sum}  kiln\n")).unwrap();
        std::fs::write(share.path().join("bin/kiln"), "half").unwrap();
        assert!(newer(share.path(), &ours).is_err());
        std::fs::write(share.path().join("bin/kiln"), "new").unwrap();
        assert_eq!(newer(share.path(), &ours).unwrap().unwrap(), b"new");
        std::fs::write(&ours, "new").unwrap();
        assert!(newer(share.path(), &ours).unwrap().is_none());
    }
}
