//! One look of the reconciler at ten thousand nodes, with a Slurm and a cloud that only pretend.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use kiln_cloud::{Instance, testing};
use kiln_fleet::Store;
use kiln_fleet::reconcile::{NodeObservation, Observation, Times, plan};
use kiln_slurm::Slurm;
use kiln_wire::Timing;
use kiln_wire::labels;

use crate::{Row, peak_kib, seconds};

const NODES: usize = 10_000;

/// Everything of a look but the cloud's listing: Slurm's nodes are read from a program's output of their true size.
pub fn look() -> Vec<Row> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let slurm = pretend_slurm(dir.path());
    let store = Store::open(&dir.path().join("store.db")).expect("a store");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut instances: Vec<Instance> = (0..NODES).map(instance).collect();
    let before = memory_kib();
    let used = cpu_time();
    let mut nodes = runtime.block_on(slurm.nodes()).expect("nodes");
    let observations = instances.drain(..).map(|instance| {
        let slurm = nodes.remove(&instance.name);
        NodeObservation {
            node: instance.name.clone(),
            group: "g".into(),
            elastic: true,
            image: instance.image.clone(),
            slurm,
            instances: vec![instance],
            ..NodeObservation::default()
        }
    });
    let observation = Observation { nodes: observations.collect(), strays: vec![] };
    let times = Times { timing: Timing::default(), resume_timeout: 300 };
    let findings = plan(&observation, &store.findings().expect("findings"), &times, Timestamp::now());
    let rows: Vec<_> = findings.iter().map(|v| (v.subject.clone(), v.rule.name, v.text.clone())).collect();
    store.set_findings(&rows).expect("written");
    let cpu = cpu_time().saturating_sub(used);
    let memory = memory_kib().saturating_sub(before) / 1024;
    let peak = peak_kib(Path::new("/proc/self/status")) / 1024;
    assert_eq!(rows.len(), NODES / 100, "one in a hundred is left running");
    vec![Row {
        what: "one look of the reconciler, 10,000 nodes, 100 findings".into(),
        value: format!("{} CPU", seconds(cpu)),
        beside: format!("{memory} MiB more memory, {peak} MiB at most; kilnd looks every 30 s"),
    }]
}

fn instance(n: usize) -> Instance {
    let name = format!("node-{n:04}");
    let labels = [
        (labels::CLUSTER, "c"),
        (labels::ROLE, "compute"),
        (labels::NODE, &name),
        (labels::GROUP, "compute.g"),
    ];
    Instance {
        id: format!("00000000-0000-0000-0000-{n:012}"),
        image: Some("image".into()),
        address: Some([10, 0, u8::try_from(n / 256).unwrap_or(0), u8::try_from(n % 256).unwrap_or(0)].into()),
        labels: labels.map(|(k, v)| (k.to_string(), v.to_string())).into(),
        ..testing::instance(&name)
    }
}

/// An `scontrol` that prints ten thousand nodes, one in a hundred of them powered down.
fn pretend_slurm(dir: &Path) -> Slurm {
    let mut text = String::new();
    for n in 0..NODES {
        let state = if n % 100 == 0 { "IDLE+CLOUD+POWERED_DOWN" } else { "IDLE+CLOUD" };
        let _ = writeln!(
            text,
            "NodeName=node-{n:04} Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=0.10 \
             AvailableFeatures=shape=medium,arch=x86_64 ActiveFeatures=shape=medium,arch=x86_64 Gres=(null) \
             NodeAddr=10.0.0.1 NodeHostName=node-{n:04} Version=22.05.8 OS=Linux 6.1.0 RealMemory=16000 AllocMem=0 \
             FreeMem=15000 Sockets=8 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A \
             MCS_label=N/A Partitions=g,rebuild  BootTime=2026-01-01T00:00:00 SlurmdStartTime=2026-01-01T00:00:00 \
             LastBusyTime=2026-01-01T00:00:00 CfgTRES=cpu=8,mem=16000M,billing=8 AllocTRES= CapWatts=n/a \
             CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s \
             Extra=kiln-bundle:0123456789ab"
        );
    }
    std::fs::write(dir.join("nodes"), text).expect("a file");
    let program = dir.join("scontrol");
    std::fs::write(&program, format!("#!/bin/sh\nexec cat '{}'\n", dir.join("nodes").display()))
        .expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    Slurm::at(dir)
}

/// Of this process alone.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

fn memory_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}
