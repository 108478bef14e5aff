//! slurm.conf, the file administrators will read line by line.

mod accounts;
pub mod gres;
pub mod other_files;
mod power;
mod timeouts;
pub mod topology;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_slurm::config::{self, Takes};
use kiln_spec::{ConfigValue, Group, Partition, Spec, hostlist};

use kiln_wire::paths::hook;
pub use timeouts::{longest_resume_timeout, resume_timeout};

use crate::inputs::Inventory;
use crate::services::rest;

pub const STATE: &str = kiln_wire::paths::SLURMCTLD_STATE;
/// The default of Slurm from 23.11 on, and not before.
const PRIORITY_TYPE: (&str, &str) = ("PriorityType", "priority/multifactor");
pub const SLURMCTLD_PORT: u16 = 6817;
pub const SLURMD_PORT: u16 = 6818;

pub struct SlurmConf {
    /// The whole file.
    pub text: String,
    /// Changes exactly when slurmctld must be restarted.
    pub restart: String,
    /// Changes exactly when slurmd must be restarted.
    pub slurmd_restart: String,
}

pub fn slurm_conf(spec: &Spec, inventory: &Inventory) -> SlurmConf {
    let parameters = parameters(spec, inventory);
    let nodes = node_lines(spec, inventory);
    let partitions = partition_lines(spec, inventory);

    let mut text = String::from(
        "# Written by Kiln from cluster.toml. `kiln configure` overwrites what is changed here;\n\
         # put your own parameters under [slurm.config] in cluster.toml.\n",
    );
    for (key, value) in &parameters {
        let _ = writeln!(text, "{key}={value}");
    }
    text.push('\n');
    nodes.iter().chain(&partitions).for_each(|line| {
        text.push_str(line);
        text.push('\n');
    });

    let only = |least: Takes| -> String {
        parameters
            .iter()
            .filter(|(key, _)| config::takes(key) >= least)
            .fold(String::new(), |text, (key, value)| text + key + "=" + value + "\n")
    };
    SlurmConf {
        restart: only(Takes::SlurmctldRestart) + &nodes.join("\n") + "\n",
        slurmd_restart: only(Takes::AllRestart),
        text,
    }
}

/// Tracking of processes. Local instances cannot delegate cgroups to Slurm.
pub fn cgroup_conf(spec: &Spec, inventory: &Inventory) -> String {
    if spec.cloud.facts().delegates_cgroups {
        return "# Written by Kiln.\nCgroupPlugin=autodetect\nConstrainCores=yes\nConstrainRAMSpace=yes\n\
                ConstrainDevices=yes\n"
            .to_string();
    }
    let plugin = if inventory.release.can_disable_cgroups() { "disabled" } else { "cgroup/v1" };
    format!("# Written by Kiln.\nCgroupPlugin={plugin}\n")
}

