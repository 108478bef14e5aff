//! The conditions of the rules, one function each, in the order of the table. Pure.

use std::time::Duration;

use jiff::Timestamp;
use kiln_cloud::{Instance, InstanceStatus};
use kiln_slurm::{BOOT_TIME_ROUNDING, Node, REASON};
use kiln_wire::bundle_tag;

use super::super::observe::node::{NodeObservation, Stray, Unlisted};
use super::rules::{Action, Diagnosis};
use crate::cloud_view::{image_of, is_held};
use crate::store::CloudOperation;

/// A node whose instance was deleted by somebody else.
const GONE: &str = "its instance is gone";
const OFF: &str = "its instance is shut off";
/// A node that Slurm hears from runs, whatever the cloud says.
const HEARD: &str = "Slurm still hears from the node";
/// No boot of Kiln's own takes longer.
const LONGEST_BOOT: Duration = Duration::from_secs(30 * 60);
/// An instance that is made has booted by then.
const FIRST_BOOT: Duration = Duration::from_secs(10 * 60);
/// The cloud's and this host's, where both are kept right.
const CLOCKS_APART: Duration = Duration::from_secs(60);

fn diagnosis(text: impl Into<String>, actions: Vec<Action>) -> Diagnosis {
    Diagnosis { text: text.into(), actions }
}

fn down(reason: &str) -> Action {
    Action::Down { reason: format!("{REASON}{reason}") }
}

fn delete(instance: &Instance) -> Action {
    Action::Delete { instance: instance.id.clone() }
}

pub fn unknown_to_slurm(o: &NodeObservation) -> Option<Diagnosis> {
    let unknown = o.slurm.is_none();
    unknown.then(|| diagnosis("Slurm does not know it; `kiln configure` tells Slurm of it", vec![]))
}

/// Of a list that lacks one, nothing follows about the node.
pub fn unlisted(o: &NodeObservation) -> Option<Diagnosis> {
    let text = match o.unlisted.as_ref()? {
        Unlisted::There => "the cloud's list lacks its instance, which is there".to_string(),
        Unlisted::NoAnswer(problem) => {
            format!(
                "the cloud's list lacks its instance, and the cloud does not say whether it is gone: {problem}"
            )
        }
    };
    Some(diagnosis(text, vec![]))
}

pub fn pause_over(o: &NodeObservation) -> Option<Diagnosis> {
    if !o.is_drained_for_pause() || o.pause.is_some() {
        return None;
    }
    let text = format!("drained for a pause of {}, which is over", o.group);
    // On a node that is off, Slurm takes the end of a drain for a node that should answer.
    let actions = if o.is_off() { vec![Action::Resume, Action::PowerDown] } else { vec![Action::Resume] };
    Some(diagnosis(text, actions))
}

pub fn lost_reason(o: &NodeObservation) -> Option<Diagnosis> {
    let reason = o.lost_reason()?.to_string();
    let text = format!("Slurm dropped the reason of its drain: {reason}");
    Some(diagnosis(text, vec![Action::RestoreReason { reason }]))
}

pub fn left_reason(o: &NodeObservation) -> Option<Diagnosis> {
    let is_left = o.slurm.as_ref().is_some_and(Node::has_left_reason);
    (o.elastic && is_left).then(|| {
        diagnosis(
            format!("has the reason of a drain that is over: {}", o.reason()),
            vec![Action::ClearReason],
        )
    })
}

pub fn outlived_drain(o: &NodeObservation) -> Option<Diagnosis> {
    let text = || format!("it was drained for something on an instance that is gone: {}", o.reason());
    o.has_outlived_drain().then(|| diagnosis(text(), vec![Action::Resume, Action::PowerDown]))
}

