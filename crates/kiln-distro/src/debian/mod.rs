//! Debian, and Ubuntu, which was made from it.

mod security;
mod sources;
mod ubuntu;
mod version;

pub use ubuntu::UBUNTU;

use kiln_slurm::Release;

use crate::{
    Bootstrap, Family, HomeAtLogin, ListedPackage, PackageFormat, Packages, Paths, Sources, Step, Steps,
};

pub const DEBIAN: Family = Family {
    name: "debian",
    like: None,
    packages: &[
        ("389-ds", &["389-ds-base"]),
        ("alertmanager", &["prometheus-alertmanager"]),
        ("mariadb", &["mariadb-server"]),
        ("nfs-client", &["nfs-common"]),
        ("nfs-server", &["nfs-kernel-server"]),
        ("node-exporter", &["prometheus-node-exporter"]),
        ("nvidia-driver", &["nvidia-driver", "nvidia-smi", "libcuda1"]),
        ("openmpi", &["openmpi-bin", "libopenmpi-dev"]),
        ("pmix", &["libpmix2"]),
        ("slurm-jwt", &["slurm-wlm-jwt-plugin"]),
        ("slurm-pam", &["libpam-slurm"]),
        ("slurm-pam-adopt", &["libpam-slurm-adopt"]),
        ("slurmdbd", &["slurmdbd", "slurm-wlm-mysql-plugin"]),
        ("sssd", &["sssd-ldap", "sssd-tools", "libnss-sss", "libpam-sss", "libsss-sudo", "ldap-utils"]),
    ],
    units: &[
        ("alertmanager.service", "prometheus-alertmanager.service"),
        ("chronyd.service", "chrony.service"),
        ("node-exporter.service", "prometheus-node-exporter.service"),
        ("sshd.service", "ssh.service"),
    ],
    unwanted_units: &[],
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
    update_certificates: &["update-ca-certificates"],
    paths: Paths {
        certificates: "/usr/local/share/ca-certificates",
        environment: "/etc/default",
        locale: "/etc/default/locale",
        mariadb: "/etc/mysql/mariadb.conf.d/60-kiln.cnf",
        pam_sshd: "/etc/pam.d/sshd",
        pmix: "/usr/lib/*/libpmix.so.2 /usr/lib/*/pmix2/lib/libpmix.so.2",
    },
    pam_sshd_with_job: include_str!("pam-sshd-with-job"),
    pam_sshd_in_job: include_str!("pam-sshd-in-job"),
    home_at_login: HomeAtLogin {
        command: &["pam-auth-update", "--package", "--enable", "mkhomedir"],
        done: &["grep", "-q", "pam_mkhomedir", "/etc/pam.d/common-session"],
    },
    sources: Sources {
        settle: Step { says: "setting package sources", script: include_str!("settle-sources.sh") },
        files: sources::files,
        credentials: sources::credentials,
        format: PackageFormat::Deb,
    },
    security: Some(security::SECURITY),
    steps: Steps {
        lock: Step {
            says: "looking for the packages of the lock",
            script: concat!(include_str!("lax.sh"), include_str!("lock.sh")),
        },
        update: Step {
            says: "updating packages",
            script: concat!(include_str!("apt.sh"), include_str!("lax.sh"), include_str!("update.sh")),
        },
        reboot_for: "cat /run/kiln-reboot-for; [ ! -e /run/reboot-required ] || echo the system",
        install: Step {
            says: "installing packages",
            script: concat!(include_str!("apt.sh"), include_str!("install.sh")),
        },
        hold: Step { says: "holding packages", script: include_str!("hold.sh") },
        keep: Some(Step { says: "gathering packages", script: include_str!("keep-packages.sh") }),
        clean: Step { says: "removing package caches", script: include_str!("clean.sh") },
        bootable: Some(Step {
            says: "installing kernel and boot loader",
            script: concat!(include_str!("lax.sh"), include_str!("bootable.sh")),
        }),
    },
    slurm: &[
        ("bookworm", Release::new(22, 5, 8)),
        ("trixie", Release::new(24, 11, 5)),
        ("forky", Release::new(26, 5, 5)),
    ],
    installed: Packages {
        list: include_str!("list-packages.sh"),
        parse: listed,
        compare: version::compare,
        url: "pkg:deb/debian",
        hash_of_file: true,
        kernel,
    },
    traces: &[
        ("/etc/apt/auth.conf", "credentials of package sources"),
        ("/etc/apt/auth.conf.d/*", "credentials of package sources"),
        ("/var/cache/apt/**", "a cache of packages"),
        ("/var/lib/apt/lists/**", "a cache of lists of packages"),
    ],
    checks: &[],
    bootstrap: Some(Bootstrap {
        command: bootstrap,
        // mmdebstrap knows Debian's.
        keyring: None,
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
    }),
};