fn parameters(spec: &Spec, inventory: &Inventory) -> Vec<(String, String)> {
    let control = &spec.control.node;
    let mut own: Vec<(&str, String)> = vec![
        ("ClusterName", spec.name.clone()),
        ("SlurmctldHost", control.clone()),
        ("SlurmUser", "slurm".into()),
        ("AuthType", "auth/munge".into()),
    ];
    if inventory.release.has_cred_type() {
        own.push(("CredType", "cred/munge".into()));
    }
    own.extend([
        ("SlurmctldPort", SLURMCTLD_PORT.to_string()),
        ("SlurmdPort", SLURMD_PORT.to_string()),
        // Nodes fetch this file from slurmctld; only the control node and login nodes hold a copy.
        // And it is slurmctld, not the node itself, that has a node rebooted.
        ("SlurmctldParameters", "enable_configless,reboot_from_controller".into()),
        ("StateSaveLocation", STATE.into()),
        ("SlurmdSpoolDir", "/var/spool/slurmd".into()),
        ("SlurmctldPidFile", "/run/slurmctld.pid".into()),
        ("SlurmdPidFile", "/run/slurmd.pid".into()),
        ("SlurmctldTimeout", "120".into()),
        ("SlurmdTimeout", "300".into()),
        // A node that was rebuilt or rebooted comes back by itself.
        ("ReturnToService", "2".into()),
        ("SchedulerType", "sched/backfill".into()),
        ("SelectType", "select/cons_tres".into()),
        ("SelectTypeParameters", "CR_Core_Memory".into()),
        // On all nodes that answer: one that was drained for its health is to come back.
        ("HealthCheckProgram", hook::HEALTH.into()),
        ("HealthCheckInterval", spec.health.every.as_secs().to_string()),
        ("HealthCheckNodeState", "ANY".into()),
    ]);
    // Local instances share the host's cores and have no cgroups to delegate.
    own.extend(if spec.cloud.facts().delegates_cgroups {
        vec![
            ("ProctrackType", "proctrack/cgroup".to_string()),
            ("TaskPlugin", "task/cgroup,task/affinity".into()),
            // Every job has a step on each of its nodes that logins become part of.
            ("PrologFlags", "Contain".into()),
        ]
    } else {
        vec![
            ("ProctrackType", "proctrack/linuxproc".to_string()),
            ("TaskPlugin", "task/none".into()),
            ("SlurmdParameters", "config_overrides".into()),
            // Ends the logins of a user whose last job on the node ends.
            ("Epilog", hook::EPILOGS.into()),
        ]
    });
    own.extend([
        ("AccountingStorageType", "accounting_storage/slurmdbd".to_string()),
        ("AccountingStorageHost", spec.accounting.as_ref().map_or(control, |dbd| &dbd.host).clone()),
    ]);
    if let Some(dbd) = &spec.accounting {
        own.push(("AccountingStoragePort", dbd.port.to_string()));
        own.extend(dbd.backup_host.iter().map(|host| ("AccountingStorageBackupHost", host.clone())));
    }
    if let Some(types) = gres_types(spec, inventory) {
        own.push(("GresTypes", types.into()));
    }
    if topology::topology_conf(spec, inventory).is_some() {
        own.push((topology::PLUGIN.0, topology::PLUGIN.1.into()));
    }
    own.extend(accounts::parameters(spec, inventory));
    own.extend(rest::parameters(spec));
    own.extend([("JobAcctGatherType", "jobacct_gather/linux".to_string()), ("MpiDefault", "none".into())]);
    if !spec.rebuild.is_empty() {
        let concurrency = spec.concurrency;
        own.extend([
            ("RebootProgram", hook::REBOOT.to_string()),
            // How long a rebuild may take, until Slurm gives the node up.
            ("ResumeTimeout", resume_timeout(spec).as_secs().to_string()),
            // Slurm itself holds back rebuild jobs beyond what the cloud builds at a time.
            ("Licenses", format!("rebuild:{concurrency}")),
        ]);
        // Rebuild jobs go before user jobs of their tier by partition factor.
        own.extend([
            (PRIORITY_TYPE.0, PRIORITY_TYPE.1.to_string()),
            ("PriorityWeightPartition", "1000".into()),
            ("PriorityFlags", "NO_NORMAL_PART".into()),
        ]);
        // Else a node that falls idle while its rebuild job waits for a licence goes to the next user job.
        let rebuilt = spec.rebuild.iter().flat_map(|partition| &partition.groups);
        let nodes: usize = rebuilt.filter_map(|name| spec.compute_group(name)).map(|g| g.nodes.len()).sum();
        if nodes > concurrency {
            own.push(("SchedulerParameters", "bf_licenses".into()));
        }
    }
    own.extend(power::parameters(spec));
    merge(own, &spec.slurm.config)
}

fn gres_types(spec: &Spec, inventory: &Inventory) -> Option<&'static str> {
    gres::gres_conf(spec, inventory).map(|_| "gpu")
}

fn merge(own: Vec<(&str, String)>, site: &BTreeMap<String, ConfigValue>) -> Vec<(String, String)> {
    let find = |key: &str| site.iter().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, v)| v);
    let mut merged: Vec<(String, String)> = Vec::new();
    for (key, value) in own {
        let additive = config::is_list(key);
        match find(key) {
            Some(ConfigValue::Removed) if !additive => {}
            Some(ConfigValue::Set(_) | ConfigValue::List(_)) if additive => {
                let more = find(key).map(value_text).unwrap_or_default();
                let known: Vec<&str> = value.split(',').collect();
                let more = more.split(',').filter(|one| !known.contains(&one.trim()));
                merged.push((key.into(), known.iter().copied().chain(more).collect::<Vec<_>>().join(",")));
            }
            Some(set @ (ConfigValue::Set(_) | ConfigValue::List(_))) => {
                merged.push((key.into(), value_text(set)));
            }
            _ => merged.push((key.into(), value)),
        }
    }
    for (key, value) in site {
        let known = merged.iter().any(|(k, _)| k.eq_ignore_ascii_case(key));
        if !known && *value != ConfigValue::Removed {
            merged.push((key.clone(), value_text(value)));
        }
    }
    merged
}

