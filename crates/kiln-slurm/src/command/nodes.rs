//! Reading nodes, and taking them out of service.

use std::collections::BTreeMap;

use kiln_spec::hostlist;

use super::Slurm;
use crate::error::{Error, Result};
use crate::node::{Node, one_line, parse_nodes};
use crate::oneliner::field;

impl Slurm {
    /// All nodes by name.
    pub async fn nodes(&self) -> Result<BTreeMap<String, Node>> {
        Ok(parse_nodes(&self.call("scontrol", &["show", "node", "--oneliner"]).await?))
    }

    /// `None`: Slurm does not know it.
    pub async fn node(&self, name: &str) -> Result<Option<Node>> {
        match self.call("scontrol", &["show", "node", name, "--oneliner"]).await {
            Ok(text) => Ok(parse_nodes(&text).remove(name)),
            // It says no more than that it failed: nothing is known of the node, unless all can be read without it.
            Err(Error::Refused { .. }) => Ok(self.nodes().await?.remove(name)),
            Err(error) => Err(error),
        }
    }

    /// Nodes of a partition.
    pub async fn partition(&self, name: &str) -> Result<Vec<String>> {
        let text = self.call("scontrol", &["show", "partition", name, "--oneliner"]).await?;
        match text.lines().find_map(|line| field(line, "Nodes")) {
            None | Some("(null)") => Ok(Vec::new()),
            Some(list) => {
                hostlist::expand(list).map_err(|source| Error::Hostlist { list: list.into(), source })
            }
        }
    }

    /// How long a job may run in a partition, as Slurm writes times; `None`: for as long as it likes.
    pub async fn max_time(&self, partition: &str) -> Result<Option<String>> {
        let text = self.call("scontrol", &["show", "partition", partition, "--oneliner"]).await?;
        let time = text.lines().find_map(|line| field(line, "MaxTime"));
        Ok(time.filter(|time| !matches!(*time, "UNLIMITED" | "INFINITE")).map(String::from))
    }

    /// Whether only root and Slurm's own user may submit to a partition.
    pub async fn is_for_root_only(&self, partition: &str) -> Result<bool> {
        let text = self.call("scontrol", &["show", "partition", partition, "--oneliner"]).await?;
        Ok(text.lines().any(|line| field(line, "RootOnly") == Some("YES")))
    }

    /// Takes a node out of service. An administrator's drain, with its reason, stays as it is.
    pub async fn drain(&self, node: &str, reason: &str) -> Result<()> {
        if self.node(node).await?.is_some_and(|n| n.is_drained_by_others()) {
            return Ok(());
        }
        self.update(node, "state=drain", Some(reason)).await
    }

    /// Gives a drain the reason back that Slurm has dropped; any other stays as it is.
    pub async fn restore_reason(&self, node: &str, reason: &str) -> Result<()> {
        if self.node(node).await?.is_some_and(|n| n.has_lost_reason()) {
            self.call("scontrol", &["update", &format!("nodename={node}"), &format!("reason={reason}")])
                .await?;
        }
        Ok(())
    }

    /// Removes a reason of Kiln's that is left of a drain; any other stays.
    pub async fn clear_reason(&self, node: &str) -> Result<()> {
        if self.node(node).await?.is_some_and(|n| n.has_left_reason()) {
            self.call("scontrol", &["update", &format!("nodename={node}"), "reason="]).await?;
        }
        Ok(())
    }

    /// Ends a drain whose reason starts as told; any other stays.
    pub async fn undrain(&self, node: &str, prefix: &str) -> Result<bool> {
        let ours = self.node(node).await?.is_some_and(|n| n.state.is_drained() && n.has_reason(prefix));
        if ours {
            self.update(node, "state=resume", None).await?;
        }
        Ok(ours)
    }

    /// Ends a state of being down.
    pub async fn resume(&self, node: &str) -> Result<()> {
        self.update(node, "state=resume", None).await
    }

    pub async fn power_up(&self, node: &str) -> Result<()> {
        self.update(node, "state=POWER_UP", None).await
    }

    /// Whatever state it is in: Slurm calls the suspend hook, and when that had its time, may power the node up again.
    /// Unlike `resume` this leaves no `NOT_RESPONDING` behind on a node that is off.
    pub async fn power_down_force(&self, node: &str) -> Result<()> {
        self.update(node, "state=POWER_DOWN_FORCE", None).await
    }

    /// Where nodes are that have just been made. Their names are their host names.
    pub async fn tell_addresses(&self, nodes: &[(String, String)]) -> Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let list = |pick: fn(&(String, String)) -> &str| nodes.iter().map(pick).collect::<Vec<_>>().join(",");
        let (names, addresses) = (list(|n| &n.0), list(|n| &n.1));
        let arguments =
            [format!("nodename={names}"), format!("nodeaddr={addresses}"), format!("nodehostname={names}")];
        self.call("scontrol", &["update", &arguments[0], &arguments[1], &arguments[2]]).await.map(drop)
    }

    /// Its jobs are taken off it, and requeued where they allow it.
    pub async fn down(&self, nodes: &[&str], reason: &str) -> Result<()> {
        self.update(&nodes.join(","), "state=down", Some(reason)).await
    }

    /// Drains, calls the reboot hook, and puts the node into service again.
    pub async fn reboot_asap(&self, node: &str, reason: &str) -> Result<()> {
        let reason = format!("reason={}", one_line(reason));
        self.call("scontrol", &["reboot", "ASAP", "nextstate=RESUME", &reason, node]).await.map(drop)
    }

    /// Lets its jobs end and no new ones begin, then calls the suspend hook.
    pub async fn power_down_asap(&self, node: &str, reason: &str) -> Result<()> {
        if self.node(node).await?.is_some_and(|n| n.state.is_powering_down_or_off()) {
            return Ok(());
        }
        self.update(node, "state=power_down_asap", Some(reason)).await
    }

    pub async fn cancel_reboot(&self, node: &str) -> Result<()> {
        self.call("scontrol", &["cancel_reboot", node]).await.map(drop)
    }

    async fn update(&self, node: &str, state: &str, reason: Option<&str>) -> Result<()> {
        let name = format!("nodename={node}");
        let reason = reason.map(|reason| format!("reason={}", one_line(reason)));
        let mut arguments = vec!["update", name.as_str(), state];
        arguments.extend(reason.as_deref());
        self.call("scontrol", &arguments).await.map(drop)
    }
}