pub fn duplicate(o: &NodeObservation) -> Option<Diagnosis> {
    let live: Vec<&Instance> = o.live().collect();
    if live.len() < 2 || o.is_drained_for_pause() {
        return None;
    }
    let in_use = o.reached_at.and_then(|at| live.iter().find(|i| i.address == Some(at)));
    let oldest = || live.iter().find(|i| i.status == InstanceStatus::Active).or(live.first());
    let kept = in_use.or_else(oldest)?;
    let text = format!("{} instances are this node; {} is kept", live.len(), kept.id);
    if in_use.is_none() && o.runs_jobs() {
        return Some(diagnosis(format!("{text} when no job runs there"), vec![]));
    }
    if let Some(held) = live.iter().find(|i| i.id != kept.id && is_held(i)) {
        return Some(diagnosis(format!("{text}; {} is {}", held.id, held.status.word()), vec![]));
    }
    Some(diagnosis(text, live.iter().filter(|i| i.id != kept.id).map(|i| delete(i)).collect()))
}

/// `ReturnToService=2` would have done it.
pub fn instance_back(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = only_instance(o)?;
    let slurm = o.slurm.as_ref()?;
    let is_ours = |why: &str| o.is_down() && o.reason().starts_with(&format!("{REASON}{why}"));
    // Told by the node itself when it registers. A system that boots within seconds is up before kilnd sees its instance, but
    // after the node was set down for the old one.
    let seen = o.first_seen(instance);
    let since = if is_ours(OFF) {
        // The node's own clock says when it booted, and may be behind until chrony has set it. The boot before that was longer
        // ago: the instance was off for the usual grace before the node was set down.
        slurm.reason_at? - CLOCKS_APART
    } else if is_ours(GONE) {
        slurm.reason_at.map_or(seen, |down| down.min(seen))
    } else {
        return None;
    };
    let registered = slurm.booted? + BOOT_TIME_ROUNDING >= since;
    if o.elastic || !registered || instance.status != InstanceStatus::Active {
        return None;
    }
    Some(diagnosis("its instance runs again, and Slurm has heard from it", vec![Action::Resume]))
}

pub fn own_reboot(o: &NodeObservation) -> Option<Diagnosis> {
    if !o.slurm.as_ref().is_some_and(Node::is_down_for_unexpected_reboot) {
        return None;
    }
    let booted = o.slurm.as_ref()?.booted?;
    let ours = o.operation.filter(|(operation, at)| {
        let in_time = booted >= *at - BOOT_TIME_ROUNDING && booted <= *at + LONGEST_BOOT;
        in_time && !matches!(operation, CloudOperation::Delete)
    });
    let text = match ours {
        Some((operation, _)) => format!("Slurm took Kiln's own {} for an accident", operation.word()),
        None if is_first_boot(o, booted) => {
            "Slurm took the first boot of a new instance for an accident".into()
        }
        None => return None,
    };
    Some(diagnosis(text, vec![Action::Resume]))
}

/// `kiln up` recreates and rebuilds instances of fixed nodes, and kilnd hears nothing of it. What boots for the first time has
/// no accident behind it.
fn is_first_boot(o: &NodeObservation, booted: Timestamp) -> bool {
    let Some(instance) = only_instance(o).filter(|i| i.status == InstanceStatus::Active) else {
        return false;
    };
    // By the cloud's clock, or by this host's if the cloud's is wrong.
    let made = [instance.built.unwrap_or(instance.created), o.first_seen(instance)];
    let is_first = made.iter().any(|made| booted >= *made - CLOCKS_APART && booted <= *made + FIRST_BOOT);
    !o.elastic && is_first && !o.carries_jobs() && !has_old_bundle(o)
}

/// Paused, suspended, shelved or in rescue. Whoever did that has a reason, and ends it.
pub fn held_instance(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = o.instance().filter(|i| is_held(i))?;
    Some(diagnosis(format!("somebody has set its instance aside: it is {}", instance.status.word()), vec![]))
}

pub fn broken_instance(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = only_instance(o)?;
    let InstanceStatus::Error { reason } = &instance.status else { return None };
    let text = format!("its instance is broken: {reason}");
    if !o.elastic {
        return Some(diagnosis(format!("{text}; `kiln up` recreates it"), vec![]));
    }
    if o.is_heard_from() || (o.runs_jobs() && o.is_responding()) {
        return Some(diagnosis(format!("{text}; {HEARD}"), vec![]));
    }
    Some(diagnosis(text, replaced(o, instance, &format!("its instance is broken: {reason}"))))
}