fn value_text(value: &ConfigValue) -> String {
    match value {
        ConfigValue::Set(text) => text.clone(),
        ConfigValue::List(items) => items.join(","),
        ConfigValue::Removed => String::new(),
    }
}

/// Nodes of one group with the same properties share a line.
fn node_lines(spec: &Spec, inventory: &Inventory) -> Vec<String> {
    spec.compute.iter().flat_map(|group| group_lines(spec, group, inventory)).collect()
}

fn group_lines(spec: &Spec, group: &Group, inventory: &Inventory) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for node in group.members() {
        let properties = node_properties(spec, group, &node, inventory);
        match lines.iter_mut().find(|(p, _)| *p == properties) {
            Some((_, names)) => names.push(node.name),
            None => lines.push((properties, vec![node.name])),
        }
    }
    lines
        .into_iter()
        .map(|(properties, names)| format!("NodeName={} {properties}", hostlist::fold(names)))
        .collect()
}

/// A site that sets one of these arranges the CPUs itself.
const TOPOLOGY: &[&str] = &["Boards", "SocketsPerBoard", "Sockets", "CoresPerSocket", "ThreadsPerCore"];

fn node_properties(spec: &Spec, group: &Group, node: &kiln_spec::Node<'_>, inventory: &Inventory) -> String {
    let mut words: Vec<(String, String)> = Vec::new();
    let node_config = group.node_config(node.name);
    let arranged = node_config.keys().any(|key| TOPOLOGY.iter().any(|own| own.eq_ignore_ascii_case(key)));
    if let Some(facts) = inventory.nodes.get(node.name) {
        words.push(("CPUs".into(), facts.cpus.to_string()));
        // Without threads, each one is a core to Slurm, and two jobs share a core.
        if let Some(topology) = facts.topology.filter(|_| !arranged) {
            let names = ["Sockets", "CoresPerSocket", "ThreadsPerCore"];
            words.extend(names.iter().zip(topology).map(|(name, count)| ((*name).into(), count.to_string())));
        }
        words.push(("RealMemory".into(), facts.real_memory_mib.to_string()));
    }
    if let Some(gpus) = gres::gpus(spec, group, node.name, inventory) {
        words.push(("Gres".into(), gpus.gres()));
    }
    for (key, value) in node_config {
        words.retain(|(k, _)| !k.eq_ignore_ascii_case(&key));
        words.push((key, value));
    }
    let features = power::features(group, node, inventory);
    if !features.is_empty() {
        words.push(("Feature".into(), features.join(",")));
    }
    words.push(("State".into(), if node.elastic { "CLOUD" } else { "UNKNOWN" }.into()));
    words.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
}

