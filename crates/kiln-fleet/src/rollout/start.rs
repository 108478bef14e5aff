//! What an administrator does with rollouts: start, pause, resume, abort, show.

use std::collections::{BTreeMap, BTreeSet};

use kiln_cloud::{Instance, InstanceStatus};
use kiln_slurm::{Node, Slurm};
use kiln_spec::hostlist;

use super::observe::GONE;
use super::transitions::Order;
use super::turn::KILN_DRAINED;
use crate::cloud_view::{CloudView, image_of};
use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::store::{Store, now};
use kiln_wire::FleetFile;
use kiln_wire::rollout::{
    HAS_IMAGE, IS_OFF, NodeStep, Options, Rollout, RolloutId, RolloutNode, RolloutReport, Strategy,
};

/// Records a rollout; the daemon carries it out.
pub async fn start(store: &Store, file: &FleetFile, slurm: &Slurm, options: Options) -> Result<RolloutId> {
    let partitions = partition_of_nodes(slurm, file, &options).await?;
    check_user(slurm, &options, &partitions).await?;
    let chosen = choose(file, &options, &partitions)?;
    let fleet = Fleet::connect(file.clone())?;
    let view = CloudView::look(store, &fleet).await?;
    let instances = view.nodes();
    let states = slurm.nodes().await?;
    let nodes: Vec<RolloutNode> = chosen
        .into_iter()
        .map(|(name, partition)| {
            let target = file.nodes.get(&name).and_then(|n| n.image.clone());
            let instance = instances.get(name.as_str()).copied();
            let previous = instance.and_then(image_of).map(String::from);
            let state = states.get(&name);
            let elastic = file.elastic_group(&name).is_some();
            // Kiln may bring back a node that Kiln drained; whether it still is one is seen when it has its turn.
            let ours = !elastic && !options.no_reboot && state.is_some_and(Node::is_drained_by_kiln);
            let skipped = untouchable(instance, view.doubt(&name), ours, elastic).or_else(|| {
                if elastic {
                    elastic_skip(&options, target.as_deref(), instance, state)
                } else {
                    reason_to_skip(&options, target.as_deref(), previous.as_deref(), state)
                }
            });
            RolloutNode {
                previous,
                target,
                finished: skipped.is_some().then(now),
                step: skipped.map_or(NodeStep::Pending, |reason| NodeStep::Skipped { reason }),
                elastic,
                ..RolloutNode::pending(&name, &partition, now())
            }
        })
        .collect();
    let id = store.add_rollout(&options, &nodes)?;
    store.log("", &format!("rollout {id}"), &format!("{} nodes", nodes.len()), "started")?;
    Ok(id)
}