pub fn stopped_instance(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = only_instance(o)?;
    if instance.status != InstanceStatus::Stopped || o.is_going_down() || o.is_off() {
        return None;
    }
    if o.is_heard_from() {
        return Some(diagnosis(format!("the cloud says that {OFF}; {HEARD}"), vec![]));
    }
    if o.elastic {
        return Some(diagnosis(OFF, replaced(o, instance, OFF)));
    }
    let start = Action::Start { instance: instance.id.clone() };
    // Slurm 22.05 may take a node that has restarted for one that it has powered up, and shows its batch jobs as running for
    // `ResumeTimeout`. A reason that the node has already stays.
    let must_tell = o.carries_jobs() && o.reason().is_empty();
    let actions = if must_tell { vec![down(OFF), start] } else { vec![start] };
    Some(diagnosis(OFF, actions))
}

pub fn no_instance(o: &NodeObservation) -> Option<Diagnosis> {
    if !o.is_up() || !o.instances.is_empty() {
        return None;
    }
    if o.is_heard_from() {
        return Some(diagnosis(format!("the cloud says that {GONE}; {HEARD}"), vec![]));
    }
    if o.elastic {
        Some(diagnosis(GONE, vec![down(GONE), Action::Resume, Action::PowerDown]))
    } else {
        Some(diagnosis(GONE, vec![down(&format!("{GONE}; kiln apply recreates it"))]))
    }
}

pub fn left_running(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = only_instance(o)?;
    // A job there has just asked for the node: it is about to come up.
    if !o.elastic || !o.is_off() || o.carries_jobs() {
        return None;
    }
    Some(diagnosis(
        format!("powered down, but its instance is {}", instance.status.word()),
        vec![delete(instance)],
    ))
}

pub fn stuck_off(o: &NodeObservation) -> Option<Diagnosis> {
    let stuck = o.elastic && o.is_off() && !o.is_responding() && !o.is_down() && o.instances.is_empty();
    let text = "powered down and not responding: Slurm never powers it up";
    stuck.then(|| diagnosis(text, vec![Action::PowerDown]))
}

pub fn nothing_comes(o: &NodeObservation) -> Option<Diagnosis> {
    if !o.elastic || !o.is_powering_up() || o.is_down() || !o.instances.is_empty() {
        return None;
    }
    if o.is_going_down() && !o.carries_jobs() {
        return None;
    }
    // Setting it down would end the jobs that wait for it and may not be requeued. If it does not come up in time, Slurm does that.
    let text = "Slurm waits for it to come up, and no instance is being created";
    if let Some(pause) = &o.pause {
        return Some(diagnosis(format!("{text}: {} is paused: {}", o.group, pause.problem), vec![]));
    }
    Some(diagnosis(text, vec![Action::AskForInstance]))
}

pub fn never_came_up(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = only_instance(o)?;
    if !o.elastic || !o.is_powering_up() || o.is_down() {
        return None;
    }
    let text = "Slurm still waits for it to come up";
    let why = "it did not come up in time";
    let count = Action::CountFailure { problem: format!("{}: {why}", o.node) };
    Some(diagnosis(text, vec![down(why), count, delete(instance), Action::Resume, Action::PowerDown]))
}

pub fn down_without_instance(o: &NodeObservation) -> Option<Diagnosis> {
    let free = o.elastic && o.is_down() && !o.is_going_down() && o.instances.is_empty();
    if !free || o.pause.is_some() {
        return None;
    }
    let why = if o.reason().is_empty() { "no reason given" } else { o.reason() };
    Some(diagnosis(format!("down without an instance: {why}"), vec![Action::Resume, Action::PowerDown]))
}

pub fn lost_elastic(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = only_instance(o)?;
    let active = instance.status == InstanceStatus::Active;
    if !o.elastic || !active || !o.is_down() || o.is_going_down() || o.is_off() {
        return None;
    }
    let text = format!("down, though its instance is active: {}", o.reason());
    Some(diagnosis(text, vec![Action::Resume, Action::PowerDown]))
}

