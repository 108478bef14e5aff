//! `kiln image export`: disks that boot. QEMU boots them in software; KVM is not asked for, because where it is present it
//! may still not work.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster_dir::printed;
use crate::cut;
use crate::lab::{Lab, cloud_root};

const DISK: &str = "disk.qcow2";
/// Where the root file system begins.
const ROOT: u64 = 36 << 20;
/// More than a boot takes on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(900);

/// What was made of it is compared as a whole, and looked into.
pub fn exported(lab: &mut Lab) {
    lab.kiln(&["image", "build"]);
    let [disk, raw, again] = [DISK, "again.raw", "converted.raw"].map(|name| lab.path(name));
    let first = export(lab, &disk, &[]);
    let second = export(lab, &raw, &["--format", "raw"]);
    run(&["qemu-img", "convert", "-O", "raw", text(&disk), text(&again)]);
    run(&["cmp", text(&raw), text(&again)]);
    assert_eq!(first["disk_bytes"], second["disk_bytes"]);
    assert_eq!(digest(&disk), first["sha256"]);
    assert_eq!(std::fs::metadata(&raw).unwrap().len(), second["disk_bytes"].as_u64().unwrap());
    assert_scratch_is_empty();

    // As clean as the image.
    let root = format!("{}?offset={ROOT}", text(&raw));
    run(&["e2fsck", "-fn", &root]);
    let inside = |request: &str| run(&["debugfs", "-R", request, &root]);
    assert_eq!(inside("cat /etc/machine-id"), "");
    assert!(!inside("ls -p /etc/ssh").contains("ssh_host_"));
    assert_eq!(inside("ls -p /root").lines().filter(|line| line.contains(".ssh")).count(), 0);
    let fstab = inside("cat /etc/fstab");
    assert!(fstab.contains(" / ext4 ") && fstab.contains("x-systemd.growfs"), "{fstab}");
    // Owners, modes and capabilities are the image's.
    assert!(inside("stat /usr/bin/passwd").contains("Mode:  04755"));
    assert!(inside("stat /etc/shadow").contains("Mode:  0640"));

    // The description says what is in it.
    let described: Value =
        serde_json::from_str(&crate::lab::read(&lab.path("disk.qcow2.kiln.json"))).unwrap();
    let packages = described["manifest"]["packages"].as_array().unwrap();
    // Beside the kernel, what nodes need on clouds of machines.
    for wanted in ["slurm-client", "linux-image-cloud-amd64", "nfs-common", "nfs-kernel-server", "chrony"] {
        assert!(packages.iter().any(|package| package["name"] == wanted), "no {wanted}");
    }
    assert_eq!(described["image"], "default");
    // The image's own packages are as they were.
    let image = lab.json(&["image", "show", "default"]);
    let is_same = |a: &Value, b: &Value| a["name"] == b["name"] && a["version"] == b["version"];
    for package in image["packages"].as_array().unwrap() {
        assert!(packages.iter().any(|on_disk| is_same(on_disk, package)), "{package} is not on the disk");
    }
    for path in [raw, again] {
        std::fs::remove_file(path).unwrap();
    }
}

/// A file is never replaced unasked, and never half written.
pub fn cut_off(lab: &mut Lab) {
    let disk = lab.path(DISK);
    let before = digest(&disk);
    let refused = lab.try_kiln(&["image", "export", "default", "--output", text(&disk)]);
    let said = printed(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("exists already") && said.contains("--force"), "{said}");
    let small = lab.path("small.qcow2");
    let refused = lab.try_kiln(&["image", "export", "default", "--output", text(&small), "--size", "64 MiB"]);
    assert!(printed(&refused).contains("the disk needs at least "), "{}", printed(&refused));
    let files = || -> Vec<PathBuf> {
        let mut all: Vec<_> = std::fs::read_dir(lab.path("")).unwrap().flatten().map(|e| e.path()).collect();
        all.sort();
        all
    };
    let there = files();
    for moment in ["stacking layers", "making the root file system", "compressing"] {
        let (code, said) =
            cut::interrupt(lab, &["image", "export", "default", "--output", text(&disk), "--force"], moment);
        assert_eq!(code, Some(130), "{moment}: {said}");
        assert_eq!(files(), there, "{moment}");
        assert_eq!(digest(&disk), before, "{moment}");
        assert_scratch_is_empty();
    }
}

pub fn boots_by_bios(lab: &mut Lab) {
    boots(lab, &[], "no");
}

pub fn boots_by_efi(lab: &mut Lab) {
    let variables = lab.path("variables.fd");
    std::fs::copy("/usr/share/OVMF/OVMF_VARS_4M.fd", &variables).expect("the package ovmf");
    let firmware = "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd";
    let variables = format!("if=pflash,format=raw,unit=1,file={}", text(&variables));
    boots(lab, &["-drive", firmware, "-drive", &variables], "yes");
}

