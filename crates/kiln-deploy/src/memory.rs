//! How much memory Slurm is told that nodes have. Kernel, firmware and hypervisor keep some of a flavor's, and Slurm drains a node that
//! reports less than slurm.conf says. So nodes are asked themselves; one that is not there gets what its like reports.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use kiln_cloud::InstanceStatus;
use kiln_site::{Inventory, NodeFacts};
use kiln_slurm::parse_nodes;
use kiln_spec::Role;
use kiln_ssh::{Host, Ssh};

use crate::configure::slurm_nodes;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::nodes::bounded;
use crate::observe::Observed;

/// How many nodes of one size are asked. They differ by a few megabytes, if at all.
const ASKED: usize = 2;
/// For how long a node is waited for that Slurm knows and that has had time to boot: it may hang, and must not keep the others
/// from being configured.
const KNOWN_LIMIT: Duration = Duration::from_secs(30);
const BOOT_SECONDS: i64 = 900;

impl Deployment<'_> {
    /// Sets the memory of each compute node.
    pub(crate) async fn ask_memory(
        &self,
        ssh: &Ssh,
        observed: &Observed,
        inventory: &mut Inventory,
    ) -> Result<()> {
        if !self.spec.cloud.facts().has_kernels {
            return Ok(());
        }
        let control = self.hosts(observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        // A Slurm that was never configured, or is away, has nothing to keep.
        let slurm = async { slurm_nodes(ssh, &control).await.unwrap_or_default() }.shared();
        let asked = self.hosts(observed, self.samples(observed, inventory).into_iter())?;
        let instances = observed.nodes();
        let is_booted = |node: &str| {
            let built = instances.get(node).and_then(|instance| instance.built);
            built.is_some_and(|built| jiff::Timestamp::now().duration_since(built).as_secs() > BOOT_SECONDS)
        };
        let answers = bounded(asked, self.spec.concurrency, async |host: Host| {
            let is_known = async {
                let known = slurm.clone().await.get(&host.name).and_then(|node| node.real_memory);
                if known.is_none() || !is_booted(&host.name) {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(KNOWN_LIMIT).await;
            };
            // A node that does not answer has its like, and `configure` tells of it later.
            let output = tokio::select! {
                answer = self.ask_when_up(ssh, &host, &["slurmd", "-C"]) => answer.ok()?,
                () = is_known => return None,
            };
            Some((host.name, reported(&output.stdout)?))
        });
        let (slurm, answers) = tokio::join!(slurm.clone(), answers);
        let reported: BTreeMap<String, u64> = answers.into_iter().flatten().collect();
        let facts = inventory.nodes.clone();
        for (name, node) in &mut inventory.nodes {
            let like = reported.iter().filter(|(other, _)| facts.get(*other).is_some_and(|f| alike(f, node)));
            let known = slurm.get(name).and_then(|node| node.real_memory);
            node.real_memory_mib = real_memory(node.memory_mib, like.map(|(_, mib)| *mib).min(), known);
        }
        Ok(())
    }

    /// A few nodes of each size that run, those first that stay.
    fn samples(&self, observed: &Observed, inventory: &Inventory) -> Vec<&str> {
        let instances = observed.nodes();
        let mut running: Vec<kiln_spec::Node<'_>> = (self.spec.nodes())
            .filter(|node| node.role == Role::Compute)
            .filter(|node| instances.get(node.name).is_some_and(|i| i.status == InstanceStatus::Active))
            .collect();
        running.sort_by_key(|node| node.elastic);
        let mut chosen: Vec<(&str, &NodeFacts)> = Vec::new();
        for node in running {
            let Some(facts) = inventory.nodes.get(node.name) else { continue };
            if chosen.iter().filter(|(_, other)| alike(other, facts)).count() < ASKED {
                chosen.push((node.name, facts));
            }
        }
        chosen.into_iter().map(|(name, _)| name).collect()
    }
}

/// Whether two nodes are of one size, as far as the cloud tells.
fn alike(one: &NodeFacts, other: &NodeFacts) -> bool {
    let size = |facts: &NodeFacts| (facts.cpus, facts.memory_mib, facts.topology);
    size(one) == size(other) && one.features == other.features
}

/// From the output of `slurmd -C`.
fn reported(text: &str) -> Option<u64> {
    parse_nodes(text).into_values().next()?.real_memory.filter(|mib| *mib > 0)
}

/// `known` is what Slurm has now. It stays where it is right, so that another kernel does not change slurm.conf.
fn real_memory(flavor: u64, reported: Option<u64>, known: Option<u64>) -> u64 {
    let fits = |least: u64, most: u64| known.filter(|mib| (least..=most).contains(mib));
    match reported {
        Some(mib) => fits(mib * 97 / 100, mib).unwrap_or((mib * 99 / 100).max(1)),
        None => fits(flavor * 85 / 100, flavor).unwrap_or_else(|| estimate(flavor)),
    }
}

/// Of a machine that nobody has seen. What a kernel takes is a share of the memory and about 80 MiB.
fn estimate(flavor: u64) -> u64 {
    usable_share(flavor).min(flavor.saturating_sub(96)).max(1)
}

/// Where instances have no memory of their own, the same share as of a machine with much of it.
pub(crate) fn usable_share(flavor: u64) -> u64 {
    (flavor * 95 / 100).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_offers_what_it_reports() {
        let text = "NodeName=c-0 CPUs=1 Boards=1 SocketsPerBoard=1 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=463\n\
                    UpTime=0-00:01:02\n";
        assert_eq!(reported(text), Some(463));
        assert_eq!((reported(""), reported("slurmd: error: RealMemory=1")), (None, None));
        assert_eq!(real_memory(512, Some(463), None), 458);
        // More than it has, and much less: the file of an earlier flavor.
        assert_eq!(
            (real_memory(512, Some(463), Some(486)), real_memory(512, Some(463), Some(200))),
            (458, 458)
        );
        for kept in [450, 458, 463] {
            assert_eq!(real_memory(512, Some(463), Some(kept)), kept);
        }
    }

    #[test]
    fn a_node_that_is_not_there_offers_what_its_flavor_surely_has() {
        assert_eq!((real_memory(512, None, None), real_memory(16384, None, None)), (416, 15564));
        assert_eq!((real_memory(50, None, None), real_memory(0, None, None)), (1, 1));
        // What it reported when it was there.
        assert_eq!((real_memory(512, None, Some(458)), real_memory(1024, None, Some(458))), (458, 928));
    }
}
