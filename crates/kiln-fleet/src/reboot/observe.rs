//! What is read before each step of a request: the instance as it is now, and what Slurm knows of the node.

use std::time::Duration;

use jiff::Timestamp;
use kiln_cloud::Instance;
use kiln_slurm::{BOOT_TIME_ROUNDING, Node, Slurm};

use crate::cloud_view::CloudView;
use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::store::{CloudOperation, Request, RequestKind, Store};

/// One request's node, as it is now.
pub struct Observation {
    /// `None`: the cloud has none.
    pub instance: Option<Instance>,
    /// What this attempt has asked of the cloud.
    pub begun: Option<CloudOperation>,
    /// What an earlier attempt asked of the cloud and is known to have happened.
    pub done_before: Option<CloudOperation>,
    /// Slurm has seen it boot since the request, whoever saw to that.
    pub booted_since: bool,
    /// Since this attempt began.
    pub elapsed: Duration,
}

/// The node's instance in a list of all. The list may be old; [`refresh`] reads the instance itself.
pub async fn find(store: &Store, fleet: &Fleet, node: &str) -> Result<Option<Instance>> {
    let view = CloudView::read(store, fleet).await?;
    match (view.nodes().remove(node), view.doubt(node)) {
        (None, Some(doubt)) => Err(Error::Refused(doubt)),
        (instance, _) => Ok(instance.cloned()),
    }
}

pub async fn refresh(fleet: &Fleet, instance: Option<Instance>) -> Result<Option<Instance>> {
    let Some(instance) = instance else { return Ok(None) };
    match fleet.cloud.instance(&instance.id).await {
        Ok(instance) => Ok(Some(instance)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Why the cloud must not be asked now, from a fresh look at Slurm. A request may have waited for the cloud or for the daemon,
/// and Slurm, or an administrator, may have put the node back to work meanwhile.
pub async fn objection(slurm: &Slurm, request: &Request) -> Result<Option<String>> {
    Ok(slurm.node(&request.node).await?.and_then(|node| object(request.kind, &node)))
}

fn object(kind: RequestKind, node: &Node) -> Option<String> {
    match kind {
        RequestKind::Rebuild if node.is_in_use() => {
            Some("not rebuilt: it is back in service, or jobs run there".into())
        }
        RequestKind::Rebuild => node.foreign_drain().map(|drain| format!("not rebuilt: {drain}")),
        // While Slurm waits for the boot, the node has a flag that takes it out of service.
        _ => node.is_in_use().then(|| "skipped: Slurm does not wait for this reboot any more".into()),
    }
}

/// What an earlier attempt at this request, perhaps of another daemon, is known to have done. The record alone is no proof:
/// it was written before the cloud was asked. `node`: as Slurm knows it now.
pub fn done_before(request: &Request, instance: &Instance, node: Option<&Node>) -> Option<CloudOperation> {
    let (operation, began) = (request.operation?, request.began?);
    let happened = match operation {
        CloudOperation::Rebuild => was_rebuilt(instance.built, request.built_before, began),
        CloudOperation::Create | CloudOperation::Delete => false,
        CloudOperation::Reboot | CloudOperation::Start => {
            node.and_then(|n| n.booted).is_some_and(|booted| booted >= began - BOOT_TIME_ROUNDING)
        }
    };
    happened.then_some(operation)
}

/// Whether Slurm has what it asked for. It works out boot times by its own clock, which is also the request's; the cloud's may
/// show anything.
pub fn booted_since(request: &Request, node: Option<&Node>) -> bool {
    node.and_then(|n| n.booted).is_some_and(|booted| booted >= request.received)
}

/// When the instance was built, and when it had been before a rebuild was asked for.
fn was_rebuilt(built: Option<Timestamp>, before: Option<Timestamp>, began: Timestamp) -> bool {
    match (built, before) {
        // Both by the cloud's clock, whatever it shows. The store keeps milliseconds.
        (Some(built), Some(before)) => built.as_millisecond() != before.as_millisecond(),
        // The cloud did not say: its clock may differ from ours by less than a build takes.
        (Some(built), None) => built >= began - BOOT_TIME_ROUNDING,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_is_known_by_the_clouds_own_times() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let rebuilt = |built, before: Option<i64>| was_rebuilt(Some(at(built)), before.map(at), at(10_000));
        // A cloud whose clock is an hour behind, or ahead.
        assert!(rebuilt(10_020 - 3600, Some(500)));
        assert!(!rebuilt(9_000 + 3600, Some(9_000 + 3600)));
        assert!(rebuilt(10_020, None) && !rebuilt(9_000, None));
    }

    /// State and reason, then: whether a reboot of Slurm's and a rebuild without Slurm are held back.
    #[test]
    fn a_node_that_is_in_use_is_not_touched() {
        let rows = [
            ("ALLOCATED+POWERING_UP", "", [false, false]),
            ("IDLE+DRAIN+REBOOT_ISSUED", "kiln: x", [false, false]),
            ("IDLE+DRAIN", "kiln: x", [false, false]),
            ("DOWN+NOT_RESPONDING", "reboot timed out", [false, false]),
            ("IDLE", "", [true, true]),
            ("MIXED+REBOOT_REQUESTED", "", [true, true]),
            ("MIXED+DRAIN", "kiln: x", [true, true]),
            ("ALLOCATED+NOT_RESPONDING", "", [true, true]),
            // Somebody works on it. Slurm itself still waits for the boot it has asked for.
            ("IDLE+DRAIN", "bad fan", [false, true]),
        ];
        for (state, reason, expected) in rows {
            let state = kiln_slurm::State::parse(state);
            let node = Node { state, reason: Some(reason.into()), ..Node::default() };
            let held = [RequestKind::Reboot, RequestKind::Rebuild].map(|kind| object(kind, &node).is_some());
            assert_eq!(held, expected, "{node:?}");
        }
    }
}
