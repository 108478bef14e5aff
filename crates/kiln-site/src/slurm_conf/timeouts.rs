//! How long Slurm waits for a node that is being rebuilt.

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_spec::{ConfigValue, Group, ImageUpdate, Spec};

/// `ResumeTimeout`: from Slurm's call of the reboot hook until it gives the node up. It is one number for the
/// whole cluster, so the slowest group decides.
///
/// The licences let no more nodes begin than the cloud builds at a time. Where there are more nodes than that,
/// somebody may have them rebooted by hand, past the licences, and a node has to wait for one before it; waiting
/// for more would mean to learn late of a node that hangs.
pub fn resume_timeout(spec: &Spec) -> Duration {
    let rebuilt = || spec.compute.iter().filter(|group| group.image_update == ImageUpdate::Slurm);
    let slowest = rebuilt().map(|group: &Group| group.rebuild_time).max().unwrap_or_default();
    let nodes: usize = rebuilt().map(|group| group.nodes.len()).sum();
    let turns = if nodes > spec.concurrency { 2 } else { 1 };
    written(spec).unwrap_or(slowest * turns)
}

/// No node is waited for longer: partitions may have a time of their own.
pub fn longest_resume_timeout(spec: &Spec) -> Duration {
    let own = spec.partitions.iter().filter_map(|partition| seconds(&partition.config, |text| Some(text)));
    own.chain([resume_timeout(spec)]).max().unwrap_or_default()
}

/// What the file itself says.
fn written(spec: &Spec) -> Option<Duration> {
    seconds(&spec.slurm.config, |value| match value {
        ConfigValue::Set(text) => Some(text),
        ConfigValue::List(_) | ConfigValue::Removed => None,
    })
}

fn seconds<V>(config: &BTreeMap<String, V>, text: fn(&V) -> Option<&String>) -> Option<Duration> {
    let (_, value) = config.iter().find(|(key, _)| key.eq_ignore_ascii_case("ResumeTimeout"))?;
    text(value)?.parse().ok().map(Duration::from_secs)
}
