//! A cluster of its own for each test, on a real local cloud, and the proof that nothing of it is left.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Once};
use std::time::Duration;

use kiln_cloud::{
    Cloud, Image, Instance, InstanceStatus, Labels, Network, NewInstance, NewNetwork, NewSecurityGroup, Rule,
    SecurityGroup,
};
use kiln_wire::{Attachment, labels};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout};

pub const LONG: Duration = Duration::from_secs(300);

/// Kept between runs: it holds the source image, whose making takes a minute.
pub fn root() -> PathBuf {
    std::env::var_os("KILN_TEST_ROOT").map_or_else(|| "/var/tmp/kiln-cloud-test".into(), PathBuf::from)
}

/// `KILN_TEST_SUITE`: the same tests on another Debian.
pub fn suite() -> String {
    std::env::var("KILN_TEST_SUITE").unwrap_or_else(|_| "bookworm".into())
}

/// The example that stands in for the `kiln` program. `cargo test --test local` alone would not build it.
pub fn program() -> PathBuf {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        // With the features and the environment of this test's own build: otherwise most would be compiled again.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--example", "local-cloud"]);
        for (name, _) in std::env::vars_os() {
            let own = name.to_string_lossy();
            if own.starts_with("CARGO_PKG_") || own.starts_with("CARGO_MANIFEST_") {
                build.env_remove(&name);
            }
        }
        assert!(build.status().unwrap().success());
    });
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples/local-cloud")
}

/// Tests look at the whole host, so they take turns: within this process, and with others on the same root.
static TURN: Mutex<()> = Mutex::const_new(());
static HOST_TURN: LazyLock<File> = LazyLock::new(|| {
    fs::create_dir_all(root()).unwrap();
    let file = File::create(root().join("test.lock")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    file
});

pub struct Site {
    pub cloud: Cloud,
    pub cluster: &'static str,
    pub image: Image,
    pub network: Network,
    pub group: SecurityGroup,
    _turn: MutexGuard<'static, ()>,
}

impl Site {
    pub async fn new(cluster: &'static str) -> Site {
        assert!(rustix::process::geteuid().is_root(), "the local cloud needs root");
        let turn = TURN.lock().await;
        LazyLock::force(&HOST_TURN);
        let cloud = Cloud::local_with(root(), program());
        for cluster in std::iter::once(cluster.to_string()).chain(clusters_left()) {
            destroy(&cloud, &cluster).await;
        }
        let image = cloud.source_image(&suite(), &|step| eprintln!("source image: {step}")).await.unwrap();
        // The daemon may be removing what an earlier program left here.
        let tidy = async {
            while fs::read_dir(root().join("tmp")).unwrap().next().is_some() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(LONG, tidy).await.unwrap();
        let network = cloud
            .create_network(NewNetwork {
                name: cluster.into(),
                cidr: None,
                labels: labels(cluster),
                automatic: vec![],
            })
            .await
            .unwrap();
        let ssh = Rule { from: kiln_cloud::Peers::Net("0.0.0.0/0".parse().unwrap()), tcp_port: Some(22) };
        let group = cloud
            .create_security_group(NewSecurityGroup {
                name: cluster.into(),
                labels: labels(cluster),
                rules: vec![ssh],
                without: vec![],
            })
            .await
            .unwrap();
        Site { cloud, cluster, image, network, group, _turn: turn }
    }

    pub fn wanted(&self, name: &str) -> NewInstance {
        NewInstance {
            name: name.into(),
            image: self.image.id.clone(),
            flavor: "tiny".into(),
            network: self.network.id.clone(),
            address: None,
            public: false,
            zone: None,
            security_groups: vec![self.group.id.clone()],
            user_data: format!("secret of {name}").into(),
            ssh_key: "ssh-ed25519 AAAA test".into(),
            labels: labels(self.cluster),
            volumes: Vec::new(),
            disk_gib: None,
            request: None,
        }
    }

    pub fn with_volume(&self, name: &str, volume: &str) -> NewInstance {
        let volumes = vec![Attachment { volume: volume.into(), read_only: false }];
        NewInstance { volumes, ..self.wanted(name) }
    }

    /// Creates them and waits until their SSH servers answer.
    pub async fn boot(&self, wanted: Vec<NewInstance>) -> Vec<Instance> {
        let made: Vec<_> = self.cloud.create(wanted).await.into_iter().map(Result::unwrap).collect();
        let ids: Vec<_> = made.iter().map(|i| i.id.clone()).collect();
        MADE.lock().unwrap().extend(ids.clone());
        self.active(&ids).await;
        for instance in &made {
            assert!(
                self.answers(instance, 22).await,
                "{}",
                self.cloud.console_log(&instance.id, 50).await.unwrap()
            );
        }
        made
    }

    pub async fn active(&self, ids: &[String]) {
        self.cloud.wait_active(ids, Instant::now() + LONG, |_| {}).await.unwrap();
    }

    /// Whether a port can be reached before long.
    pub async fn answers(&self, instance: &Instance, port: u16) -> bool {
        let address = (instance.address.unwrap(), port);
        let connect = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(LONG, connect).await.is_ok()
    }

    pub async fn status(&self, id: &str) -> InstanceStatus {
        self.cloud.instance(id).await.unwrap().status
    }

    /// Waits until the inside has booted anew, with an SSH server that answers.
    pub async fn await_boot_after(&self, instance: &Instance, old_boot: &str) {
        let changed = async {
            while boot_id(&instance.id).is_none_or(|id| id == old_boot) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(LONG, changed).await.unwrap();
        assert!(self.answers(instance, 22).await);
    }

    /// Takes everything down and looks whether the host is as before.
    pub async fn finish(self) {
        destroy(&self.cloud, self.cluster).await;
        assert!(self.cloud.retire().await.unwrap());
        let gone = async {
            while !leftovers(&self.network.id).is_empty() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let clean = timeout(LONG, gone).await.is_ok();
        assert!(clean, "left behind: {:#?}", leftovers(&self.network.id));
    }
}

impl Drop for Site {
    /// Also when the test has failed.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let (cloud, cluster) = (self.cloud.clone(), self.cluster);
        let clean = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            // A client of its own: connections belong to the runtime that made them.
            drop(cloud);
            let cloud = Cloud::local_with(root(), program());
            runtime.block_on(async {
                destroy(&cloud, cluster).await;
                let _ = cloud.retire().await;
            });
        });
        let _ = clean.join();
    }
}

/// Clusters of a run that was killed: the cloud could not be retired with them in it.
fn clusters_left() -> BTreeSet<String> {
    let kinds = ["instances", "volumes", "security-groups", "networks"];
    let records = kinds.iter().filter_map(|kind| fs::read_dir(root().join("state").join(kind)).ok());
    let texts = records.flatten().flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let records = texts.filter_map(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    records.filter_map(|record| record["labels"][labels::CLUSTER].as_str().map(String::from)).collect()
}

pub async fn destroy(cloud: &Cloud, cluster: &str) {
    let _ = fs::remove_file(root().join("faults.json"));
    for instance in cloud.instances(cluster).await.unwrap() {
        cloud.delete(&instance.id).await.unwrap();
    }
    for image in cloud.images().await.unwrap().iter().filter(|i| i.labels == labels(cluster)) {
        cloud.delete_image(&image.id).await.unwrap();
    }
    for volume in cloud.volumes(cluster).await.unwrap() {
        cloud.delete_volume(&volume.id).await.unwrap();
    }
    for group in cloud.security_groups(cluster).await.unwrap() {
        cloud.delete_security_group(&group.id).await.unwrap();
    }
    for network in cloud.networks(cluster).await.unwrap() {
        cloud.delete_network(&network.id).await.unwrap();
    }
    cloud.revoke(cluster).await.unwrap();
}

pub fn labels(cluster: &str) -> Labels {
    [(labels::CLUSTER.to_string(), cluster.to_string())].into()
}

fn mark() -> String {
    hex::encode(Sha256::digest(root().as_os_str().as_encoded_bytes()))[..8].to_string()
}

fn cgroup() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|l| l.split(' ').nth(2) == Some("cgroup2")).unwrap();
    Path::new(line.split(' ').nth(1).unwrap()).join(format!("kiln-{}", mark()))
}

