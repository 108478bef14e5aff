//! Service users and the packages that make them: dpkg installs packages whose scripts make their users as Debian's do, in a root of
//! its own that has this machine's programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_site::ServiceUser;

use super::*;

/// How a package makes its user when it is configured.
enum Makes {
    /// `adduser` chooses the number, from the bottom up.
    Adduser,
    /// A group first, and then the user.
    AddgroupAndAdduser,
    /// `systemd-sysusers` chooses it, from the top down.
    Sysusers,
}

/// Packages, each with its user.
const PACKAGES: [(&str, &str, Makes); 7] = [
    ("chrony", "_chrony", Makes::Adduser),
    ("dbus", "messagebus", Makes::Sysusers),
    ("mariadb-server", "mysql", Makes::AddgroupAndAdduser),
    ("munge", "munge", Makes::Adduser),
    ("openssh-server", "sshd", Makes::Sysusers),
    ("prometheus", "prometheus", Makes::Adduser),
    // Debian's has a number of its own; those of others have not.
    ("slurm", "slurm", Makes::Sysusers),
];

const USERS: [(&str, &str); 6] = [
    ("passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"),
    ("group", "root:x:0:\nnogroup:x:65534:\n"),
    ("shadow", "root:*:1::::::\nnobody:*:1::::::\n"),
    ("gshadow", "root:*::\nnogroup:*::\n"),
    ("login.defs", "SYS_UID_MIN 100\nSYS_UID_MAX 999\nSYS_GID_MIN 100\nSYS_GID_MAX 999\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\n"),
];

/// In memory, and gone with its namespace. Arguments: a directory that is covered, this machine's packages, and a program.
const IN_A_ROOT: &str = r#"
set -eu
root=$1 from=$2
mount -t tmpfs root "$root"
cd "$root"
mkdir -p dev etc proc root run tmp usr var/lib/dpkg/info var/lib/dpkg/updates var/lib/dpkg/triggers
for link in bin lib lib64 sbin; do ln -s "usr/$link" "$link"; done
mount --bind -o ro /usr usr
for device in full null urandom; do : >"dev/$device"; mount --bind "/dev/$device" "dev/$device"; done
: >var/lib/dpkg/status
cp "$from"/etc/* etc
cp "$from"/*.deb tmp
shift 2
exec chroot . "$@"
"#;

fn run(command: &mut Command) -> String {
    // dpkg wants those of root.
    let environment = [("LC_ALL", "C"), ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")];
    let output = command.envs(environment).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The packages, and what a root starts with.
fn prepare() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in USERS {
        write(&dir.path().join("etc").join(name), text);
    }
    for (package, user, makes) in PACKAGES {
        let tree = tempfile::tempdir().unwrap();
        let control = format!(
            "Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: Kiln's tests <tests@example.org>\n\
             Description: made by a test\n"
        );
        write(&tree.path().join("DEBIAN/control"), &control);
        let adduser = |group: &str| {
            format!("adduser --quiet --system --no-create-home --home /nonexistent {group} {user}\n")
        };
        let script = match makes {
            Makes::Adduser => adduser("--group"),
            Makes::AddgroupAndAdduser => {
                format!("addgroup --quiet --system {user}\n{}", adduser(&format!("--ingroup {user}")))
            }
            Makes::Sysusers => {
                write(
                    &tree.path().join(format!("etc/sysusers.d/{package}.conf")),
                    &format!("u {user} - -\n"),
                );
                format!("systemd-sysusers {package}.conf\n")
            }
        };
        // Each leaves a user that is there as it is.
        let script = format!("#!/bin/sh\nset -e\ngetent passwd {user} >/dev/null || {{\n{script}}}\n");
        let path = tree.path().join("DEBIAN/postinst");
        write(&path, &script);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        run(Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Znone", "--build"])
            .arg(tree.path())
            .arg(dir.path().join(format!("{package}.deb"))));
    }
    dir
}

/// Name, uid and gid of each user, after packages were installed in this order, with Kiln's step before and after them or without.
fn users(prepared: &Path, order: &[&str], with_step: bool) -> Vec<String> {
    let covered = prepared.join("root");
    fs::create_dir_all(&covered).unwrap();
    let services = ServiceUser::ALL.map(|user| format!("{}:{}", user.name, user.id));
    let step = if with_step {
        format!("(\nset -- {}\n{}\n)\n", services.join(" "), MAKE_SERVICE_USERS.script)
    } else {
        String::new()
    };
    // Again, as in an image that is built upon another one.
    let script = format!("set -eu\n{step}dpkg --install \"$@\" >&2\n{step}cat /etc/passwd\n");
    let debs: Vec<PathBuf> =
        order.iter().map(|name| Path::new("/tmp").join(name).with_extension("deb")).collect();
    let passwd = run(Command::new("unshare")
        .args(["--mount", "sh", "-c", IN_A_ROOT, "sh"])
        .args([&covered, prepared])
        .args(["sh", "-c", &script, "sh"])
        .args(debs));
    let number = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        format!("{} {} {}", fields[0], fields[2], fields[3])
    };
    passwd.lines().map(number).collect()
}

fn of_services(all: Vec<String>) -> BTreeSet<String> {
    let is_service =
        |line: &String| ServiceUser::ALL.iter().any(|user| line.starts_with(&format!("{} ", user.name)));
    all.into_iter().filter(is_service).collect()
}

#[test]
fn service_users_have_their_numbers_whatever_the_order_of_packages() {
    assert!(rustix::process::geteuid().is_root(), "only root installs packages");
    let prepared = prepare();
    let packages = PACKAGES.map(|(package, ..)| package);
    let orders = (0..10).map(|turn| {
        let mut order = packages;
        order.rotate_left(turn % packages.len());
        if turn >= packages.len() {
            order.reverse();
        }
        order
    });
    let orders: BTreeSet<[&str; 7]> = orders.collect();
    assert_eq!(orders.len(), 10);
    let wanted: BTreeSet<String> =
        ServiceUser::ALL.iter().map(|user| format!("{} {} {}", user.name, user.id, user.id)).collect();
    for order in &orders {
        let all = users(prepared.path(), order, true);
        for (package, user, _) in PACKAGES {
            assert!(all.iter().any(|line| line.starts_with(&format!("{user} "))), "{package}: {all:?}");
        }
        assert_eq!(of_services(all), wanted, "{order:?}");
    }
    // Packages alone choose by the order.
    let alone = orders.iter().take(2).map(|order| of_services(users(prepared.path(), order, false)));
    assert_eq!(alone.collect::<BTreeSet<_>>().len(), 2);
}
