//! A machine for a server of the fake hypervisor: when Nova says that a build server runs, a real system is booted by
//! the local cloud with what Nova's metadata service says to it, and the server's floating IP leads there, by
//! the same translation of addresses that Neutron's routers do. What the recipe does, it does inside.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kiln_cloud::openstack::Settings;
use kiln_cloud::{Cloud, Instance, InstanceStatus, Labels, NewInstance, NewNetwork, NewSecurityGroup, Rule};
use kiln_wire::labels;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

use crate::lab::openstack;
use crate::proxy::pass_on;

/// A server that was stood in for.
pub struct StoodIn {
    pub server: Instance,
    /// Of a root disk that is a volume.
    pub disk_gib: Option<u64>,
}

pub struct StandIn {
    stop: Arc<AtomicBool>,
    watch: Option<std::thread::JoinHandle<Vec<StoodIn>>>,
}

impl StandIn {
    /// For the build servers of a cluster. Returns when a system could be booted at once.
    pub fn start(cluster: &'static str) -> StandIn {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let stopping = stop.clone();
        let watch = std::thread::spawn(move || {
            Runtime::new().unwrap().block_on(async {
                let room = Arc::new(Room::new(cluster).await);
                let _ = ready.send(());
                // In a task of its own: also when it panics, what it made is taken away.
                let watching = room.clone();
                let watched = tokio::spawn(async move { watching.watch(&stopping).await }).await;
                room.end().await;
                watched.unwrap().unwrap()
            })
        });
        // An error: the thread has ended, and `end` tells why.
        let _ = is_ready.recv();
        StandIn { stop, watch: Some(watch) }
    }

    /// With the servers that were stood in for. Nothing is left then.
    pub fn end(mut self) -> Vec<StoodIn> {
        self.stop.store(true, Ordering::Relaxed);
        self.watch.take().unwrap().join().unwrap()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}

/// Where the local cloud of these tests is: beside those of the end-to-end suites' lanes.
pub fn local_root() -> std::path::PathBuf {
    let root = std::env::var_os("KILN_TEST_ROOT").unwrap_or_else(|| "/var/tmp/kiln-test".into());
    std::path::PathBuf::from(root).join("openstack")
}

pub fn local_cloud() -> Cloud {
    Cloud::local_with(local_root(), env!("CARGO_BIN_EXE_kiln").into())
}

/// The local cloud's part, and what there is on it.
struct Room {
    cluster: &'static str,
    remote: Cloud,
    local: Cloud,
    wanted: NewInstance,
    /// Its id.
    project: String,
}

impl Room {
    async fn new(cluster: &'static str) -> Room {
        let settings = Settings {
            cloud: Some("demo".into()),
            external_network: Some("public".into()),
            ..Settings::default()
        };
        let remote = Cloud::openstack(&settings).unwrap();
        let local = local_cloud();
        // What a run that was cut off has left.
        clear(&local, cluster).await;
        let labels = Labels::from([(labels::CLUSTER.to_string(), cluster.to_string())]);
        let image =
            local.source_image("bookworm", &|step| eprintln!("source image: {step}")).await.unwrap().id;
        let network =
            NewNetwork { name: cluster.into(), cidr: None, labels: labels.clone(), automatic: vec![] };
        let network = local.create_network(network).await.unwrap().id;
        let ssh = Rule { from: kiln_cloud::Peers::Net("0.0.0.0/0".parse().unwrap()), tcp_port: Some(22) };
        let group = NewSecurityGroup {
            name: cluster.into(),
            labels: labels.clone(),
            rules: vec![ssh],
            without: vec![],
        };
        let group = local.create_security_group(group).await.unwrap().id;
        let wanted = NewInstance {
            name: String::new(),
            image,
            flavor: "small".into(),
            zone: None,
            network,
            address: None,
            public: false,
            security_groups: vec![group],
            user_data: "".into(),
            ssh_key: String::new(),
            labels,
            volumes: Vec::new(),
            disk_gib: None,
            request: None,
        };
        let project = openstack(&["token issue"])[0]["project_id"].as_str().unwrap().to_string();
        Room { cluster, remote, local, wanted, project }
    }