/// That the node has read its config drive is seen by its host key, which is there and nowhere else.
fn boots(lab: &Lab, firmware: &[&str], efi: &str) {
    let host_key = lab.path("host_key");
    if !host_key.exists() {
        run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", text(&host_key)]);
    }
    let drive = config_drive(lab, &host_key);
    let disk = lab.path("run.qcow2");
    run(&[
        "qemu-img",
        "create",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "qcow2",
        "-b",
        text(&lab.path(DISK)),
        text(&disk),
        "4G",
    ]);
    let mut machine = Machine::start(lab, &disk, &drive, firmware);
    machine.await_ssh(lab, &host_key);

    let look = "hostname; df --output=size -B1M / | tail -1; findmnt -no FSTYPE /; wc -c </etc/machine-id; \
        systemctl is-active kiln-identity.service; systemctl list-units --failed --plain --no-legend | wc -l; \
        test -d /sys/firmware/efi && echo yes || echo no; resolvectl dns eth0 | grep -c 10.0.2.3; cat /proc/cmdline";
    let output = machine.ssh(lab, look);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    let [name, size, kind, id, identity, failed, by_efi, resolver, parameters] = lines[..] else {
        panic!("{}\n{}", printed(&output), machine.console());
    };
    assert_eq!(
        [name, kind, id, identity, failed, resolver],
        ["boots", "ext4", "33", "active", "0", "1"],
        "{said}"
    );
    assert_eq!(by_efi, efi);
    assert!(parameters.contains(" quiet mitigations=off "), "those of the image: {said}");
    // The root has grown to its disk.
    assert!(size.parse::<u64>().unwrap() > 3500, "{said}");
    let console = machine.console();
    assert!(console.contains("Kiln") || console.contains("kiln"), "the console is silent:\n{console}");
}

/// As Nova makes it.
fn config_drive(lab: &Lab, host_key: &Path) -> PathBuf {
    let latest = lab.path("drive/openstack/latest");
    std::fs::create_dir_all(&latest).unwrap();
    let public = crate::lab::read(&lab.path("user_key.pub"));
    let meta = json!({
        "uuid": "6f8f0c9e-0000-4000-8000-000000000001", "name": "boots", "hostname": "boots.novalocal",
        "public_keys": { "kiln": public.trim() },
    });
    let user = json!({ "kiln": {
        "format": 1, "cluster": "disk", "node": "boots", "role": "login", "domain": "disk.internal",
        "ssh_host_key": crate::lab::read(host_key),
    }});
    std::fs::write(latest.join("meta_data.json"), meta.to_string()).unwrap();
    std::fs::write(latest.join("user_data"), user.to_string()).unwrap();
    let drive = lab.path("drive.iso");
    let folder = lab.path("drive");
    run(&["genisoimage", "-quiet", "-J", "-R", "-V", "config-2", "-o", text(&drive), text(&folder)]);
    drive
}

struct Machine {
    child: Child,
    port: u16,
    console: PathBuf,
}

impl Machine {
    fn start(lab: &Lab, disk: &Path, drive: &Path, firmware: &[&str]) -> Machine {
        let console = lab.path("console.log");
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = Command::new("qemu-system-x86_64")
            .args([
                "-machine",
                "pc",
                "-accel",
                "tcg,tb-size=256",
                "-m",
                "768",
                "-smp",
                "1",
                "-display",
                "none",
            ])
            .args(firmware)
            .args(["-drive", &format!("file={},if=virtio,format=qcow2,cache=unsafe", text(disk))])
            .args(["-cdrom", text(drive)])
            .args(["-netdev", &format!("user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22")])
            .args(["-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci"])
            .args(["-serial", &format!("file:{}", text(&console))])
            .stdin(Stdio::null())
            .spawn()
            .expect("the package qemu-system-x86");
        Machine { child, port, console }
    }

    fn console(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    fn await_ssh(&mut self, lab: &Lab, host_key: &Path) {
        let public = crate::lab::read(&host_key.with_extension("pub"));
        std::fs::write(lab.path("known"), format!("boots {public}")).unwrap();
        let start = Instant::now();
        loop {
            let output = self.ssh(lab, "true");
            if output.status.success() {
                println!("  SSH answers after {:.0} s", start.elapsed().as_secs_f64());
                return;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                start.elapsed() < LIMIT && ended.is_none(),
                "{ended:?} {}\n{}",
                printed(&output),
                self.console()
            );
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn ssh(&self, lab: &Lab, command: &str) -> Output {
        Command::new("ssh")
            .args([
                "-F",
                "none",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=10",
                "-o",
                "HostKeyAlias=boots",
            ])
            .args(["-o", "StrictHostKeyChecking=yes", "-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes"])
            .args(["-o", &format!("UserKnownHostsFile={}", text(&lab.path("known")))])
            .args([
                "-i",
                text(&lab.path("user_key")),
                "-p",
                &self.port.to_string(),
                "root@127.0.0.1",
                command,
            ])
            .stdin(Stdio::null())
            .output()
            .expect("ssh runs")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn export(lab: &Lab, output: &Path, more: &[&str]) -> Value {
    let arguments = ["image", "export", "default", "--output", text(output)];
    lab.json(&[&arguments[..], more].concat())
}

fn assert_scratch_is_empty() {
    let left = std::fs::read_dir(cloud_root().join("exports")).into_iter().flatten().count();
    assert_eq!(left, 0, "an export has left its directory");
}

fn digest(path: &Path) -> String {
    run(&["sha256sum", text(path)]).split(' ').next().unwrap_or_default().to_string()
}

/// Its standard output; it must succeed.
fn run(argv: &[&str]) -> String {
    let output = Command::new(argv[0]).args(&argv[1..]).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("{}: {e}", argv[0]));
    assert!(output.status.success(), "{argv:?} ended with {}\n{}", output.status, printed(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
