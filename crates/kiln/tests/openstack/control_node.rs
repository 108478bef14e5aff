//! The control node's part, without the node: the fleet file as `configure` would put it there, kilnd, and the hook
//! that Slurm calls. Slurm itself is a fake: scripts that answer what kilnd asks.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use kiln_deploy::Deployment;
use kiln_fleet::{DaemonConfig, Store, daemon, hooks};
use kiln_slurm::Slurm;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::lab::Lab;

pub struct ControlNode {
    runtime: Runtime,
    dir: tempfile::TempDir,
    store: Store,
    daemon: Option<(CancellationToken, JoinHandle<()>)>,
}

/// The file that `configure` brings to the control node.
pub fn fleet_file(runtime: &Runtime, lab: &Lab) -> String {
    let file = lab.path("cluster.toml");
    let spec = kiln_spec::parse(&std::fs::read_to_string(&file).unwrap(), "cluster.toml").unwrap();
    let deployment = Deployment::open(&spec, &file, &|_| {}, CancellationToken::new()).unwrap();
    runtime.block_on(async {
        let observed = deployment.observe().await.unwrap();
        deployment.fleet_file(&observed).await.unwrap().expose_secret().to_owned()
    })
}

/// Nodes are as the test says, until kilnd sets one down: then Slurm no longer waits for it.
const FAKE_SCONTROL: &str = r#"#!/bin/sh
nodes=${0%/*}/nodes
case "$1 $2 $3" in
--version*) echo 'slurm-wlm 24.11.5' ;;
'show node '*) grep -sw "NodeName=${3#--*}" "$nodes" || cat "$nodes" 2>/dev/null ;;
'update nodename='*' state=down')
    for node in $(echo "${2#nodename=}" | tr , ' '); do
        sed -i "s/^NodeName=$node State=[^ ]*/NodeName=$node State=DOWN+CLOUD/" "$nodes"
    done ;;
esac
exit 0
"#;

impl ControlNode {
    pub fn of(lab: &Lab) -> ControlNode {
        let runtime = Runtime::new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("fleet.json"), fleet_file(&runtime, lab)).unwrap();
        std::fs::create_dir(dir.path().join("spool")).unwrap();
        let slurm = dir.path().join("fake-slurm");
        std::fs::create_dir(&slurm).unwrap();
        for name in ["scontrol", "sbatch", "squeue", "scancel", "sacct"] {
            let path = slurm.join(name);
            std::fs::write(&path, FAKE_SCONTROL).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        let mut node = ControlNode { runtime, dir, store, daemon: None };
        node.start(&slurm);
        node
    }

    fn start(&mut self, slurm: &Path) {
        let config = DaemonConfig {
            store: self.dir.path().join("store.db"),
            spools: vec![self.dir.path().join("spool")],
            fleet: self.dir.path().join("fleet.json"),
            share: self.dir.path().join("share"),
            slurm: Slurm::at(slurm),
            poll: Duration::from_millis(50),
            rollout_poll: Duration::from_secs(1),
            port: 0,
        };
        let stop = CancellationToken::new();
        let serving = daemon::serve(config, stop.clone());
        let task = self.runtime.spawn(async move { serving.await.unwrap() });
        self.daemon = Some((stop, task));
    }

    /// What Slurm shows of these nodes.
    pub fn nodes_are(&self, nodes: &[&str], state: &str) {
        let line = |node: &&str| format!("NodeName={node} State={state} BootTime=None\n");
        let text: Vec<String> = nodes.iter().map(line).collect();
        std::fs::write(self.dir.path().join("fake-slurm/nodes"), text.concat()).unwrap();
    }

    pub fn power_up(&self, nodes: &str) {
        self.call(|paths| hooks::resume(paths, nodes, None));
    }

    pub fn power_down(&self, nodes: &str) {
        self.call(|paths| hooks::suspend(paths, nodes));
    }

    fn call(&self, hook: impl FnOnce(hooks::HookPaths<'_>) -> kiln_fleet::Result<()>) {
        let [spool, fleet] = ["spool", "fleet.json"].map(|name| self.dir.path().join(name));
        hook(hooks::HookPaths { spools: &[&spool], fleet: &fleet }).unwrap();
        // Picked up: from here on `settle` sees it.
        while std::fs::read_dir(&spool).unwrap().next().is_some() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What Slurm does.
    pub fn reboot(&self, nodes: &str) {
        self.call(|paths| hooks::reboot(paths, nodes));
    }

    /// Until kilnd has nothing more to do.
    pub fn settle(&self) {
        let start = std::time::Instant::now();
        while !self.store.open_requests().unwrap().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(180), "kilnd does not come to an end");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// How kilnd's requests for a node ended, oldest first.
    pub fn outcomes(&self, node: &str) -> Vec<String> {
        let events = self.store.events(Some(node), 100).unwrap();
        let asked = |why: &str| why == "request" || why.starts_with("asked by Slurm");
        events.into_iter().filter(|e| asked(&e.why)).map(|e| e.outcome).collect()
    }

    pub fn end(mut self) {
        let (stop, task) = self.daemon.take().unwrap();
        stop.cancel();
        self.runtime.block_on(task).unwrap();
    }
}