pub fn lost(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = only_instance(o)?;
    let expected = !o.is_coming_up() && !o.is_going_down() && !o.is_waiting_for_reboot() && !o.is_off();
    let lost = o.is_down() || !o.is_responding();
    if instance.status != InstanceStatus::Active || !expected || !lost {
        return None;
    }
    let why = if o.reason().is_empty() { String::new() } else { format!(": {}", o.reason()) };
    Some(diagnosis(format!("Slurm does not reach it, though its instance is active{why}"), vec![]))
}

pub fn paused(o: &NodeObservation) -> Option<Diagnosis> {
    let pause = o.pause.as_ref()?;
    if !o.elastic || !o.is_off() || o.is_down() || o.carries_jobs() || o.is_drained_for_pause() {
        return None;
    }
    let until = pause.until.strftime("%Y-%m-%d %H:%M:%S UTC");
    let reason = format!("{}{until}: {}", o.pause_reason(), pause.problem);
    Some(diagnosis(
        format!("{} is paused until {until}: {}", o.group, pause.problem),
        vec![Action::Drain { reason }],
    ))
}

pub fn should_be_up(o: &NodeObservation) -> Option<Diagnosis> {
    let wanted = o.always_up && o.pause.is_none() && o.is_off() && o.instances.is_empty();
    // The first `kiln configure` starts kilnd a moment before there are bundles.
    if !wanted || !o.is_published || o.is_down() || o.carries_jobs() || o.is_drained_for_pause() {
        return None;
    }
    Some(diagnosis("powered down, though it is to stay up", vec![Action::PowerUp]))
}

pub fn other_image(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = only_instance(o)?;
    let wanted = o.image.as_deref()?;
    if instance.status != InstanceStatus::Active || !o.is_up() || image_of(instance) == Some(wanted) {
        return None;
    }
    Some(diagnosis("another image is due", vec![]))
}

pub fn old_bundle(o: &NodeObservation) -> Option<Diagnosis> {
    let instance = only_instance(o)?;
    let (_, since) = o.bundle.as_ref()?;
    if instance.status != InstanceStatus::Active || !o.is_up() || !has_old_bundle(o) {
        return None;
    }
    let since = since.strftime("%Y-%m-%d %H:%M:%S UTC");
    Some(diagnosis(
        format!("its configuration is older than that of {since}; `kiln configure` brings it"),
        vec![],
    ))
}

/// It has said which bundle it has, and that is another than it should have.
fn has_old_bundle(o: &NodeObservation) -> bool {
    let has = o.slurm.as_ref().and_then(|node| node.extra.as_deref()).and_then(bundle_tag::read);
    let wanted = o.bundle.as_ref().map(|(wanted, _)| wanted);
    has.zip(wanted).is_some_and(|(has, wanted)| !bundle_tag::matches(has, wanted))
}

pub fn stray(stray: &Stray) -> Option<Diagnosis> {
    if stray.is_newer_than_fleet { None } else { without_node(stray) }
}

pub fn newcomer(stray: &Stray) -> Option<Diagnosis> {
    if stray.is_newer_than_fleet { without_node(stray) } else { None }
}

fn without_node(stray: &Stray) -> Option<Diagnosis> {
    if stray.instance.status == InstanceStatus::Deleting {
        return None;
    }
    let text =
        format!("instance {} belongs to no node, and is {}", stray.instance.id, stray.instance.status.word());
    if stray.is_known_to_slurm {
        return Some(diagnosis(format!("{text}; Slurm still has a node of its name"), vec![]));
    }
    let actions = if is_held(&stray.instance) { vec![] } else { vec![delete(&stray.instance)] };
    Some(diagnosis(text, actions))
}

/// Its instance, where the instance's own state is the question.
fn only_instance(o: &NodeObservation) -> Option<&Instance> {
    o.instance().filter(|_| !o.is_drained_for_pause())
}

/// The node loses its instance, and may get another.
fn replaced(o: &NodeObservation, instance: &Instance, why: &str) -> Vec<Action> {
    if o.is_off() || o.is_going_down() {
        return vec![delete(instance)];
    }
    let mut actions = Vec::new();
    if !o.is_down() {
        actions.push(down(why));
    }
    actions.extend([delete(instance), Action::Resume, Action::PowerDown]);
    actions
}