    async fn watch(&self, stop: &AtomicBool) -> kiln_cloud::Result<Vec<StoodIn>> {
        let mut seen: Vec<StoodIn> = Vec::new();
        let mut present: Option<(String, Instance)> = None;
        while !stop.load(Ordering::Relaxed) {
            let servers = self.remote.instances(self.cluster).await?;
            if let Some((_, instance)) =
                present.take_if(|(id, _)| !servers.iter().any(|server| server.id == *id))
            {
                self.local.delete(&instance.id).await?;
            }
            let is_new = |server: &&Instance| {
                server.labels.get(labels::ROLE).is_some_and(|role| role == "build")
                    && server.status == InstanceStatus::Active
                    && !seen.iter().any(|one| one.server.id == server.id)
            };
            if let Some(server) = servers.iter().find(is_new)
                && present.is_none()
                && server.public_address.is_some()
            {
                seen.push(StoodIn { server: server.clone(), disk_gib: volume_of(&server.id) });
                present = Some((server.id.clone(), self.boot(server).await?));
            }
            // A look costs the services half a second of a core.
            sleep(Duration::from_secs(2)).await;
        }
        Ok(seen)
    }

    /// What Nova's metadata service says to a server, asked as Neutron's proxy does it for the server.
    fn metadata(&self, server: &Instance, path: &str) -> String {
        let sign = ["dgst", "-sha256", "-hmac", "loopback", "-r"];
        let mut openssl = Command::new("openssl");
        let mut openssl = openssl.args(sign).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        openssl.stdin.take().unwrap().write_all(server.id.as_bytes()).unwrap();
        let output = openssl.wait_with_output().unwrap();
        let signature = String::from_utf8(output.stdout).unwrap();
        let signature = signature.split(' ').next().unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\nX-Instance-ID: {}\r\n\
             X-Tenant-ID: {}\r\nX-Instance-ID-Signature: {signature}\r\nX-Forwarded-For: {}\r\n\r\n",
            server.id,
            self.project,
            server.address.unwrap()
        );
        let answer = pass_on(request.as_bytes(), 8775).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_string()
    }

    /// As the server was asked for, in Nova's words.
    async fn boot(&self, server: &Instance) -> kiln_cloud::Result<Instance> {
        let ask = |path: &str| self.metadata(server, path);
        let user_data = ask("/openstack/latest/user_data");
        let told: Value = serde_json::from_str(&ask("/openstack/latest/meta_data.json")).unwrap();
        assert_eq!(told["uuid"], server.id);
        let keys = told["public_keys"].as_object().unwrap();
        let ssh_key = keys.values().next().unwrap().as_str().unwrap().trim().to_string();
        let wanted = NewInstance {
            name: server.name.clone(),
            user_data: user_data.into(),
            ssh_key,
            ..self.wanted.clone()
        };
        let made = self.local.create(vec![wanted]).await.remove(0)?;
        let deadline = Instant::now() + Duration::from_secs(300);
        let ids = std::slice::from_ref(&made.id);
        let active = self.local.wait_active(ids, deadline, |_| {}).await?.remove(0);
        let (outside, inside) = (server.public_address.unwrap(), active.address.unwrap());
        nft(&format!(
            "table ip {TABLE} {{\n chain output {{\n  type nat hook output priority -100;\n  \
             ip daddr {outside} dnat to {inside}\n }}\n}}\n"
        ));
        Ok(active)
    }

    async fn end(&self) {
        clear(&self.local, self.cluster).await;
        assert!(self.local.instances(self.cluster).await.unwrap().is_empty());
        self.local.retire().await.unwrap();
    }
}

/// The size of the volume that a server has.
fn volume_of(server: &str) -> Option<u64> {
    let volumes = openstack(&["volume list"]).remove(0);
    let own = volumes.as_array()?.iter().find(|row| row["Attached to"].to_string().contains(server))?;
    own["Size"].as_u64()
}

async fn clear(local: &Cloud, cluster: &str) {
    nft("");
    for instance in local.instances(cluster).await.unwrap() {
        local.delete(&instance.id).await.unwrap();
    }
    for group in local.security_groups(cluster).await.unwrap() {
        local.delete_security_group(&group.id).await.unwrap();
    }
    for network in local.networks(cluster).await.unwrap() {
        local.delete_network(&network.id).await.unwrap();
    }
}

const TABLE: &str = "kiln-stand-in";

/// In place of what there was.
fn nft(rules: &str) {
    let text = format!("add table ip {TABLE}\ndelete table ip {TABLE}\n{rules}");
    let output = Command::new("nft").arg(&text).output().unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
