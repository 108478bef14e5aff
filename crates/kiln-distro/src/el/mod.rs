//! Enterprise Linux: Rocky Linux, AlmaLinux and what else is made from the sources of RHEL. Slurm's packages have the names that
//! Slurm's own spec file gives them, as those of EPEL do.

mod sources;
mod version;

use crate::{Ask, Family, HomeAtLogin, ListedPackage, PackageFormat, Packages, Paths, Sources, Step, Steps};

pub const EL: Family = Family {
    name: "el",
    like: None,
    packages: &[
        ("389-ds", &["389-ds-base"]),
        ("iproute2", &["iproute"]),
        ("mariadb", &["mariadb-server"]),
        ("nfs-client", &["nfs-utils"]),
        ("nfs-server", &["nfs-utils"]),
        ("openmpi", &["openmpi", "openmpi-devel"]),
        ("procps", &["procps-ng"]),
        ("slurm-client", &["slurm"]),
        ("slurm-jwt", &["slurm"]),
        ("slurm-pam", &["slurm-pam_slurm"]),
        ("slurm-pam-adopt", &["slurm-pam_slurm"]),
        ("slurmctld", &["slurm-slurmctld"]),
        ("slurmd", &["slurm-slurmd"]),
        ("slurmdbd", &["slurm-slurmdbd"]),
        ("slurmrestd", &["slurm-slurmrestd"]),
        (
            "sssd",
            &[
                "sssd-ldap",
                "sssd-tools",
                "sssd-client",
                "libsss_sudo",
                "openldap-clients",
                "authselect",
                "oddjob-mkhomedir",
            ],
        ),
    ],
    // All units have the names of their authors.
    units: &[],
    // They refuse the connections of Slurm, and fetch lists of packages on every node.
    unwanted_units: &["firewalld.service", "dnf-makecache.timer"],
    system_groups: &[
        "adm",
        "audio",
        "cdrom",
        "dialout",
        "disk",
        "docker",
        "floppy",
        "games",
        "input",
        "kvm",
        "lp",
        "mail",
        "man",
        "render",
        "systemd-journal",
        "tape",
        "tty",
        "users",
        "utmp",
        "video",
        "wheel",
    ],
    update_certificates: &["update-ca-trust"],
    paths: Paths {
        certificates: "/etc/pki/ca-trust/source/anchors",
        environment: "/etc/sysconfig",
        locale: "/etc/locale.conf",
        // Behind mariadb-server.cnf, which names a data directory.
        mariadb: "/etc/my.cnf.d/zz-kiln.cnf",
        pam_sshd: "/etc/pam.d/sshd",
        pmix: "/usr/lib64/libpmix.so.2",
    },
    pam_sshd_with_job: include_str!("pam-sshd-with-job"),
    pam_sshd_in_job: include_str!("pam-sshd-in-job"),
    home_at_login: HomeAtLogin {
        command: &[
            "sh",
            "-c",
            "authselect select sssd with-mkhomedir with-sudo --force && systemctl enable --now oddjobd.service",
        ],
        done: &["grep", "-q", "mkhomedir", "/etc/pam.d/password-auth"],
    },
    sources: Sources {
        settle: Step { says: "setting package sources", script: include_str!("settle-sources.sh") },
        files: sources::files,
        credentials: sources::credentials,
        format: PackageFormat::Rpm,
    },
    security: None,
    steps: Steps {
        lock: Step { says: "looking for the packages of the lock", script: include_str!("lock.sh") },
        update: Step { says: "updating packages", script: include_str!("update.sh") },
        // Written by the update. The plugin that dnf has for it is not in every image.
        reboot_for: "cat /run/kiln-reboot-for",
        install: Step { says: "installing packages", script: include_str!("install.sh") },
        hold: Step { says: "holding packages", script: include_str!("hold.sh") },
        keep: None,
        clean: Step { says: "removing package caches", script: include_str!("clean.sh") },
        bootable: None,
    },
    // What EPEL or the site has.
    slurm: &[],
    installed: Packages {
        list: include_str!("list-packages.sh"),
        parse: listed,
        compare: version::compare,
        url: "pkg:rpm",
        hash_of_file: false,
        kernel: |name, version| (name == "kernel-core").then_some(version),
    },
    traces: &[
        ("/var/cache/dnf/**", "a cache of packages"),
        ("/run/kiln-sources/**", "credentials of package sources"),
    ],
    checks: &[
        Ask {
            complaint: "SELinux is enforced: services cannot read what they have on volumes. Set it to permissive",
            command: &["sh", "-c", "! grep -qx 1 /sys/fs/selinux/enforce 2>/dev/null"],
        },
        // Where the plugin is not installed, nothing is known; nor on a node that is too busy for dnf, which is slow to start.
        Ask {
            complaint: "packages were updated since the last boot that need a reboot",
            command: &["sh", "-c", "timeout 8 dnf -q needs-restarting -r >/dev/null 2>&1; [ $? -ne 1 ]"],
        },
    ],
    bootstrap: None,
};