/// The first process of the present boot, in the host's numbering.
fn init(id: &str) -> Option<String> {
    fs::read_dir(cgroup().join(id)).ok()?.flatten().find_map(|boot| {
        let scope = boot.path().join("payload/init.scope/cgroup.procs");
        fs::read_to_string(scope).ok()?.lines().next().map(String::from)
    })
}

/// Changes with every boot. Read from outside: a process that enters a system about to go down would hold it up.
pub fn boot_id(id: &str) -> Option<String> {
    let path = format!("/proc/{}/root/proc/sys/kernel/random/boot_id", init(id)?);
    fs::read_to_string(path).ok()
}

/// Runs a command inside an instance, in all its namespaces. `None` if that fails.
pub fn try_inside(id: &str, command: &[&str]) -> Option<String> {
    let init = init(id)?;
    let output =
        Command::new("nsenter").args(["-a", "-t", &init]).args(command).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| text(&output))
}

#[track_caller]
pub fn inside(id: &str, command: &[&str]) -> String {
    try_inside(id, command).unwrap_or_else(|| panic!("{command:?} failed inside"))
}

/// The hardware address of an instance, as it sees it.
#[track_caller]
pub fn mac(id: &str) -> String {
    let link = inside(id, &["ip", "-o", "link", "show", "eth0"]);
    let mut words = link.split_whitespace().skip_while(|word| *word != "link/ether");
    words.nth(1).unwrap().to_string()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn run(program: &str, args: &[&str]) -> String {
    text(&Command::new(program).args(args).output().unwrap())
}

/// Everything on the host that belongs to this root. Others may be at work here too; theirs is not counted.
fn leftovers(network: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let root = root();
    let root = root.to_str().unwrap();
    let short: String = network.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    let mine = |line: &str| line.contains(&mark()) || line.contains(&short) || line.contains(root);
    let mut look = |what: &str, text: &str| {
        found.extend(text.lines().filter(|l| mine(l)).map(|l| format!("{what}: {l}")));
    };
    look("link", &run("ip", &["-o", "link"]));
    look("firewall", &run("nft", &["list", "tables"]));
    look("mount", &fs::read_to_string("/proc/self/mounts").unwrap());
    look("process", &run("ps", &["-eo", "args"]));
    if cgroup().exists() {
        found.insert(format!("cgroup: {}", cgroup().display()));
    }
    for dir in ["instances", "volumes", "tmp"] {
        let entries = fs::read_dir(Path::new(root).join(dir)).unwrap().flatten();
        found.extend(entries.map(|e| format!("directory: {}", e.path().display())));
    }
    for id in MADE.lock().unwrap().iter() {
        let link = id.chars().filter(char::is_ascii_hexdigit).take(12).collect::<String>();
        found.extend(
            [format!("/run/netns/kiln-{}-{id}", mark()), format!("/sys/class/net/kv{link}")]
                .into_iter()
                .filter(|p| Path::new(p).exists()),
        );
    }
    found
}

/// Ids of all instances made, for the search afterwards.
pub static MADE: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
