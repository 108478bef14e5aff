//! Elastic groups whose nodes fail to come up: what a failure leads to, and what ends it.

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_cloud::InstanceStatus;

use kiln_wire::FleetFile;
use kiln_wire::health::FailureRecord;

use crate::error::Result;
use crate::reconcile::NodeObservation;
use crate::store::{Store, now};

/// Counts nodes of a group that failed to come up. After too many in a row the group is paused. Failures in a paused group
/// are not counted: nothing is tried there.
pub fn count(store: &Store, file: &FleetFile, group: &str, nodes: usize, problem: &str) -> Result<()> {
    if store.failure_records()?.get(group).is_some_and(FailureRecord::is_paused) {
        return Ok(());
    }
    let failures = store.add_failures(group, nodes, problem)?;
    if failures >= file.timing.failures { pause(store, file, group, problem) } else { Ok(()) }
}

pub fn pause(store: &Store, file: &FleetFile, group: &str, problem: &str) -> Result<()> {
    let until = now() + Duration::from_secs(file.timing.pause);
    store.pause_group(group, until, problem)?;
    if let Some(record) = store.failure_records()?.get(group) {
        tracing::warn!(group, problem, "paused");
        store.log("", &format!("group {group}"), problem, &pause_text(group, record))?;
    }
    Ok(())
}

/// Why a group is paused, and until when.
pub fn pause_text(group: &str, record: &FailureRecord) -> String {
    let until =
        record.paused_until.map_or_else(String::new, |t| format!(" until {}", t.strftime("%H:%M:%S UTC")));
    format!("{group} is paused{until}: {}", record.problem)
}

/// Groups whose nodes come up again, each with a node that proves it: it is in service, on an instance that came after the last
/// failure. A new instance alone proves nothing: it has to join. Pure.
pub fn recovered<'a>(
    nodes: &'a [NodeObservation],
    records: &BTreeMap<String, FailureRecord>,
) -> BTreeMap<&'a str, &'a str> {
    let proves = |o: &&NodeObservation| {
        let Some(record) = records.get(&o.group) else { return false };
        let since = |i: &kiln_cloud::Instance| o.first_seen(i) > record.last_failure;
        o.state().is_some_and(kiln_slurm::State::in_service)
            && o.instance().is_some_and(|i| i.status == InstanceStatus::Active && since(i))
    };
    nodes.iter().filter(proves).map(|o| (o.group.as_str(), o.node.as_str())).collect()
}