/// A line of `list-packages.sh`.
fn listed(line: &str) -> Option<ListedPackage<'_>> {
    let mut fields = line.split('\t');
    let mut next = || fields.next().filter(|field| !field.is_empty());
    let (name, version, architecture, sha256) = (next()?, next()?, next()?, next()?);
    Some(ListedPackage { name, version, architecture, sha256: Some(sha256).filter(|sum| sum.len() == 64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_has_the_names_of_slurms_own_spec_file() {
        assert_eq!(EL.packages("slurmd"), ["slurm-slurmd"]);
        assert_eq!(EL.packages("slurm-client"), ["slurm"]);
        assert_eq!(EL.packages("munge"), ["munge"]);
        assert_eq!(EL.unit("sshd.service"), "sshd.service");
    }

    /// With an rpm that has two packages. A lock puts the settings of dnf aside until the end of the build.
    #[test]
    fn dnf_passes_over_what_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("rpm"), "#!/bin/sh\ncase $2 in slurm | kernel-core) ;; *) exit 1 ;; esac\n")
            .unwrap();
        std::process::Command::new("chmod").arg("755").arg(path("rpm")).status().unwrap();
        let hold = |packages: &[&str]| {
            let script = EL.steps.hold.script.replace("/etc/dnf", &dir.path().display().to_string());
            let output = std::process::Command::new("sh")
                .args(["-c", &script, "sh"])
                .args(packages)
                .env("PATH", format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap()))
                .output()
                .unwrap();
            (output.status.success(), String::from_utf8(output.stderr).unwrap())
        };
        let (conf, aside) = (path("dnf.conf"), path("kiln-before-lock.conf"));
        std::fs::write(&conf, "[main]\nbest=True\n").unwrap();
        let (is_held, said) = hold(&["slurm", "vim-minimal"]);
        assert!(!is_held && said.contains("not installed: vim-minimal"), "{said}");
        assert_eq!(std::fs::read_to_string(&conf).unwrap(), "[main]\nbest=True\n");
        assert!(hold(&["slurm"]).0);
        assert!(hold(&["kernel-core", "slurm"]).0, "also of an image upon one that holds some");
        assert_eq!(
            std::fs::read_to_string(&conf).unwrap(),
            "[main]\nexcludepkgs=slurm,kernel-core,slurm\nbest=True\n"
        );
        std::fs::write(&aside, "[main]\n").unwrap();
        assert!(hold(&["slurm"]).0);
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), "[main]\nexcludepkgs=slurm\n");
        std::fs::write(&aside, "").unwrap();
        assert!(!hold(&["slurm"]).0, "there is no place for it");
    }

    #[test]
    fn installed_packages_are_read_line_by_line() {
        let sum = "ab".repeat(32);
        let line = format!("slurm\t1:22.05.9-1.el9\tx86_64\t{sum}");
        let read = (EL.installed.parse)(&line).unwrap();
        assert_eq!((read.name, read.version, read.architecture), ("slurm", "1:22.05.9-1.el9", "x86_64"));
        assert_eq!(read.sha256, Some(sum.as_str()));
        assert_eq!((EL.installed.parse)("old\t1-1\tnoarch\t(none)").unwrap().sha256, None);
        assert_eq!((EL.installed.parse)("odd line"), None);
    }
}