/// Slurm would refuse the jobs of a user who may not submit them, one by one and in fewer words.
async fn check_user(slurm: &Slurm, options: &Options, partitions: &BTreeMap<String, String>) -> Result<()> {
    let Some(user) = &options.user else {
        return Ok(());
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if user.is_empty() || user.starts_with('-') || !user.chars().all(plain) {
        return Err(Error::Refused(format!("{user:?} is not the name of a user")));
    }
    if matches!(user.as_str(), "root" | "slurm") {
        return Err(Error::Refused(format!(
            "jobs cannot be submitted as {user}: leave --user out, and Slurm's own user submits them, who may do \
             all that root may"
        )));
    }
    if options.strategy == Strategy::Drain {
        return Err(Error::Refused("the drain strategy has no jobs to submit as a user".into()));
    }
    let names: BTreeSet<&String> = partitions.values().collect();
    for partition in names {
        if slurm.is_for_root_only(partition).await? {
            return Err(Error::Refused(format!(
                "{user} may not submit to {partition}, which is for root alone (RootOnly=YES): name another \
                 partition, or leave --user out"
            )));
        }
    }
    if !options.no_reboot && !slurm.is_operator(user).await? {
        return Err(Error::Refused(format!(
            "{user} may not have nodes rebooted: that takes a Slurm operator (`sacctmgr modify user {user} set \
             adminlevel=operator`), or --no-reboot"
        )));
    }
    Ok(())
}

/// Which partition each node's job goes to.
async fn partition_of_nodes(
    slurm: &Slurm,
    file: &FleetFile,
    options: &Options,
) -> Result<BTreeMap<String, String>> {
    let asked = if options.partitions.is_empty() { &file.rebuild_partitions } else { &options.partitions };
    let mut found = BTreeMap::new();
    for partition in asked {
        if partition.is_empty() || partition.starts_with('-') || partition.contains([',', ' ']) {
            return Err(Error::Refused(format!("{partition:?} is not the name of a partition")));
        }
        for node in slurm.partition(partition).await? {
            if let Some(other) = found.insert(node.clone(), partition.clone()) {
                return Err(Error::Refused(format!(
                    "{node} is in both {other} and {partition} and would be rebuilt twice: name one of them"
                )));
            }
        }
    }
    Ok(found)
}

/// Nodes in their order, with their partitions.
fn choose(
    file: &FleetFile,
    options: &Options,
    partitions: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>> {
    let mut names: Vec<String> = match options.nodes.as_slice() {
        [] => partitions.keys().cloned().collect(),
        some => some.to_vec(),
    };
    hostlist::sort(&mut names);
    names.dedup();
    let wrong = |test: &dyn Fn(&String) -> bool| {
        let wrong: Vec<&str> = names.iter().filter(|n| test(n)).map(String::as_str).collect();
        (!wrong.is_empty()).then(|| hostlist::fold(wrong))
    };
    if let Some(list) = wrong(&|name| !file.nodes.contains_key(name)) {
        return Err(Error::Refused(format!(
            "{list}: not of this fleet; `kiln configure` tells kilnd of nodes"
        )));
    }
    if let Some(list) = wrong(&|name| !partitions.contains_key(name)) {
        return Err(Error::Refused(format!("{list}: in none of the rebuild partitions")));
    }
    if names.is_empty() {
        return Err(Error::Refused("there are no nodes in the rebuild partitions".into()));
    }
    Ok(names.into_iter().map(|name| (name.clone(), partitions[&name].clone())).collect())
}

/// Why a node cannot be rebuilt now, whatever its image. `is_drained_by_kiln`: a rebuild may be what it needs.
fn untouchable(
    instance: Option<&Instance>,
    doubt: Option<String>,
    is_drained_by_kiln: bool,
    elastic: bool,
) -> Option<String> {
    match instance.map(|i| &i.status) {
        Some(InstanceStatus::Held { how }) => {
            Some(format!("somebody has set its instance aside: it is {how}"))
        }
        Some(InstanceStatus::Error { .. }) if !is_drained_by_kiln => {
            Some("its instance is broken; `kiln up` recreates it".into())
        }
        Some(_) => None,
        None => doubt.or_else(|| (!elastic).then(|| GONE.into())),
    }
}

fn elastic_skip(
    options: &Options,
    target: Option<&str>,
    instance: Option<&Instance>,
    slurm: Option<&Node>,
) -> Option<String> {
    if options.no_reboot {
        return Some("its group is elastic: without being powered down nothing happens to it".into());
    }
    let Some(instance) = instance else {
        return Some(IS_OFF.into());
    };
    if !options.force && target.is_some() && image_of(instance) == target {
        return Some(HAS_IMAGE.into());
    }
    slurm.and_then(Node::foreign_drain)
}

fn reason_to_skip(
    options: &Options,
    target: Option<&str>,
    image: Option<&str>,
    slurm: Option<&Node>,
) -> Option<String> {
    if options.no_reboot {
        return None;
    }
    if let Some(node) = slurm.filter(|n| n.is_drained_by_kiln()) {
        return (!node.state.is_empty()).then(|| KILN_DRAINED.into());
    }
    if !options.force && target.is_none() {
        return Some("no image is recorded for it".into());
    }
    if !options.force && image == target {
        return Some(HAS_IMAGE.into());
    }
    // A reboot of Slurm's own would end the drain with it.
    slurm.filter(|_| options.strategy == Strategy::Drain).and_then(Node::foreign_drain)
}

pub fn report(store: &Store, id: RolloutId) -> Result<RolloutReport> {
    get(store, id).map(RolloutReport::from)
}

/// Newest first.
pub fn list(store: &Store) -> Result<Vec<RolloutReport>> {
    Ok(store.rollouts()?.into_iter().map(RolloutReport::from).collect())
}

/// Jobs that wait are cancelled; what has begun goes on. `by`: who asks, for the event.
pub fn pause(store: &Store, id: RolloutId, by: &str) -> Result<()> {
    change(store, id, Order::Pause, by)
}

pub fn resume(store: &Store, id: RolloutId, by: &str) -> Result<()> {
    change(store, id, Order::Resume, by)
}

/// Nothing new begins, nothing is taken back.
pub fn abort(store: &Store, id: RolloutId, by: &str) -> Result<()> {
    change(store, id, Order::Abort, by)
}

fn change(store: &Store, id: RolloutId, order: Order, by: &str) -> Result<()> {
    // The daemon may change it between looking and writing.
    loop {
        let state = get(store, id)?.state;
        let word = order.past_tense();
        let Some(to) = order.applied_to(&state) else {
            return Err(Error::Refused(format!("rollout {id} cannot be {word}: it is {}", state.message())));
        };
        if store.change_rollout(id, &state, &to)? {
            return store.log("", &format!("rollout {id}"), &format!("asked by {by}"), word);
        }
    }
}

fn get(store: &Store, id: RolloutId) -> Result<Rollout> {
    store.rollout(id)?.ok_or_else(|| Error::Refused(format!("there is no rollout {id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_their_image_are_skipped() {
        let options = Options::default();
        let skip = |o: &Options, target, image| reason_to_skip(o, target, image, None).is_some();
        assert!(skip(&options, Some("new"), Some("new")));
        assert!(!skip(&options, Some("new"), Some("old")));
        assert!(!skip(&options, Some("new"), None));
        assert!(skip(&options, None, Some("old")));
        assert!(!skip(&Options { force: true, ..options.clone() }, Some("new"), Some("new")));
        assert!(!skip(&Options { no_reboot: true, ..options }, Some("new"), Some("new")));
    }

    /// A job for a fixed node without an instance would wait for ever. An elastic one is off, and gets its image when it comes.
    #[test]
    fn a_node_without_an_instance_is_skipped_in_words() {
        assert_eq!(untouchable(None, None, true, false).as_deref(), Some(GONE));
        assert_eq!(untouchable(None, Some("?".into()), false, false).as_deref(), Some("?"));
        assert_eq!(untouchable(None, None, false, true), None);
        assert_eq!(untouchable(Some(&kiln_cloud::testing::instance("n-0")), None, false, false), None);
    }

    #[test]
    fn what_kiln_drained_is_tried_again_unless_jobs_run_there() {
        let node = |base: &str, reason: &str| Node {
            state: kiln_slurm::State::parse(&format!("{base}+DRAIN")),
            reason: Some(reason.into()),
            ..Node::default()
        };
        let skip = |node: &Node| reason_to_skip(&Options::default(), Some("new"), Some("new"), Some(node));
        assert_eq!(skip(&node("DOWN", "kiln: rollout 1: it did not come back")), None);
        assert_eq!(skip(&node("IDLE", "kiln: rebuild failed: no host")), None);
        assert!(skip(&node("MIXED", "kiln: rollout 1: x")).is_some_and(|why| why.contains("jobs still run")));
        assert!(skip(&node("DOWN", "bad fan")).is_some_and(|why| why.contains("has its image")));
    }
}
