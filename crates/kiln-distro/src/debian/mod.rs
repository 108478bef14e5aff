//! Debian.

mod sources;

use kiln_slurm::Release;

use crate::{Bootstrap, Family, PackageList, Paths, Sources, Step, Steps};

pub const DEBIAN: Family = Family {
    name: "debian",
    packages: &[
        ("mariadb", &["mariadb-server"]),
        ("nfs-client", &["nfs-common"]),
        ("nfs-server", &["nfs-kernel-server"]),
        ("pmix", &["libpmix2"]),
        ("slurm-pam", &["libpam-slurm"]),
        ("slurm-pam-adopt", &["libpam-slurm-adopt"]),
        ("slurmdbd", &["slurmdbd", "slurm-wlm-mysql-plugin"]),
    ],
    units: &[("chronyd.service", "chrony.service"), ("sshd.service", "ssh.service")],
    system_groups: &[
        "adm",
        "audio",
        "cdrom",
        "dialout",
        "disk",
        "docker",
        "games",
        "kvm",
        "netdev",
        "plugdev",
        "render",
        "staff",
        "sudo",
        "systemd-journal",
        "tape",
        "users",
        "video",
    ],
    paths: Paths {
        environment: "/etc/default",
        locale: "/etc/default/locale",
        mariadb: "/etc/mysql/mariadb.conf.d",
        pam_sshd: "/etc/pam.d/sshd",
    },
    pam_sshd_with_job: include_str!("pam-sshd-with-job"),
    pam_sshd_in_job: include_str!("pam-sshd-in-job"),
    sources: Sources {
        settle: Step { says: "setting package sources", script: include_str!("settle-sources.sh") },
        files: sources::files,
        credentials: sources::credentials,
    },
    steps: Steps {
        update: Step { says: "updating packages", script: include_str!("update.sh") },
        install: Step { says: "installing packages", script: include_str!("install.sh") },
        clean: Step { says: "removing package caches", script: include_str!("clean.sh") },
    },
    slurm: &[
        ("bookworm", Release::new(22, 5, 8)),
        ("trixie", Release::new(24, 11, 5)),
        ("forky", Release::new(26, 5, 5)),
    ],
    package_list: PackageList {
        command: &["dpkg-query", "--show", "--showformat=${Package}\\t${Version}\\n"],
        parse: |line| line.split_once('\t'),
    },
    bootstrap: Bootstrap {
        command: bootstrap,
        step: "I: ",
        masked: &[
            "apt-daily.timer",
            "apt-daily-upgrade.timer",
            "console-getty.service",
            "e2scrub_all.timer",
            "e2scrub_reap.service",
            "fstrim.timer",
            "getty@tty1.service",
            "systemd-firstboot.service",
        ],
    },
};

/// What a plain image has.
const PLAIN: &str = "systemd,systemd-sysv,dbus,openssh-server,iproute2,nftables,ca-certificates,\
                     iputils-ping,netbase,procps,curl";

/// The snapshots of testing may be older than their stated validity.
const TESTING: &str = "forky";

fn bootstrap(suite: &str) -> Vec<String> {
    let include = format!("--include={PLAIN}");
    let mut command = vec![
        "mmdebstrap",
        "--variant=minbase",
        "--format=directory",
        &include,
        "--aptopt=Acquire::Languages \"none\"",
        "--dpkgopt=force-unsafe-io",
    ];
    if suite == TESTING {
        command.push("--aptopt=Acquire::Check-Valid-Until \"false\"");
    }
    command.push(suite);
    command.into_iter().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_units_are_translated_where_they_differ() {
        assert_eq!(DEBIAN.packages("munge"), ["munge"]);
        assert_eq!(DEBIAN.packages("slurmdbd"), ["slurmdbd", "slurm-wlm-mysql-plugin"]);
        assert_eq!(DEBIAN.unit("sshd.service"), "ssh.service");
        assert_eq!(DEBIAN.unit("munge.service"), "munge.service");
    }

    #[test]
    fn installed_packages_are_read_line_by_line() {
        let parse = DEBIAN.package_list.parse;
        assert_eq!(parse("slurm-client\t22.05.8-4+deb12u3"), Some(("slurm-client", "22.05.8-4+deb12u3")));
        assert_eq!(parse("odd line"), None);
    }

    #[test]
    fn only_testing_may_be_out_of_date() {
        let is_lax = |suite| bootstrap(suite).iter().any(|word| word.contains("Check-Valid-Until"));
        assert!(is_lax("forky") && !is_lax("trixie"));
    }
}
