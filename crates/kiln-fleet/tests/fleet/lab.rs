//! A daemon with its world around it.

use std::path::PathBuf;
use std::time::Duration;

use kiln_fleet::hooks::{self, HookPaths};
use kiln_fleet::store::Request;
use kiln_fleet::{DaemonConfig, Store, daemon};
use kiln_slurm::Slurm;
use kiln_wire::FleetFile;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cloud::TestCloud;
use crate::slurm::PretendSlurm;

pub const NODES: [&str; 3] = ["n-0", "n-1", "n-2"];

pub struct Lab {
    pub cloud: TestCloud,
    pub slurm: PretendSlurm,
    pub store: Store,
    dir: tempfile::TempDir,
    daemon: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Lab {
    /// All nodes have the image `old` and should have `new`.
    pub fn new() -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let cloud = TestCloud::new(&dir.path().to_string_lossy(), &NODES, "old");
        let slurm = PretendSlurm::new(dir.path(), &NODES);
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        std::fs::create_dir(dir.path().join("spool")).unwrap();
        let lab = Lab { cloud, slurm, store, dir, daemon: None };
        lab.target("new");
        lab
    }

    pub fn target(&self, image: &str) {
        self.fleet_file(image, "");
    }

    /// `more`: further fields, with a comma before each.
    pub fn fleet_file(&self, image: &str, more: &str) {
        let node = format!(r#"{{"group":"g","image":"{image}","user_data":"u","ssh_key":"k"}}"#);
        let nodes = NODES.map(|name| format!(r#""{name}":{node}"#)).join(",");
        let cloud = self.cloud.access();
        let text = format!(r#"{{"cluster":"c","cloud":{cloud},"nodes":{{{nodes}}}{more}}}"#);
        std::fs::write(self.path("fleet.json"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn fleet(&self) -> FleetFile {
        FleetFile::read(&self.path("fleet.json")).unwrap()
    }

    pub fn commands(&self) -> Slurm {
        Slurm::at(&self.slurm.dir)
    }

    pub fn start(&mut self) {
        let config = DaemonConfig {
            store: self.path("store.db"),
            spools: vec![self.path("spool")],
            fleet: self.path("fleet.json"),
            slurm: self.commands(),
            share: self.path("share"),
            poll: Duration::from_millis(20),
            rollout_poll: Duration::from_millis(100),
            port: 0,
        };
        let stop = CancellationToken::new();
        let serving = daemon::serve(config, stop.clone());
        let task = tokio::spawn(async move { serving.await.unwrap() });
        self.daemon = Some((stop, task));
    }

    pub async fn stop(&mut self) {
        let (stop, task) = self.daemon.take().unwrap();
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(120), task).await.unwrap().unwrap();
    }

    /// As if its process had been killed, whatever it was about to do.
    pub async fn kill(&mut self) {
        let (_, task) = self.daemon.take().unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }

    /// Slurm has the nodes rebooted.
    pub fn hook(&self, nodes: &str) {
        for node in kiln_spec::hostlist::expand(nodes).unwrap() {
            self.slurm.waits_for_boot(&node);
        }
        self.call(|paths| hooks::reboot(paths, nodes));
    }

    pub fn call(&self, hook: impl Fn(HookPaths<'_>) -> kiln_fleet::Result<()>) {
        let fleet = self.path("fleet.json");
        hook(HookPaths { spools: &[&self.path("spool")], fleet: &fleet }).unwrap();
    }

    fn spool_is_empty(&self) -> bool {
        std::fs::read_dir(self.path("spool")).unwrap().next().is_none()
    }

    /// Waits until nothing is open; returns the newest request of the node.
    pub async fn settled(&self, node: &str) -> Request {
        until("all requests settled", || {
            self.spool_is_empty() && self.store.open_requests().unwrap().is_empty()
        })
        .await;
        let latest = self.store.latest_requests().unwrap();
        latest.into_iter().find(|r| r.node == node).unwrap()
    }
}

pub async fn until(what: &str, mut test: impl FnMut() -> bool) {
    for _ in 0..9000 {
        if test() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}
