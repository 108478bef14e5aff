//! What the host must bring along. Looked at before anything is touched, so that a host that lacks something
//! says so in one sentence.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{SOCKET, cgroup};
use crate::{Class, Error, Result};

/// Programs, and the Debian packages they are in.
const PROGRAMS: [(&str, &str); 4] = [
    ("systemd-nspawn", "systemd-container"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("mmdebstrap", "mmdebstrap"),
];

/// Where administrators' programs are; a user's own list often lacks them.
const SYSTEM_PATH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

pub fn root() -> Result<()> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Error::unsupported("the local cloud needs root")
            .with_hint("run it again as root, for example with sudo"))
    }
}

/// Whoever may write to the root of a local cloud is root on this host: instances and their disks come from there.
pub fn private(root: &Path) -> Result<()> {
    let found = match std::fs::symlink_metadata(root) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| Error::failed(format!("cannot use {}", root.display())).because(e))?,
    };
    let own = [0, rustix::process::geteuid().as_raw()].contains(&found.uid());
    let why = match () {
        () if !found.is_dir() => "it is not a directory",
        () if !own => "it belongs to another user",
        () if found.mode() & 0o022 != 0 => "others may write to it",
        () => return Ok(()),
    };
    Err(Error::refused(format!("{} cannot be the root of a local cloud: {why}", root.display())).with_hint(
        "use a directory that belongs to root and that only root can write to, with KILN_LOCAL_ROOT",
    ))
}

/// The address of a socket has room for 107 bytes.
pub fn short(root: &Path) -> Result<()> {
    let longest = 107 - 1 - SOCKET.len();
    if root.as_os_str().len() <= longest {
        return Ok(());
    }
    let text = format!("{} cannot be the root of a local cloud: the path is too long", root.display());
    Err(Error::refused(text)
        .with_hint(format!("use a path of at most {longest} characters, with KILN_LOCAL_ROOT")))
}

/// Everything a daemon and its instances need.
pub fn all() -> Result<()> {
    root()?;
    programs(|program| search_list().iter().any(|dir| dir.join(program).is_file()))?;
    cgroup::hierarchy().map(drop).map_err(|error| error.sorted(Class::Unsupported))
}

fn programs(is_there: impl Fn(&str) -> bool) -> Result<()> {
    let (missing, packages): (Vec<_>, Vec<_>) =
        PROGRAMS.into_iter().filter(|(program, _)| !is_there(program)).unzip();
    if missing.is_empty() {
        return Ok(());
    }
    let verb = if missing.len() == 1 { "is" } else { "are" };
    Err(Error::unsupported(format!("{} {verb} missing; install {}", missing.join(", "), packages.join(", "))))
}

/// The `PATH` a daemon is started with.
pub fn search_path() -> OsString {
    // Only a directory with a colon in its name could not be joined, and none comes out of a split.
    std::env::join_paths(search_list()).unwrap_or_else(|_| SYSTEM_PATH.join(":").into())
}

fn search_list() -> Vec<PathBuf> {
    let own = std::env::var_os("PATH").unwrap_or_default();
    extended(&own)
}

fn extended(own: &OsStr) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = std::env::split_paths(own).filter(|dir| dir.is_absolute()).collect();
    for dir in SYSTEM_PATH.map(PathBuf::from) {
        if !list.contains(&dir) {
            list.push(dir);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_others_can_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cloud");
        assert!(private(&root).is_ok(), "it is made when it is missing");
        std::fs::create_dir(&root).unwrap();
        for (mode, accepted) in
            [(0o700, true), (0o755, true), (0o775, false), (0o777, false), (0o1777, false)]
        {
            std::fs::set_permissions(&root, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(private(&root).is_ok(), accepted, "{mode:o}");
        }
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o700)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let refused = private(&link).unwrap_err().to_string();
        assert!(refused.ends_with("cannot be the root of a local cloud: it is not a directory"), "{refused}");
        // Only root can give a directory away; for anybody else there is one that is root's.
        let others = if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&root, Some(65_534), None).unwrap();
            root
        } else {
            PathBuf::from("/")
        };
        let refused = private(&others).unwrap_err().to_string();
        assert!(refused.ends_with("it belongs to another user"), "{refused}");
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused() {
        assert!(short(&Path::new("/").join("x".repeat(96))).is_ok());
        let refused = short(&Path::new("/").join("x".repeat(98))).unwrap_err().to_string();
        assert!(refused.ends_with("the path is too long"), "{refused}");
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        assert!(programs(|_| true).is_ok());
        let said = programs(|p| p != "systemd-nspawn").unwrap_err().to_string();
        assert_eq!(said, "systemd-nspawn is missing; install systemd-container");
        let said = programs(|p| p == "systemd-nspawn" || p == "mmdebstrap").unwrap_err().to_string();
        assert_eq!(said, "ip, nft are missing; install iproute2, nftables");
    }

    #[test]
    fn a_users_path_is_kept_and_completed() {
        let list = extended(OsStr::new("/opt/bin:/usr/bin:relative:"));
        assert_eq!(list[..2], [PathBuf::from("/opt/bin"), PathBuf::from("/usr/bin")]);
        assert!(list.contains(&PathBuf::from("/usr/sbin")));
        assert_eq!(list.len(), 7);
    }
}