fn partition_lines(spec: &Spec, inventory: &Inventory) -> Vec<String> {
    let nodes_of = |groups: &[String]| {
        let members = groups.iter().filter_map(|name| spec.compute_group(name));
        hostlist::fold(members.flat_map(|g| g.nodes.iter().map(String::as_str)))
    };
    let users = spec.partitions.iter().map(|partition| {
        let mut line = format!(
            "PartitionName={} Nodes={} Default={} MaxTime={} State=UP",
            partition.name,
            nodes_of(&partition.groups),
            if partition.default { "YES" } else { "NO" },
            partition.max_time.as_deref().unwrap_or("INFINITE"),
        );
        // Without a default a job that names no memory takes the whole node's.
        let mut keys = partition.config.keys().chain(spec.slurm.config.keys());
        let names_memory = keys.any(|k| k.to_lowercase().starts_with("defmemper"));
        if let Some(mib) = memory_per_cpu(spec, inventory, partition).filter(|_| !names_memory) {
            let _ = write!(line, " DefMemPerCPU={mib}");
        }
        if let Some(seconds) = power::suspend_time(spec, partition) {
            let _ = write!(line, " SuspendTime={seconds}");
        }
        // A node's root is root there and no further.
        if !partition.config.keys().any(|key| key.eq_ignore_ascii_case("DisableRootJobs")) {
            line.push_str(" DisableRootJobs=YES");
        }
        for (key, value) in accounts::partition(partition).into_iter().chain(partition.config.clone()) {
            let _ = write!(line, " {key}={value}");
        }
        line
    });
    let tier = rebuild_tier(spec).map(|tier| format!(" PriorityTier={tier}")).unwrap_or_default();
    // Kiln submits as `slurm`, which RootOnly admits; root of a node is kept out by DisableRootJobs.
    let rebuilds = spec.rebuild.iter().map(|partition| {
        format!(
            "PartitionName={} Nodes={} Default=NO Hidden=YES RootOnly=YES DisableRootJobs=YES PreemptMode=OFF \
             OverSubscribe=EXCLUSIVE PriorityJobFactor=65533{tier} MaxTime={} State=UP",
            partition.name,
            nodes_of(&partition.groups),
            partition.max_time.as_secs().div_ceil(60),
        )
    });
    users.chain(rebuilds).collect()
}

/// Slurm compares tiers before priorities, so rebuild jobs need the highest of the users' partitions to go before all user jobs.
/// With preemption a tier would let them end or suspend those of lower ones: they stay in the lowest, and `validate` warns.
fn rebuild_tier(spec: &Spec) -> Option<u64> {
    let highest = spec.partitions.iter().filter_map(Partition::priority_tier).max()?;
    (highest > 1 && !spec.slurm.preempts()).then_some(highest)
}

/// What the leanest node of a partition has per CPU.
fn memory_per_cpu(spec: &Spec, inventory: &Inventory, partition: &Partition) -> Option<u64> {
    let groups = partition.groups.iter().filter_map(|name| spec.compute_group(name));
    let per_cpu = |group: &Group, name: &String| -> Option<u64> {
        let (cpus, memory) = promised(group, name, inventory)?;
        memory.checked_div(cpus).filter(|mib| *mib > 0)
    };
    groups.flat_map(|group| group.nodes.iter().filter_map(move |name| per_cpu(group, name))).min()
}

/// CPUs and MiB of memory that slurm.conf has of a node.
pub fn promised(group: &Group, node: &str, inventory: &Inventory) -> Option<(u64, u64)> {
    let facts = inventory.nodes.get(node)?;
    let config = group.node_config(node);
    let number = |key: &str, of_flavor: u64| match value_of(&config, key) {
        Some(value) => value.parse::<u64>().ok(),
        None => Some(of_flavor),
    };
    Some((number("CPUs", u64::from(facts.cpus))?, number("RealMemory", facts.real_memory_mib)?))
}

/// How many GPUs slurm.conf has of a node.
pub fn gpu_count(spec: &Spec, group: &Group, node: &str, inventory: &Inventory) -> u32 {
    match value_of(&group.node_config(node), "Gres") {
        Some(gres) => gpus_of_gres(gres),
        None => gres::gpus(spec, group, node, inventory).map_or(0, |gpus| gpus.count),
    }
}

/// How many GPUs a `Gres` has: `gpu:2`, `gpu:a100:4,shard:8`, `gpu`.
pub fn gpus_of_gres(gres: &str) -> u32 {
    let count = |one: &str| -> u32 {
        let words: Vec<&str> = one.trim().split(['(', ':']).collect();
        match words.as_slice() {
            ["gpu"] => 1,
            ["gpu", count] | ["gpu", _, count, ..] => count.parse().unwrap_or(1),
            _ => 0,
        }
    };
    gres.split(',').map(count).sum()
}

fn value_of<'c>(config: &'c BTreeMap<String, String>, key: &str) -> Option<&'c str> {
    config.iter().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_counted() {
        for (gres, wanted) in
            [("gpu:2", 2), ("gpu:a100:4,shard:8", 4), ("gpu", 1), ("gpu:a:1,gpu:b:2", 3), ("nic:2", 0)]
        {
            assert_eq!(gpus_of_gres(gres), wanted, "{gres}");
        }
    }
}
