//! The steps of a build that are the same for every family of systems. Those about packages are in `kiln-distro`.

use kiln_distro::Step;

/// Standard input: the binary; argument: its SHA-256.
pub const INSTALL_KILN: Step = Step { says: "copying kiln", script: include_str!("install-kiln.sh") };

/// Arguments: `NAME:NUMBER` of each.
pub const MAKE_SERVICE_USERS: Step =
    Step { says: "making service users", script: include_str!("make-service-users.sh") };

/// Kiln decides at configuration which services run on a node. Arguments: units to enable, `--`, units to disable.
pub const SETTLE_SERVICES: Step =
    Step { says: "disabling services", script: include_str!("settle-services.sh") };

/// Standard input: the content; arguments: path, mode and `USER:GROUP`.
pub const WRITE_FILE: Step = Step { says: "writing a file", script: include_str!("write-file.sh") };

/// Arguments: files to remove and directories to empty.
pub const CLEAN: Step = Step { says: "cleaning", script: include_str!("clean.sh") };

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::process::Command;

    use kiln_site::ServiceUser;

    use super::*;

    /// What packages make when they are installed, each if it is not there yet.
    const OF_PACKAGES: [&str; 7] = ["_chrony", "messagebus", "munge", "mysql", "prometheus", "slurm", "sshd"];

    /// A root with nothing but its lists of users.
    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        for (name, text) in [
            ("passwd", "root:x:0:0::/root:/bin/sh\n"),
            ("group", "root:x:0:\n"),
            ("shadow", "root:*:1::::::\n"),
            ("gshadow", "root:*::\n"),
            ("login.defs", "SYS_UID_MIN 100\nSYS_UID_MAX 999\nSYS_GID_MIN 100\nSYS_GID_MAX 999\n"),
        ] {
            std::fs::write(root.path().join("etc").join(name), text).unwrap();
        }
        root
    }

    fn make_service_users(root: &Path) {
        let root = root.display().to_string();
        let script = MAKE_SERVICE_USERS
            .script
            .replace("/usr/sbin/groupadd", &format!("/usr/sbin/groupadd --root {root}"))
            .replace("/usr/sbin/useradd", &format!("/usr/sbin/useradd --root {root}"));
        let getent = format!("getent() {{ grep \"^$2:\" {root}/etc/$1; }}\n");
        let users = ServiceUser::ALL.map(|user| format!("{}:{}", user.name, user.id));
        let status = Command::new("sh").args(["-c", &(getent + &script), "sh"]).args(users).status();
        assert!(status.unwrap().success());
    }

    fn install(root: &Path, users: &[&str]) {
        for user in users {
            let there = std::fs::read_to_string(root.join("etc/passwd")).unwrap();
            if there.lines().any(|line| line.starts_with(&format!("{user}:"))) {
                continue;
            }
            let status = Command::new("/usr/sbin/useradd")
                .arg("--root")
                .arg(root)
                .args(["--system", "--user-group", user])
                .status();
            assert!(status.unwrap().success());
        }
    }

    /// Lines of service users: name, uid and gid.
    fn numbers(root: &Path) -> Vec<String> {
        let passwd = std::fs::read_to_string(root.join("etc/passwd")).unwrap();
        let number = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            let own = ServiceUser::ALL.iter().any(|user| user.name == fields[0]);
            own.then(|| format!("{} {} {}", fields[0], fields[2], fields[3]))
        };
        let mut all: Vec<String> = passwd.lines().filter_map(number).collect();
        all.sort();
        all
    }

    #[test]
    fn service_users_have_their_numbers_whatever_the_order_of_packages() {
        assert!(rustix::process::geteuid().is_root(), "useradd changes another root's files as root only");
        let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
        for turn in 0..10 {
            let mut order = OF_PACKAGES;
            order.rotate_left(turn % OF_PACKAGES.len());
            if turn >= OF_PACKAGES.len() {
                order.reverse();
            }
            let prepared = root();
            make_service_users(prepared.path());
            install(prepared.path(), &order);
            // Again, as in an image that is built upon another one.
            make_service_users(prepared.path());
            with.insert(numbers(prepared.path()));
            let plain = root();
            install(plain.path(), &order);
            without.insert(numbers(plain.path()));
        }
        let mut wanted =
            ServiceUser::ALL.map(|user| format!("{} {} {}", user.name, user.id, user.id)).to_vec();
        wanted.sort();
        assert_eq!(with, BTreeSet::from([wanted]));
        assert!(without.len() > 1, "packages alone choose by the order");
    }
}
