//! The systemd units that every image carries.

use std::io;
use std::path::Path;

/// Who this node is: host name, host key, root's key. Before sshd, so that the first connection finds the key it
/// expects, and before the unit by which EL makes a key of that kind where it is missing.
pub const IDENTITY: (&str, &str) = (
    "kiln-identity.service",
    "[Unit]
Description=Kiln: take on this node's identity
After=local-fs.target systemd-machine-id-commit.service
Before=ssh.service sshd.service sshd-keygen@ed25519.service

[Service]
Type=oneshot
ExecStart=/usr/local/bin/kiln node identity
RemainAfterExit=yes
StandardOutput=journal+console
StandardError=journal+console

[Install]
WantedBy=multi-user.target
",
);

/// What this node does. It starts services itself, so nothing that it starts may be ordered after it. Where the other unit had to
/// give up, this one goes on asking who the node is.
pub const NODE: (&str, &str) = (
    "kiln-node.service",
    "[Unit]
Description=Kiln: fetch and apply this node's bundle
After=kiln-identity.service ssh.service sshd.service dbus.service
Wants=kiln-identity.service

[Service]
Type=oneshot
ExecStart=/usr/local/bin/kiln node boot
RemainAfterExit=yes
TimeoutStartSec=infinity
StandardOutput=journal+console
StandardError=journal+console

[Install]
WantedBy=multi-user.target
",
);

/// Puts the units into a file system, enabled. `root` is `/` on a running system.
pub fn install(root: &Path) -> io::Result<()> {
    let folder = root.join("etc/systemd/system");
    let wants = folder.join("multi-user.target.wants");
    std::fs::create_dir_all(&wants)?;
    for (name, text) in [IDENTITY, NODE] {
        std::fs::write(folder.join(name), text)?;
        let link = wants.join(name);
        if link.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(Path::new("/etc/systemd/system").join(name), link)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installing_twice_is_the_same_as_once() {
        let root = tempfile::tempdir().unwrap();
        install(root.path()).unwrap();
        install(root.path()).unwrap();
        let link = root.path().join("etc/systemd/system/multi-user.target.wants/kiln-node.service");
        assert_eq!(std::fs::read_link(link).unwrap(), Path::new("/etc/systemd/system/kiln-node.service"));
    }
}
