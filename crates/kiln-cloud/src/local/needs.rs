//! What the host must bring along. Looked at before anything is touched, so that a host that lacks something
//! says so in one sentence.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::cgroup;
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
