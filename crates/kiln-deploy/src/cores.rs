//! Nodes keep the cores that Slurm knows of while jobs run there. Slurm may end jobs on a node whose sockets, cores or threads are
//! others after a restart, as they are when a cloud's flavor says how its CPUs are arranged and an earlier Kiln did not ask.

use std::collections::BTreeMap;

use kiln_image::Event;
use kiln_site::Inventory;
use kiln_slurm::Node;
use kiln_spec::hostlist;
use kiln_ssh::Ssh;

use crate::configure::slurm_nodes;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::observe::Observed;

impl Deployment<'_> {
    /// Changes the inventory where it would change nodes under jobs, and says so.
    pub(crate) async fn keep_cores(
        &self,
        ssh: &Ssh,
        observed: &Observed,
        inventory: &mut Inventory,
    ) -> Result<()> {
        if inventory.nodes.values().all(|facts| facts.topology.is_none()) {
            return Ok(());
        }
        let control = self.hosts(observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        // A Slurm that was never configured, or is away, has no jobs to tell of.
        let Ok(nodes) = slurm_nodes(ssh, &control).await else { return Ok(()) };
        let kept = keep(inventory, &nodes);
        if kept.is_empty() {
            return Ok(());
        }
        let list = hostlist::fold(kept.iter().map(String::as_str));
        let ask = ["squeue", "--noheader", "--format=%A", "--nodelist", &list];
        let jobs = ssh.run(&control, &ask, b"").await.unwrap_or_default();
        let mut jobs: Vec<&str> = jobs.split_whitespace().collect();
        jobs.sort_unstable();
        jobs.dedup();
        let text = format!(
            "other sockets, cores and threads are due, but jobs run there ({}): run `kiln configure` again when they are over",
            jobs.join(", ")
        );
        (self.progress)(Event::failed(list, text));
        Ok(())
    }
}

/// Those whose cores stay what they are.
fn keep(inventory: &mut Inventory, nodes: &BTreeMap<String, Node>) -> Vec<String> {
    let mut kept = Vec::new();
    for (name, facts) in &mut inventory.nodes {
        let Some((wanted, node)) = facts.topology.zip(nodes.get(name).filter(|node| node.carries_jobs()))
        else {
            continue;
        };
        let Some(present) = node.cores.filter(|present| *present != wanted) else { continue };
        // Without a word about them, every CPU is a socket of one core.
        facts.topology = (present[1..] != [1, 1]).then_some(present);
        kept.push(name.clone());
    }
    kept
}

#[cfg(test)]
mod tests {
    use kiln_site::NodeFacts;
    use kiln_slurm::parse_nodes;

    use super::*;

    #[test]
    fn cores_change_only_where_no_job_runs() {
        let nodes = parse_nodes(
            "NodeName=busy State=MIXED CoresPerSocket=1 CPUAlloc=2 Sockets=8 ThreadsPerCore=1\n\
             NodeName=idle State=IDLE CoresPerSocket=1 CPUAlloc=0 Sockets=8 ThreadsPerCore=1\n\
             NodeName=same State=MIXED CoresPerSocket=4 CPUAlloc=2 Sockets=1 ThreadsPerCore=2\n\
             NodeName=other State=MIXED CoresPerSocket=2 CPUAlloc=2 Sockets=2 ThreadsPerCore=2\n",
        );
        let facts = NodeFacts {
            address: "10.0.0.1".parse().unwrap(),
            cpus: 8,
            topology: Some([1, 4, 2]),
            memory_mib: 1024,
            real_memory_mib: 972,
            gpus: None,
            switch: None,
            features: Vec::new(),
            ssh_host_public: String::new(),
        };
        let names = ["busy", "idle", "same", "other", "new"];
        let mut inventory = Inventory {
            nodes: names.map(|name| (name.to_string(), facts.clone())).into(),
            release: kiln_slurm::Release::new(24, 11, 5),
            architecture: String::new(),
            kiln: String::new(),
            backup_volume: false,
            exports: None,
        };
        assert_eq!(keep(&mut inventory, &nodes), ["busy", "other"]);
        let topology = |name: &str| inventory.nodes[name].topology;
        assert_eq!((topology("busy"), topology("other")), (None, Some([2, 2, 2])));
        assert!(["idle", "same", "new"].iter().all(|name| topology(name) == Some([1, 4, 2])));
    }
}
