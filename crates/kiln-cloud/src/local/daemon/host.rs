//! Settings of the host's kernel that instances need. The earlier values are remembered and come back when
//! the last network goes, unless somebody else has changed them or uses them by now. The note is shared by all roots, so that the last of them restores, and it is lost
//! with the settings themselves when the host restarts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::store;
use crate::local::exec;
use crate::{Error, Result};

const NOTE_DIR: &str = "/run/kiln";
const NOTE: &str = "/run/kiln/host-settings.json";

const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

/// At least these values.
const WANTED: [(&str, u64); 3] = [
    (FORWARD, 1),
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
    let user = other_forwarding();
    for (path, value) in recall() {
        if path == FORWARD
            && let Some(user) = &user
        {
            tracing::info!(path, user, "left as it is: something else on this host uses it");
            continue;
        }
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

/// What else on this host needs packets to be forwarded, as far as it can be seen: address translation, a bridge, a tunnel, or
/// a file that asks for it at every boot.
fn other_forwarding() -> Option<String> {
    let ruleset = exec::run("nft", &["list", "ruleset"], "").unwrap_or_default();
    if let Some(table) = translating(&ruleset) {
        return Some(format!("address translation in table {table}"));
    }
    let links = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let others = links.filter(|link| !link.file_name().to_string_lossy().starts_with("kb"));
    let mut in_use = others.filter_map(|link| {
        Some(format!("{} {}", carries(&link.path())?, link.file_name().to_string_lossy()))
    });
    in_use.next().or_else(|| asked_at_boot(Path::new("/")))
}

/// What a link is, if others' packets go through it.
fn carries(link: &Path) -> Option<&'static str> {
    let is_wireguard =
        || fs::read_to_string(link.join("uevent")).is_ok_and(|text| text.contains("DEVTYPE=wireguard"));
    if link.join("bridge").exists() {
        return Some("bridge");
    }
    (link.join("tun_flags").exists() || is_wireguard()).then_some("tunnel")
}

/// The first file of `sysctl` that asks for forwarding.
fn asked_at_boot(root: &Path) -> Option<String> {
    let folders = ["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"];
    let inside = folders.into_iter().flat_map(|folder| fs::read_dir(root.join(folder)).into_iter().flatten());
    let files =
        inside.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some("conf".as_ref()));
    let mut all = files.chain([root.join("etc/sysctl.conf")]);
    let asks = |line: &str| {
        let (key, value) = line.split_once('=').unwrap_or_default();
        key.trim().replace('/', ".") == "net.ipv4.ip_forward" && value.trim() == "1"
    };
    all.find(|path| fs::read_to_string(path).is_ok_and(|text| text.lines().any(asks)))
        .map(|path| path.display().to_string())
}

/// The first table of others that has rules to translate addresses.
fn translating(ruleset: &str) -> Option<String> {
    let (mut table, mut nat) = (String::new(), false);
    for line in ruleset.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["table", family, name, ..] => (table, nat) = (format!("{family} {name}"), false),
            ["type", "nat", ..] => nat = true,
            ["}"] => nat = false,
            _ if table.contains(" kiln-") || words.is_empty() || words[0] == "chain" => {}
            _ if nat || words.contains(&"masquerade") || words.contains(&"MASQUERADE") => return Some(table),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bridges_tunnels_and_files_of_others_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let make = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        make("eth0/uevent", "INTERFACE=eth0\n");
        make("br0/bridge/forward_delay", "0");
        make("tun0/tun_flags", "0x1001");
        make("wg0/uevent", "DEVTYPE=wireguard\nINTERFACE=wg0\n");
        let seen = ["eth0", "br0", "tun0", "wg0"].map(|name| carries(&dir.path().join(name)));
        assert_eq!(seen, [None, Some("bridge"), Some("tunnel"), Some("tunnel")]);

        make("etc/sysctl.conf", "#net.ipv4.ip_forward=1\nnet.ipv4.ip_forward = 0\n");
        make("etc/sysctl.d/README", "net.ipv4.ip_forward=1\n");
        assert_eq!(asked_at_boot(dir.path()), None);
        make("usr/lib/sysctl.d/50-router.conf", "# forward\nnet/ipv4/ip_forward = 1\n");
        assert!(asked_at_boot(dir.path()).is_some_and(|path| path.ends_with("50-router.conf")));
    }

    #[test]
    fn address_translation_of_others_is_seen() {
        let ours = "table ip kiln-x {\n\tchain postrouting {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\
            \t\tip saddr 10.0.0.0/24 masquerade\n\t}\n}\n";
        let empty = "table ip nat {\n\tchain POSTROUTING {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\t}\n\
            \tchain x {\n\t\tcounter packets 0 bytes 0\n\t}\n}\n";
        let theirs = "table ip nat {\n\tchain POSTROUTING {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\
            \t\tip saddr 172.17.0.0/16 counter packets 0 bytes 0 masquerade\n\t}\n}\n";
        assert_eq!(translating(""), None);
        assert_eq!(translating(&format!("{ours}{empty}")), None);
        assert_eq!(translating(&format!("{ours}{theirs}")).as_deref(), Some("ip nat"));
    }
}
