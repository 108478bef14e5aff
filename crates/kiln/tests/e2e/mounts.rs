//! File systems and settings of the site. Memory and another directory stand in for file servers, which this machine's kernel
//! cannot mount from.

use crate::cluster_dir::printed;
use crate::lab::{Lab, wait};

const SITE: &str = r#"
[[mount]]
source = "tmpfs"
path = "/fast"
type = "tmpfs"
options = ["size=16m"]

[[mount]]
source = "/usr/share/misc"
path = "/software"
type = "none"
options = ["bind", "ro"]
roles = ["compute"]
required = true

[[mount]]
source = "server"
path = "/gone"
type = "nosuchfs"
roles = ["compute"]

[system]
dns = ["192.0.2.53"]
search = ["example.org"]
proxy = "http://proxy.example.org:3128"
certificates = ["site-ca.pem"]

[time]
zone = "Etc/GMT-5"
"#;

/// A fake of a file system whose server can be away: what `mount` runs for its type is there or not.
const FAKE_SERVER: &str = r#"printf '#!/bin/sh\nexec mount --bind "$1" "$2"\n' >/sbin/mount.fakefs && chmod 755 /sbin/mount.fakefs"#;

/// They reach the nodes of their roles; one that cannot be mounted costs only itself, unless jobs need it; and all is there
/// again after a reboot.
pub fn of_the_site(lab: &mut Lab) {
    let file = lab.read_file();
    make_authority(lab);
    lab.write_file(&format!("{file}{SITE}"));
    lab.kiln(&["configure"]);
    for node in ["login-0", "standard-0"] {
        assert_eq!(lab.on(node, &["findmnt", "-no", "FSTYPE", "/fast"]), "tmpfs", "{node}");
        assert_eq!(lab.on(node, &["date", "+%z"]), "+0500", "{node}");
        let proxy = lab.on(node, &["bash", "-lc", "echo $https_proxy $no_proxy"]);
        assert_eq!(
            proxy, "http://proxy.example.org:3128 localhost,127.0.0.1,control,.e2e.internal",
            "{node}"
        );
        let trusted = ["openssl", "verify", "-CApath", "/etc/ssl/certs"];
        let certificate = "/usr/local/share/ca-certificates/kiln-site-ca.crt";
        lab.on(node, &[&trusted[..], &[certificate]].concat());
    }
    let names = lab.on("standard-0", &["tail", "-n2", "/etc/resolv.conf"]);
    assert_eq!(names, "search e2e.internal example.org\nnameserver 192.0.2.53");
    assert!(!lab.try_on("control", &["test", "-e", "/fast"]).status.success(), "not on control");
    let options = lab.on("standard-0", &["findmnt", "-no", "OPTIONS", "/software"]);
    assert!(options.starts_with("ro,nosuid,nodev"), "{options}");
    assert!(!lab.try_on("standard-0", &["mountpoint", "--quiet", "/gone"]).status.success());

    // Jobs need it: slurmd does not start without it.
    lab.on("extra-0", &["systemctl", "stop", "slurmd.service", "software.mount"]);
    let broken = SITE.replace("type = \"none\"\noptions = [\"bind\", \"ro\"]", "type = \"fakefs\"");
    lab.write_file(&format!("{file}{broken}"));
    let refused = lab.try_kiln(&["configure"]);
    let words = printed(&refused);
    assert!(!refused.status.success() && words.contains("mount:/software"), "{words}");
    let slurmd = lab.try_on("extra-0", &["systemctl", "is-active", "slurmd.service"]);
    assert_eq!(String::from_utf8_lossy(&slurmd.stdout).trim(), "inactive");
    // A server that is back is enough: nobody configures or boots the node.
    let has_slurmd = |node: &str| {
        lab.try_on(node, &["systemctl", "--quiet", "is-active", "slurmd.service"]).status.success()
    };
    lab.on("extra-0", &[FAKE_SERVER]);
    wait("slurmd starts when the mount is there", || has_slurmd("extra-0"));
    lab.on("extra-0", &["mountpoint", "--quiet", "/software"]);
    let nodes: Vec<String> =
        lab.hosts().iter().filter_map(|host| host["name"].as_str()).map(String::from).collect();
    for node in nodes.iter().filter(|node| node.starts_with("standard-") || node.starts_with("extra-")) {
        lab.on(node, &[FAKE_SERVER]);
    }
    lab.kiln(&["configure"]);

    // Nor does a boot wait for it, but for slurmd.
    lab.on("standard-1", &["rm", "/sbin/mount.fakefs"]);
    lab.try_kiln(&["ssh", "standard-1", "systemctl", "reboot"]);
    wait("the node waits for its mount", || {
        let said = lab.try_on("standard-1", &["journalctl -b --no-pager -u kiln-node.service"]);
        printed(&said).contains("slurmd waits for /software")
    });
    lab.on("standard-1", &["mountpoint", "--quiet", "/fast"]);
    assert!(!has_slurmd("standard-1"));
    lab.kiln(&["ssh", "standard-1", FAKE_SERVER]);
    wait("slurmd starts by itself", || has_slurmd("standard-1"));
    let id = lab.submit("--nodes=1 --nodelist=standard-1 --output=/dev/null", "mountpoint /software");
    lab.wait_job(&id, "COMPLETED");
    lab.write_file(&file);
    lab.kiln(&["configure"]);
    let table = lab.on("standard-0", &["cat", "/etc/fstab"]);
    assert!(!table.contains("/fast"), "{table}");
    assert_eq!(lab.on("standard-0", &["date", "+%z"]), "+0000");
    let names = lab.on("standard-0", &["cat", "/etc/resolv.conf"]);
    assert!(names.contains("nameserver ") && !names.contains("192.0.2.53"), "what the cloud says: {names}");
}

fn make_authority(lab: &Lab) {
    let (key, certificate) = (lab.path("site-ca.key"), lab.path("site-ca.pem"));
    let words = ["req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=A site"];
    let made = std::process::Command::new("openssl")
        .args(words)
        .args(["-keyout".as_ref(), key.as_os_str(), "-out".as_ref(), certificate.as_os_str()])
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", printed(&made));
}
