//! What a site has around Slurm, where it takes a kernel: quotas, file systems of others, the clock, settings of the system.

use serde_json::Value;

use crate::client::tell;
use crate::cluster_dir::printed;
use crate::control::Writer;
use crate::lab::{Lab, TIME_SERVER, wait};
use crate::raise::all_well;

/// More of the file. The login node stands in for the site's file server.
pub const FILE: &str = "\
[system]
sysctl = { \"vm.swappiness\" = 7 }

[role.login]
commands = [
    \"install -d -m 1777 /srv/site /srv/lazy\",
    \"systemctl enable --now nfs-server\",
    \"exportfs -ra\",
]

[[role.login.file]]
path = \"/etc/exports.d/site.exports\"
content = \"/srv/site *(rw,sync,no_subtree_check)\\n/srv/lazy *(rw,sync,no_subtree_check)\\n\"

";

const MOUNTS: &str = "
[[mount]]
source = \"login-0:/srv/site\"
path = \"/site\"
options = [\"vers=4.2\"]
roles = [\"compute\"]
required = true

[[mount]]
source = \"login-0:/srv/lazy\"
path = \"/lazy\"
type = \"nfs4\"
roles = [\"compute\"]
automount = true
";

const NODES: [&str; 4] = ["control", "login-0", "standard-0", "standard-1"];

/// The time server and the kernel parameters of the file are in effect on nodes of every role, and jobs may pin memory.
pub fn settings(lab: &Lab) {
    for node in NODES {
        let seen = lab.on(node, "sysctl -n vm.swappiness; chronyc -n sources; chronyc tracking");
        let sources: Vec<&str> = seen.lines().filter(|line| line.starts_with('^')).collect();
        let [source] = sources[..] else { panic!("{node} has other servers: {seen}") };
        assert!(source.starts_with(&format!("^* {TIME_SERVER} ")), "{node}: {seen}");
        assert!(seen.starts_with("7\n") && seen.contains(": Normal"), "{node}: {seen}");
    }
    assert_eq!(lab.as_user("srun --nodes=1 --mem=50 bash -c 'ulimit -l'"), "unlimited");
}

/// On a volume that nodes use while the file comes to ask for quotas. A job that writes there goes on.
pub fn quotas_begin(lab: &Lab) {
    let refused = lab.try_kiln(&["quota", "list"]);
    assert!(printed(&refused).contains("the file asks for no quotas"), "{}", printed(&refused));
    let job = Writer::start(lab);
    let before = files(lab);
    lab.write_file(&format!("{}\n[volumes]\nhome = {{ quota = true }}\n", lab.read_file()));
    let up = lab.kiln(&["up", "--yes"]);
    println!("{up}");
    let options = lab.on("control", "findmnt -no OPTIONS /home; systemctl is-active nfs-server");
    assert!(options.contains("usrquota") && options.ends_with("\nactive"), "{options}");
    job.check();
    job.end();
    assert_eq!(files(lab), before, "nothing is lost");
    wait("all nodes are well", || all_well(lab));
    let again = lab.json(&["configure"]);
    assert!(!again.to_string().contains("user quotas"), "begun once: {again}");
}

/// Of the user, without those of the job.
fn files(lab: &Lab) -> String {
    lab.on("control", "cd /home/demo && find . -type f ! -name 'written.*' | sort | xargs -r sha256sum")
}

fn quota(lab: &Lab) -> Value {
    let shown = lab.json(&["quota", "show", "demo"]);
    assert_eq!(shown[0]["user"], "demo", "{shown}");
    shown[0].clone()
}

const FILL: &str = "dd if=/dev/zero of=/home/demo/much bs=1M count=30 conv=fsync";
const MIB: u64 = 1 << 20;

/// Nobody gets above a hard limit, on any node.
pub fn quotas_hold(lab: &Lab) {
    let full = "Disk quota exceeded";
    lab.kiln(&["quota", "set", "demo", "--soft", "8 MiB", "--hard", "10 MiB", "--hard-files", "500"]);
    let job = lab.try_as_user(&format!("srun --nodes=1 --nodelist=standard-0 --mem=50 {FILL}"));
    assert!(!job.status.success() && printed(&job).contains(full), "{}", printed(&job));
    let there = lab.on(
        "control",
        &format!("rm /home/demo/much; setpriv --reuid=demo --regid=demo --clear-groups {FILL} 2>&1 || true"),
    );
    assert!(there.contains(full), "{there}");
    let now = quota(lab);
    let used = now["bytes"]["used"].as_u64().expect("a number");
    assert!((8 * MIB..=10 * MIB).contains(&used), "{now}");
    assert!(!now["bytes"]["grace_ends"].is_null() && now["files"]["hard"] == 500, "{now}");
    assert!(lab.kiln(&["quota", "list"]).contains("10 MiB"), "the list has it");
    // What is wrong changes nothing.
    for wrong in [vec!["demo", "--soft", "11 MiB"], vec!["nobody-there", "--hard", "1 GiB"]] {
        let arguments = [vec!["quota", "set"], wrong].concat();
        assert!(!lab.try_kiln(&arguments).status.success(), "{arguments:?}");
    }
    assert_eq!(quota(lab), now);
    lab.kiln(&["quota", "set", "demo", "--soft", "none", "--hard", "none"]);
    lab.as_user(&format!("srun --nodes=1 --nodelist=standard-1 --mem=50 {FILL}; rm much"));
    lab.kiln(&["quota", "set", "demo", "--hard", "20 MiB"]);
}

/// Control has another root disk than when they were set.
pub fn quotas_stay(lab: &Lab) {
    let now = quota(lab);
    assert_eq!((&now["bytes"]["hard"], &now["files"]["hard"]), (&(20 * MIB).into(), &500.into()), "{now}");
    let job = lab.try_as_user(&format!("srun --nodes=1 --mem=50 {FILL}; rm much"));
    assert!(printed(&job).contains("Disk quota exceeded"), "{}", printed(&job));
    wait("all nodes are well", || all_well(lab));
}

/// File systems of another server: one that jobs need, and one that is mounted when it is used.
pub fn mounts(lab: &Lab) {
    lab.write_file(&format!("{}{MOUNTS}", lab.read_file()));
    lab.kiln(&["configure"]);
    let seen = lab.on("standard-0", "findmnt -no FSTYPE,OPTIONS /site; findmnt -no FSTYPE /lazy");
    assert!(seen.starts_with("nfs4") && seen.contains("nosuid,nodev") && seen.contains("hard"), "{seen}");
    assert!(seen.ends_with("\nautofs"), "not before it is used: {seen}");
    lab.as_user("srun --nodes=2 --mem=50 bash -c 'hostname >/site/$(hostname); hostname >/lazy/$(hostname)'");
    let there = lab.as_user("cat /srv/site/standard-* /srv/lazy/standard-*");
    assert_eq!(there, "standard-0\nstandard-1\nstandard-0\nstandard-1");
    assert!(lab.on("standard-0", "findmnt -no FSTYPE /lazy").contains("nfs4"));
}

/// A node that starts while its file server is away can be reached, takes no jobs, and joins when the server is back.
pub fn server_away(lab: &Lab) {
    lab.on("login-0", "systemctl stop nfs-server");
    tell("demo", &["server reboot --hard standard-1"]);
    let is_waiting =
        "systemctl is-active --quiet slurmd && exit 1; journalctl -b -u kiln-node --no-pager | grep /site";
    wait("the node says what it waits for", || {
        lab.try_kiln(&["ssh", "standard-1", is_waiting]).status.success()
    });
    lab.on("login-0", "systemctl start nfs-server");
    wait("the node has joined", || all_well(lab));
    assert_eq!(
        lab.as_user("srun --nodes=1 --nodelist=standard-1 --mem=50 cat /site/standard-1"),
        "standard-1"
    );
}
