//! Nodes: their states, and taking them out of service.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use kiln_slurm::{NodeState, parse_node_states};
use kiln_spec::hostlist;

use super::{REASON, Slurm, field};
use crate::error::{Error, Result};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub state: NodeState,
    /// By slurmctld's clock, from the uptime the node told at its registration.
    pub booted: Option<Timestamp>,
    /// Where Slurm reaches it: an address, or a name.
    pub address: Option<String>,
    /// CPUs that jobs have.
    pub allocated: u32,
    /// What the node told of itself.
    pub extra: Option<String>,
}

impl Node {
    pub fn has_flag(&self, name: &str) -> bool {
        self.state.has(name)
    }

    pub fn is_drained(&self) -> bool {
        self.has_flag("DRAIN")
    }

    pub fn is_down(&self) -> bool {
        self.state.base == "DOWN"
    }

    /// Slurm has waited in vain for it to boot.
    pub fn is_given_up(&self) -> bool {
        const SIGNS: [&str; 2] = ["reboot timed out", "ResumeTimeout reached"];
        let reason = self.state.reason.as_deref().unwrap_or_default();
        self.is_down() && SIGNS.iter().any(|sign| reason.contains(sign))
    }

    /// Kiln has taken it out of service.
    pub fn is_drained_by_kiln(&self) -> bool {
        self.is_drained() && self.has_reason(REASON)
    }

    /// Nobody's job runs there.
    pub fn is_empty(&self) -> bool {
        matches!(self.state.base.as_str(), "IDLE" | "DOWN")
            && !self.state.flags.iter().any(|flag| flag == "COMPLETING")
    }

    /// The drain is someone else's: it is not Kiln's to change.
    pub fn is_drained_by_others(&self) -> bool {
        self.is_drained() && !self.has_reason(REASON)
    }

    /// Why a rollout leaves the node out that somebody else drained.
    pub fn foreign_drain(&self) -> Option<String> {
        let reason = self.state.reason.as_deref().unwrap_or("no reason given");
        self.is_drained_by_others().then(|| format!("drained by others: {reason}"))
    }

    /// Jobs are on it, or about to begin there.
    pub fn carries_jobs(&self) -> bool {
        self.allocated > 0
            || matches!(self.state.base.as_str(), "ALLOCATED" | "MIXED" | "COMPLETING")
            || self.state.has("COMPLETING")
    }

    pub fn has_reason(&self, prefix: &str) -> bool {
        self.state.reason.as_deref().is_some_and(|reason| reason.starts_with(prefix))
    }
}

impl Slurm {
    /// All nodes by name.
    pub async fn nodes(&self) -> Result<BTreeMap<String, Node>> {
        Ok(parse(&self.call("scontrol", &["show", "node", "--oneliner"]).await?))
    }

    pub async fn node(&self, name: &str) -> Result<Option<Node>> {
        let text = self.call("scontrol", &["show", "node", name, "--oneliner"]).await?;
        Ok(parse(&text).remove(name))
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

    /// Ends a drain whose reason starts as told; any other stays.
    pub async fn undrain(&self, node: &str, prefix: &str) -> Result<bool> {
        let ours = self.node(node).await?.is_some_and(|n| n.is_drained() && n.has_reason(prefix));
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
        let reason = format!("reason={}", plain(reason));
        self.call("scontrol", &["reboot", "ASAP", "nextstate=RESUME", &reason, node]).await.map(drop)
    }

    /// Lets its jobs end and no new ones begin, then calls the suspend hook.
    pub async fn power_down_asap(&self, node: &str, reason: &str) -> Result<()> {
        let off = |n: Node| n.has_flag("POWERED_DOWN") || n.has_flag("POWERING_DOWN");
        if self.node(node).await?.is_some_and(off) {
            return Ok(());
        }
        self.update(node, "state=power_down_asap", Some(reason)).await
    }

    pub async fn cancel_reboot(&self, node: &str) -> Result<()> {
        self.call("scontrol", &["cancel_reboot", node]).await.map(drop)
    }

    async fn update(&self, node: &str, state: &str, reason: Option<&str>) -> Result<()> {
        let name = format!("nodename={node}");
        let reason = reason.map(|reason| format!("reason={}", plain(reason)));
        let mut arguments = vec!["update", name.as_str(), state];
        arguments.extend(reason.as_deref());
        self.call("scontrol", &arguments).await.map(drop)
    }
}

/// A reason is shown on one line, in tables, and ends where `scontrol` prints who gave it.
fn plain(reason: &str) -> String {
    let one_line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().map(|c| if matches!(c, '[' | ']' | '"' | '\'') { ' ' } else { c }).take(200).collect()
}

fn parse(oneliner: &str) -> BTreeMap<String, Node> {
    let lines: BTreeMap<&str, &str> =
        oneliner.lines().filter_map(|line| Some((field(line, "NodeName")?, line))).collect();
    parse_node_states(oneliner)
        .into_iter()
        .map(|state| {
            let line = lines.get(state.node.as_str()).copied().unwrap_or_default();
            let node = Node {
                booted: field(line, "BootTime").and_then(moment),
                address: field(line, "NodeAddr").map(String::from),
                allocated: field(line, "CPUAlloc").and_then(|n| n.parse().ok()).unwrap_or(0),
                // The last: words of a reason, which comes before it, are not the node's.
                extra: line.rsplit_once(" Extra=").and_then(|(_, rest)| first_word(rest)),
                state,
            };
            (node.state.node.clone(), node)
        })
        .collect()
}

fn first_word(text: &str) -> Option<String> {
    text.split_ascii_whitespace().next().map(String::from)
}

/// Printed in the zone of the command's environment: UTC.
fn moment(text: &str) -> Option<Timestamp> {
    text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_times_are_read() {
        let nodes = parse(
            "NodeName=a State=IDLE BootTime=2026-01-02T03:04:05 SlurmdStartTime=None\n\
             NodeName=b State=DOWN*+DRAIN BootTime=None Reason=kiln: no image [slurm@2026-01-01T00:00:00]\n",
        );
        assert_eq!(nodes["a"].booted, Some("2026-01-02T03:04:05Z".parse().unwrap()));
        assert_eq!(nodes["b"].booted, None);
        assert!(nodes["b"].is_drained() && !nodes["b"].is_drained_by_others());
    }

    #[test]
    fn a_foreign_drain_is_foreign() {
        let nodes =
            parse("NodeName=a State=IDLE+DRAIN Reason=bad fan [root@1]\nNodeName=b State=IDLE+DRAIN\n");
        assert!(nodes["a"].is_drained_by_others());
        assert!(nodes["b"].is_drained_by_others());
    }

    #[test]
    fn reasons_stay_on_one_line() {
        assert_eq!(plain("kiln: a\n b [x] 'q'"), "kiln: a b  x   q ");
    }
}