/// A line of `list-packages.sh`.
fn listed(line: &str) -> Option<ListedPackage<'_>> {
    let mut fields = line.split('\t');
    let mut next = || fields.next().filter(|field| !field.is_empty());
    let (name, version, architecture, sha256) = (next()?, next()?, next()?, next()?);
    Some(ListedPackage { name, version, architecture, sha256: Some(sha256).filter(|sum| sum.len() == 64) })
}

/// The name has the version.
fn kernel<'a>(name: &'a str, _: &'a str) -> Option<&'a str> {
    name.strip_prefix("linux-image-").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// What a plain image has.
const PLAIN: &str = "systemd,systemd-sysv,dbus,openssh-server,iproute2,nftables,ca-certificates,\
                     iputils-ping,netbase,procps,curl";

/// The snapshots of testing may be older than their stated validity.
const TESTING: &str = "forky";

/// mmdebstrap leaves its options for apt in the image, whose nodes are to check validity.
const STRICT_AGAIN: &str = "sed -i /Check-Valid-Until/d \"$1\"/etc/apt/apt.conf.d/99mmdebstrap";

fn bootstrap(suite: &str, directory: &str) -> Vec<String> {
    let strict_again = format!("--customize-hook={STRICT_AGAIN}");
    let lax = ["--aptopt=Acquire::Check-Valid-Until \"false\"", &strict_again];
    let options = if suite == TESTING { &lax[..] } else { &[] };
    mmdebstrap(options, &[suite, directory])
}

fn mmdebstrap(options: &[&str], arguments: &[&str]) -> Vec<String> {
    let include = format!("--include={PLAIN}");
    let always = [
        "mmdebstrap",
        "--variant=minbase",
        "--format=directory",
        &include,
        "--aptopt=Acquire::Languages \"none\"",
        "--dpkgopt=force-unsafe-io",
    ];
    [&always, options, arguments].concat().into_iter().map(String::from).collect()
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
        let parse = DEBIAN.installed.parse;
        let sum = "c24fe4eb8e60d8632d72ed104cce7c92cff200847c897dc8ba764b6c47b519e0";
        let line = format!("slurm-client\t22.05.8-4+deb12u3\tamd64\t{sum}");
        let listed = parse(&line).unwrap();
        assert_eq!(
            (listed.name, listed.version, listed.architecture),
            ("slurm-client", "22.05.8-4+deb12u3", "amd64")
        );
        assert_eq!(listed.sha256, Some(sum));
        assert_eq!(parse("own\t1\tall\t-").unwrap().sha256, None);
        assert_eq!(parse("odd line"), None);
        assert_eq!(parse("two\tfields"), None);
    }

    /// On a system with packages that are installed, held, removed with their configuration left, and in no list.
    #[test]
    fn only_installed_packages_are_listed_with_their_hashes() {
        let dir = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\ncat <<'END'\n{text}END\n")).unwrap();
            std::process::Command::new("chmod").arg("755").arg(&path).status().unwrap();
        };
        program(
            "dpkg-query",
            "ii \ta\t1\tamd64\nhi \tb\t2:3-4\tall\nrc \tgone\t1\tamd64\nii \town\t1\tall\n",
        );
        program(
            "apt-cache",
            "Package: a\nVersion: 1\nArchitecture: amd64\nDescription: a\n b\tc\td\nSHA256: 0a\n\nPackage: own\nVersion: 1\nArchitecture: all\n\nPackage: b\nVersion: 2:3-4\nArchitecture: all\nSHA256: 0b\n",
        );
        let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
        let output = std::process::Command::new("sh")
            .args(["-c", DEBIAN.installed.list])
            .env("PATH", path)
            .output()
            .unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        assert_eq!(lines, "a\t1\tamd64\t0a\nb\t2:3-4\tall\t0b\nown\t1\tall\t-\n");
    }

    /// With an apt-get that has one package to fetch: what it has fetched.
    fn installed_with(store: &std::path::Path) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let archives = path("archives");
        std::fs::create_dir(&archives).unwrap();
        let sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        let apt = format!(
            "#!/bin/sh\ncase \"$*\" in *print-uris*) echo \"'http://a/x_1_all.deb' x_1_all.deb 1 SHA256:{sum}\"; exit;; esac\n\
             [ -e {archives}/x_1_all.deb ] || {{ printf x >{archives}/x_1_all.deb; echo x >>{}; }}\n",
            path("fetched")
        );
        std::fs::write(path("apt-get"), apt).unwrap();
        std::process::Command::new("chmod").args(["755", &path("apt-get")]).status().unwrap();
        let script = include_str!("apt.sh")
            .replace("/run/kiln-packages", &store.display().to_string())
            .replace("/var/cache/apt/archives", &archives);
        let status = std::process::Command::new("sh")
            .args(["-c", &format!("set -eu\n{script}\napt install x")])
            .env("PATH", format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap()))
            .status();
        assert!(status.unwrap().success());
        std::fs::read_to_string(path("fetched")).unwrap_or_default()
    }

    #[test]
    fn a_package_is_fetched_once_unless_what_was_stored_is_another() {
        let store = tempfile::tempdir().unwrap();
        assert_eq!(installed_with(store.path()), "x\n");
        assert_eq!(installed_with(store.path()), "");
        let stored = std::fs::read_dir(store.path()).unwrap().next().unwrap().unwrap().path();
        std::fs::write(&stored, "y").unwrap();
        assert_eq!(installed_with(store.path()), "x\n");
        assert_eq!(std::fs::read_to_string(stored).unwrap(), "x");
        // A cloud that has no such directory.
        let none = store.path().join("none");
        assert_eq!((installed_with(&none), none.exists()), ("x\n".to_string(), false));
    }

    #[test]
    fn only_testing_may_be_out_of_date() {
        let is_lax = |suite| bootstrap(suite, "/x").iter().any(|word| word.contains("Check-Valid-Until"));
        assert!(is_lax("forky") && !is_lax("trixie"));
    }

    /// As mmdebstrap does it: every option of apt goes into the image, then hooks run.
    #[test]
    fn no_image_keeps_what_its_making_was_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("etc/apt/apt.conf.d");
        std::fs::create_dir_all(&conf).unwrap();
        let command = bootstrap("forky", "/x");
        let with = |option: &str| -> Vec<&str> {
            command.iter().filter_map(|word| word.strip_prefix(option)).collect()
        };
        let options = with("--aptopt=").join(";\n") + ";\n";
        std::fs::write(conf.join("99mmdebstrap"), options).unwrap();
        for hook in with("--customize-hook=") {
            let status = std::process::Command::new("sh").args(["-c", hook, "sh"]).arg(dir.path()).status();
            assert!(status.unwrap().success());
        }
        let left = std::fs::read_to_string(conf.join("99mmdebstrap")).unwrap();
        assert_eq!(left, "Acquire::Languages \"none\";\n");
    }

    /// Only the commands of a build are told, and only for such lists.
    #[test]
    fn a_build_takes_old_lists_of_snapshots_and_of_testing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("apt")).unwrap();
        let lax = |codename: &str, source: &str| {
            std::fs::write(
                dir.path().join("os-release"),
                format!("ID=debian\nVERSION_CODENAME={codename}\n"),
            )
            .unwrap();
            std::fs::write(dir.path().join("apt/sources.list"), source).unwrap();
            let script = include_str!("lax.sh").replace("/etc/", &format!("{}/", dir.path().display()));
            let script = format!("set -eu\n{script}printf %s \"$lax\"");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let (now, then) =
            ("deb http://a.example/debian x main\n", "deb http://a.example/20260101T000000Z x main\n");
        assert_eq!(lax("trixie", now), "");
        assert_eq!(lax("trixie", then), "-o Acquire::Check-Valid-Until=false");
        assert_eq!(lax("forky", now), "-o Acquire::Check-Valid-Until=false");
        // Kiln's own, and those that are out of use, loosen nothing.
        std::fs::create_dir(dir.path().join("apt/sources.list.d")).unwrap();
        for name in ["kiln-site.sources", "old.list.kiln.disabled"] {
            std::fs::write(dir.path().join("apt/sources.list.d").join(name), then).unwrap();
        }
        assert_eq!(lax("trixie", now), "");
        for step in [&DEBIAN.steps.lock, &DEBIAN.steps.update, DEBIAN.steps.bootable.as_ref().unwrap()] {
            let updates =
                step.script.lines().filter(|line| line.starts_with("apt-get") && line.ends_with(" update"));
            assert!(
                updates.clone().count() == 1 && updates.clone().all(|line| line.contains(" $lax ")),
                "{}",
                step.says
            );
        }
    }
    /// Before anything is changed.
    #[test]
    fn parameters_of_the_kernel_that_a_disk_cannot_have_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (checks, _) = include_str!("bootable.sh").split_once("\nprintf '#!/bin/sh").unwrap();
        let script = checks.replace("/etc/kernel/cmdline", &file.path().display().to_string());
        let said = |line: &str| {
            std::fs::write(file.path(), line).unwrap();
            let script = script.clone() + "\nprintf %s \"$parameters\"\n";
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let text = if output.status.success() { output.stdout } else { output.stderr };
            String::from_utf8(text).unwrap()
        };
        assert_eq!(said("mitigations=off\tquiet\n"), "mitigations=off quiet ");
        assert_eq!(said(""), "");
        for line in ["memmap=1G$4G", "a;b", "a\"b", "a|b", "a&b", "a\\b"] {
            assert!(said(line).contains("may have letters, digits"), "{line}");
        }
        for line in ["root=/dev/sda1 ro", "quiet root=LABEL=x", "quiet\nroot=LABEL=x"] {
            assert!(said(line).contains("has root=, which Kiln sets"), "{line}");
        }
        assert_eq!(said("rootdelay=5 x.root=1"), "rootdelay=5 x.root=1");
    }
}
