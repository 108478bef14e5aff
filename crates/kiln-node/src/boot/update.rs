//! Taking over the share's own `kiln`, so that every node runs the one its bundle was made by. The sealed bundle says which
//! one that is: nothing else on the share is proof.

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
pub(super) fn adopt(share: &Path, digest: &str) {
    if std::env::var_os(GUARD).is_some() {
        return;
    }
    let program = match newer(share, Path::new("/proc/self/exe"), digest) {
        Ok(None) => return,
        Ok(Some(program)) => program,
        Err(error) => {
            return say(&format!("the share's kiln is not used: {}", explain(&error)));
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

/// The share's program, if it is the one with this digest and ours is not.
fn newer(share: &Path, ours: &Path, digest: &str) -> io::Result<Option<Vec<u8>>> {
    let is_wanted = |bytes: &[u8]| hex::encode(Sha256::digest(bytes)).eq_ignore_ascii_case(digest);
    if is_wanted(&std::fs::read(ours)?) {
        return Ok(None);
    }
    let program = std::fs::read(publication::kiln_file(share))?;
    if is_wanted(&program) {
        Ok(Some(program))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "it is not the one that this node's bundle names"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_program_that_the_bundle_names_is_taken() {
        let share = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| std::fs::write(share.path().join(path), text).unwrap();
        let ours = share.path().join("ours");
        put("ours", "old");
        let digest = hex::encode(Sha256::digest("new"));
        let look = || newer(share.path(), &ours, &digest);
        assert!(look().is_err(), "there is none");

        std::fs::create_dir(share.path().join("bin")).unwrap();
        // Whoever can write the program can write its checksum.
        put("bin/kiln", "tampered");
        put("bin/kiln.sha256", &hex::encode(Sha256::digest("tampered")));
        assert!(look().is_err());
        put("bin/kiln", "new");
        assert_eq!(look().unwrap().unwrap(), b"new");
        put("ours", "new");
        put("bin/kiln", "tampered");
        assert!(look().unwrap().is_none());
    }
}
