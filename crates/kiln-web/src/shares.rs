//! Which cores, memory and devices of a node are whose.

use std::collections::BTreeMap;

use kiln_slurm::{Devices, Sharing};

use crate::describe::described;
use crate::view::Job;

described! {
    /// Generic resources of a node, such as GPUs.
    pub struct NodeDevices {
        /// `gpu`.
        pub name: String,
        /// `a100`, where Slurm tells them apart.
        pub kind: Option<String>,
        pub count: u32,
        /// Which of them, from 0; empty where they are only counted.
        pub indexes: Vec<u32>,
    }
}

described! {
    /// What one job has of a node.
    pub struct JobShare {
        pub job: String,
        pub name: String,
        pub user: String,
        /// As Slurm numbers the node's CPUs, from 0.
        pub cpus: Vec<u32>,
        pub memory_mib: u64,
        pub devices: Vec<NodeDevices>,
    }
}

described! {
    /// What a node has, and which jobs have what of it.
    pub struct NodeShares {
        pub node: String,
        pub cpus: u32,
        pub memory_mib: u64,
        pub devices: Vec<NodeDevices>,
        pub jobs: Vec<JobShare>,
    }
}

impl From<&Devices> for NodeDevices {
    fn from(devices: &Devices) -> NodeDevices {
        let Devices { name, kind, count, indexes } = devices.clone();
        NodeDevices { name, kind, count, indexes }
    }
}

/// Names of jobs are those of the queue.
pub fn node_shares(node: &str, sharing: &Sharing, queue: &BTreeMap<String, Job>) -> NodeShares {
    let jobs = sharing.shares.iter().map(|share| JobShare {
        job: share.job.clone(),
        name: queue.get(&share.job).map(|job| job.name.clone()).unwrap_or_default(),
        user: share.user.clone(),
        cpus: share.cpus.iter().copied().filter(|cpu| *cpu < sharing.cpus).collect(),
        memory_mib: share.memory_mib,
        devices: share.devices.iter().map(NodeDevices::from).collect(),
    });
    NodeShares {
        node: node.into(),
        cpus: sharing.cpus,
        memory_mib: sharing.memory_mib,
        devices: sharing.devices.iter().map(NodeDevices::from).collect(),
        jobs: jobs.collect(),
    }
}
