//! Ubuntu: where it is not as Debian. Another release of it is one line in the table of Slurm's releases, and one in
//! `kiln_spec::System`.

use kiln_slurm::Release;

use super::{DEBIAN, mmdebstrap};
use crate::{Bootstrap, Family, Keyring, Packages, Steps};

pub const UBUNTU: Family = Family {
    name: "ubuntu",
    like: Some(&DEBIAN),
    // The driver's branch for data centers that is supported longest.
    packages: &[("nvidia-driver", &["nvidia-headless-580-server", "nvidia-utils-580-server"])],
    units: &[],
    // sshd is to run from the start, not with the first connection; images are updated, not nodes.
    unwanted_units: &[
        "ssh.socket",
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "motd-news.timer",
        "unattended-upgrades.service",
    ],
    slurm: &[("noble", Release::new(23, 11, 4))],
    installed: Packages { url: "pkg:deb/ubuntu", ..DEBIAN.installed },
    // Its kernel has other names and links.
    steps: Steps { bootable: None, ..DEBIAN.steps },
    bootstrap: Some(Bootstrap { command: bootstrap, keyring: Some(KEYRING), masked: MASKED, step: "I: " }),
    ..DEBIAN
};

const ARCHIVE: &str = "http://archive.ubuntu.com/ubuntu";
const SECURITY: &str = "http://security.ubuntu.com/ubuntu";
/// Slurm is in the second.
const COMPONENTS: &str = "main universe";

/// In an image it is at the same place.
const KEYRING: Keyring = Keyring {
    path: "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
    package: "ubuntu-keyring",
    hint: "Debian has this package since release 13; that one can be installed on Debian 12, too",
};

const MASKED: &[&str] = match &DEBIAN.bootstrap {
    Some(bootstrap) => bootstrap.masked,
    None => &[],
};

/// Of the units that are unwanted in any image, those that a plain one has; none can be disabled that is masked. sshd starts
/// by itself then, when its host key is there.
const SETTLE_UNITS: &str = "export SYSTEMCTL_SKIP_SYSV=1; \
                            chroot \"$1\" systemctl --quiet disable ssh.socket apt-daily.timer apt-daily-upgrade.timer \
                            motd-news.timer && chroot \"$1\" systemctl --quiet enable ssh.service";

/// Of a priority that minimal systems of Debian have; not so here.
const PLAIN_TOO: &str = "--include=apt,ubuntu-keyring";

fn bootstrap(suite: &str, directory: &str) -> Vec<String> {
    let hook = format!("--customize-hook={SETTLE_UNITS}");
    let source =
        |address, part| format!("deb [signed-by={}] {address} {suite}{part} {COMPONENTS}", KEYRING.path);
    let sources = [source(ARCHIVE, ""), source(ARCHIVE, "-updates"), source(SECURITY, "-security")];
    let [release, updates, security] = &sources;
    mmdebstrap(&[PLAIN_TOO, &hook], &[suite, directory, release, updates, security])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_otherwise_is_as_in_debian() {
        assert_eq!(UBUNTU.packages("slurmdbd"), ["slurmdbd", "slurm-wlm-mysql-plugin"]);
        assert_eq!(UBUNTU.packages("munge"), ["munge"]);
        assert_eq!(UBUNTU.packages("nvidia-driver")[0], "nvidia-headless-580-server");
        assert_eq!(UBUNTU.unit("sshd.service"), "ssh.service");
        assert_eq!(UBUNTU.unit("munge.service"), "munge.service");
        assert_eq!(UBUNTU.installed.url, "pkg:deb/ubuntu");
    }

    #[test]
    fn a_plain_image_is_made_from_the_archive_with_updates() {
        let command = bootstrap("noble", "/x");
        let signed = "deb [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg]";
        let sources = [
            format!("{signed} http://archive.ubuntu.com/ubuntu noble main universe"),
            format!("{signed} http://archive.ubuntu.com/ubuntu noble-updates main universe"),
            format!("{signed} http://security.ubuntu.com/ubuntu noble-security main universe"),
        ];
        let at = command.iter().position(|word| word == "noble").unwrap();
        assert_eq!(command[at + 1], "/x");
        assert_eq!(command[at + 2..], sources);
        assert!(command[..at].iter().skip(1).all(|word| word.starts_with("--")), "{command:?}");
    }

    #[test]
    fn masked_units_are_those_of_debian() {
        assert!(MASKED.contains(&"apt-daily.timer"));
    }
}
