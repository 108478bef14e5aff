//! Settings of the host's kernel that instances need. The earlier values are remembered and come back when
//! the last network goes. The note is shared by all roots, so that the last of them restores, and it is lost
//! with the settings themselves when the host restarts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::store;
use crate::local::exec;
use crate::{Error, Result};

const NOTE_DIR: &str = "/run/kiln";
const NOTE: &str = "/run/kiln/host-settings.json";

/// At least these values.
const WANTED: [(&str, u64); 3] = [
    ("/proc/sys/net/ipv4/ip_forward", 1),
    // Every systemd takes about ten, and the usual limit of 128 is for all of root's together.
    ("/proc/sys/fs/inotify/max_user_instances", 16_384),
    ("/proc/sys/fs/inotify/max_user_watches", 524_288),
];

pub fn prepare() -> Result<()> {
    let mut before = recall();
    for (path, wanted) in WANTED {
        let failed = |e: std::io::Error| Error::failed(format!("cannot use {path}")).because(e);
        let value = read(path).map_err(failed)?;
        if value < wanted {
            before.entry(path.to_string()).or_insert(value);
            // Noted first: a crash in between restores what was not changed, which does no harm.
            store::make_dir(Path::new(NOTE_DIR))?;
            store::write_json(Path::new(NOTE), &before)?;
            fs::write(path, wanted.to_string()).map_err(failed)?;
        }
    }
    Ok(())
}

/// To be called when this root's rules are gone.
pub fn restore() -> Result<()> {
    // Other roots' instances rely on the settings too; the last one to go restores.
    let tables = exec::run("nft", &["list", "tables", "ip"], "")?;
    if tables.lines().any(|line| line.contains(" kiln-")) {
        return Ok(());
    }
    for (path, value) in recall() {
        // What somebody else has set since is theirs.
        let ours = WANTED.iter().any(|(p, wanted)| *p == path && read(p).is_ok_and(|now| now == *wanted));
        if ours && let Err(error) = fs::write(&path, value.to_string()) {
            tracing::warn!(path, %error, "cannot restore");
        }
    }
    store::remove_file(Path::new(NOTE))?;
    let _ = fs::remove_dir(NOTE_DIR);
    Ok(())
}

fn read(path: &str) -> std::io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| std::io::Error::other(format!("unexpected value {}", text.trim())))
}

fn recall() -> BTreeMap<String, u64> {
    fs::read(NOTE).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}
