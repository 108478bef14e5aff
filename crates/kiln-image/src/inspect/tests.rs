use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use super::disk::Disk;
use super::download::unpacked;
use super::*;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// An image that is as it should be.
fn clean() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let users = ServiceUser::ALL.map(|user| format!("{}:x:{}:{}::/:/x\n", user.name, user.id, user.id));
    write(root.path(), "/etc/passwd", &users.concat());
    write(root.path(), "/etc/group", &users.concat());
    write(root.path(), "/etc/machine-id", "");
    write(root.path(), "/var/log/apt/history.log", "");
    write(root.path(), "/usr/local/bin/kiln", "kiln");
    for unit in ["kiln-identity.service", "kiln-node.service"] {
        write(root.path(), &format!("/etc/systemd/system/multi-user.target.wants/{unit}"), "");
    }
    fs::create_dir_all(root.path().join("var/lib/mysql")).unwrap();
    write(root.path(), "/etc/apt/sources.list", "# http://a:b@c\ndeb http://a.example.org/ bookworm main\n");
    root
}

#[test]
fn a_clean_image_is_clean() {
    assert_eq!(faults_in(&Directory(clean().path()), Family::ALL[0]).unwrap(), []);
}

#[test]
fn a_directory_without_a_system_is_refused() {
    let root = clean();
    assert_eq!(inspect_root(root.path(), Family::ALL[0]).unwrap(), []);
    fs::remove_file(root.path().join("etc/passwd")).unwrap();
    assert_eq!(inspect_root(root.path(), Family::ALL[0]).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn every_trace_is_found() {
    let root = clean();
    let left = [
        "/etc/apt/auth.conf.d/site.conf",
        "/etc/hostname",
        "/etc/machine-id",
        "/etc/munge/munge.key",
        "/etc/rc3.d/S01munge",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/systemd/system/multi-user.target.wants/sssd.service",
        "/etc/systemd/system/multi-user.target.wants/slurmd.service",
        "/home/debian/.ssh/authorized_keys",
        "/root/.bash_history",
        "/tmp/a/b",
        "/var/cache/apt/archives/a_1_all.deb",
        "/var/lib/NetworkManager/internal-1-eth0.lease",
        "/var/lib/apt/lists/some_Packages",
        "/var/lib/dhcp/dhclient.eth0.leases",
        "/var/lib/systemd/credential.secret",
        "/var/lib/systemd/random-seed",
        "/var/log/apt/history.log",
    ];
    for path in left {
        write(root.path(), path, "x");
    }
    // Of no effect: it has a unit.
    write(root.path(), "/etc/rc3.d/S01prometheus", "x");
    write(root.path(), "/usr/lib/systemd/system/prometheus.service", "x");
    write(
        root.path(),
        "/etc/apt/sources.list.d/a.list",
        "deb https://me:word@a.example.org/ bookworm main\n",
    );
    write(root.path(), "/var/lib/mysql/empty", "");
    write(root.path(), "/etc/site/a.pem", "-----BEGIN RSA PRIVATE KEY-----\n");
    write(root.path(), "/etc/passwd", "munge:x:101:102::/:/x\n");
    let paths = |tree: &dyn Tree| -> Vec<String> {
        faults_in(tree, Family::ALL[0]).unwrap().into_iter().map(|fault| fault.path).collect()
    };
    let found = paths(&Directory(root.path()));
    let users = ServiceUser::ALL.map(|user| format!("/etc/passwd: {}", user.name));
    let mut wanted: Vec<String> = left.iter().map(ToString::to_string).chain(users).collect();
    wanted.extend(
        ["/etc/apt/sources.list.d/a.list", "/etc/site/a.pem", "/var/lib/mysql/empty"].map(String::from),
    );
    wanted.sort();
    assert_eq!(found, wanted);
    // On a disk it is the same.
    for table in [Table::None, Table::Mbr, Table::Gpt] {
        assert_eq!(paths(&Disk::open(&disk_of(root.path(), table)).unwrap()), wanted, "{table:?}");
    }
    assert_eq!(paths(&Disk::open(&disk_of(clean().path(), Table::Gpt)).unwrap()), Vec::<String>::new());
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Table {
    None,
    Mbr,
    Gpt,
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A raw disk that has a directory as the root file system on its last partition. There is another file system before it, as
/// some have for what starts the system.
fn disk_of(root: &Path, table: Table) -> File {
    const MIB: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.raw");
    let disk = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    disk.set_len(24 * MIB).unwrap();
    let file_system = |start: u64, size: u64, from: &Path| {
        let mut command = Command::new("/usr/sbin/mke2fs");
        command.args(["-q", "-F", "-t", "ext4", "-E", &format!("offset={start}"), "-d"]).arg(from);
        run(command.arg(&path).arg(format!("{}k", size / 1024)));
    };
    if table == Table::None {
        file_system(0, 24 * MIB, root);
        return disk;
    }
    let script = dir.path().join("table");
    let kind = if table == Table::Gpt { "gpt" } else { "dos" };
    fs::write(&script, format!("label: {kind}\nstart=2048, size=8192\nstart=10240, size=34816\n")).unwrap();
    run(Command::new("/usr/sbin/sfdisk")
        .args(["--quiet", "--no-reread", "--no-tell-kernel"])
        .arg(&path)
        .stdin(File::open(script).unwrap()));
    let boot = tempfile::tempdir().unwrap();
    write(boot.path(), "/vmlinuz", "a kernel");
    file_system(MIB, 4 * MIB, boot.path());
    file_system(5 * MIB, 17 * MIB, root);
    disk
}

#[tokio::test]
async fn a_packed_disk_is_unpacked_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (raw, packed) = (dir.path().join("a.raw"), dir.path().join("a.qcow2"));
    let mut disk = disk_of(clean().path(), Table::Gpt);
    std::io::copy(&mut disk, &mut File::create(&raw).unwrap()).unwrap();
    run(Command::new("qemu-img").args(["convert", "-f", "raw", "-O", "qcow2", "-c"]).arg(&raw).arg(&packed));
    let work = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let unpack = async |path: &Path| unpacked(File::open(path).unwrap(), work.path(), &stop).await;
    for path in [&raw, &packed] {
        let disk = Disk::open(&unpack(path).await.unwrap()).unwrap();
        assert_eq!(faults_in(&disk, Family::ALL[0]).unwrap(), []);
    }
    stop.cancel();
    let stopped = unpack(&packed).await.unwrap_err();
    assert!(matches!(stopped, InspectError::Export(ExportError::Stopped)), "{stopped}");
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
}

#[test]
fn a_disk_without_a_system_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let error = |disk: &File| Disk::open(disk).err().unwrap();
    let plain = error(&disk_of(empty.path(), Table::Gpt));
    assert_eq!(plain.to_string(), "no ext4 file system of the image has a system on it");
    let of_el = tempfile::tempfile().unwrap();
    of_el.set_len(1 << 20).unwrap();
    of_el.write_all_at(b"XFSB", 0).unwrap();
    let other = error(&of_el);
    assert!(other.to_string().ends_with("; there is one of XFS"), "{other}");
    assert!(other.hint().unwrap().contains("--root"));
    let short = tempfile::tempfile().unwrap();
    assert!(matches!(error(&short), InspectError::Unreadable(_)));
    // A file system with features that nobody knows.
    let newer = disk_of(clean().path(), Table::None);
    newer.write_all_at(&[0xff; 4], 1024 + 0x60).unwrap();
    let error_of_newer = error(&newer);
    assert!(matches!(error_of_newer, InspectError::Unreadable(_)), "{error_of_newer}");
    // A table that leads out of the disk.
    let odd = disk_of(empty.path(), Table::Gpt);
    odd.write_all_at(&[0xff; 8], 512 + 72).unwrap();
    assert!(matches!(error(&odd), InspectError::Unreadable(_)));
}

#[test]
fn patterns_match_whole_names() {
    assert!(matches("ssh_host_rsa_key.pub", "ssh_host_*") && matches(".bash_history", ".*_history"));
    assert!(!matches("history", ".*_history") && matches("a", "*") && !matches("ab", "a"));
}
