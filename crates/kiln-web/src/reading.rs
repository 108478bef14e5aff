//! From what kilnd knows to what is shown: one word for what a node does, sentences for what is found and what is to happen.

use jiff::Timestamp;
use kiln_slurm::{Base, QueuedJob, State, pending};
use kiln_wire::health::{FindingReport, Intent, NodeDossier, NodeHealth, Verdict};
use kiln_wire::rollout::{RolloutReport, RolloutState, Strategy, step_text};

use crate::view::{
    Console, Event, Finding, Job, Needs, Node, NodeDetail, NodeKind, Request, Rollout, RolloutNode, Severity,
    Waiting,
};

/// `in_rollout`: one has the node in work.
pub fn node_kind(state: Option<&State>, carries_jobs: bool, in_rollout: bool) -> NodeKind {
    let Some(state) = state else { return NodeKind::Unknown };
    if in_rollout {
        return NodeKind::Rebuilding;
    }
    if state.is_booting() || state.is_coming_up() {
        return NodeKind::Booting;
    }
    if state.is_down() || !state.is_responding() && !state.is_powering_down_or_off() {
        return NodeKind::Down;
    }
    if state.is_drained() {
        return if carries_jobs { NodeKind::Draining } else { NodeKind::Drained };
    }
    if state.is_powering_down_or_off() {
        return NodeKind::Off;
    }
    if state.taken_out_by().is_some() {
        return NodeKind::Maintenance;
    }
    match state.base {
        Base::Allocated => NodeKind::Allocated,
        Base::Mixed | Base::Completing => NodeKind::Mixed,
        Base::Idle if carries_jobs => NodeKind::Mixed,
        Base::Idle => NodeKind::Idle,
        _ => NodeKind::Unknown,
    }
}

pub fn finding(report: &FindingReport) -> Finding {
    let (severity, next) = match (report.is_early, report.due) {
        (true, Some(_)) => {
            (Severity::Note, format!("If it lasts, Kiln will {}.", report.actions.join(", then ")))
        }
        (true, None) => (Severity::Note, "It may still be on its way.".into()),
        (false, Some(_)) => (Severity::Warning, format!("Kiln will {}.", report.actions.join(", then "))),
        (false, None) => {
            (Severity::Broken, "Kiln does nothing about it by itself. `kiln doctor NODE` shows what Slurm and the cloud say of a node.".into())
        }
    };
    Finding {
        severity,
        subject: report.subject.clone(),
        text: report.text.clone(),
        next,
        due: report.due,
        since: Some(report.since),
    }
}

pub fn node_detail(node: Node, dossier: NodeDossier, timeline: Vec<Event>) -> NodeDetail {
    let is_half = dossier.slurm_problem.is_some() || dossier.cloud_problem.is_some();
    NodeDetail {
        node,
        verdict: verdict(&dossier.health, is_half),
        next: next(&dossier.health, is_half),
        requests: dossier
            .requests
            .into_iter()
            .map(|r| Request {
                kind: r.kind,
                state: r.state,
                received: r.received,
                attempts: r.attempts,
                error: r.error,
            })
            .collect(),
        consoles: dossier
            .consoles
            .into_iter()
            .map(|c| Console { instance: c.instance, lines: c.lines })
            .collect(),
        timeline,
    }
}

fn verdict(health: &NodeHealth, is_half: bool) -> String {
    match health.verdict(is_half) {
        Verdict::None => "Nothing can be said without both Slurm and the cloud.".into(),
        Verdict::UnderWay(finding) => format!("Under way: {}.", finding.text),
        Verdict::Found(finding) => format!("Wrong: {} (rule {}).", finding.text, finding.rule),
        Verdict::Ok => "All is well.".into(),
        Verdict::NoRule => "Nothing that Kiln has a rule for.".into(),
    }
}

fn next(health: &NodeHealth, is_half: bool) -> String {
    match health.intent(is_half) {
        Intent::Waits => "Kiln does nothing until both can be reached.".into(),
        Intent::LeavesAlone(why) => format!("Kiln leaves it alone: {why}."),
        Intent::Will { actions, due, if_it_lasts } => {
            let lasting = if if_it_lasts { "if it lasts, " } else { "" };
            let when = due.strftime("%H:%M:%S UTC");
            format!("Kiln will, {lasting}at {when}: {}.", actions.join(", then "))
        }
        Intent::NothingByItself => "Kiln does nothing about it by itself.".into(),
        Intent::Nothing => "Kiln has nothing to do.".into(),
    }
}

pub fn waiting_job(job: QueuedJob) -> Job {
    let waiting = pending::why(&job).map(|why| Waiting {
        reason: job.reason.clone(),
        text: why.text,
        needs: match why.needs {
            Some(pending::Needs::Time) => Needs::Time,
            Some(pending::Needs::Owner) => Needs::Owner,
            Some(pending::Needs::Administrator) => Needs::Administrator,
            None => Needs::Unknown,
        },
    });
    Job {
        id: job.id,
        name: job.name,
        user: job.user,
        account: job.account,
        partition: job.partition,
        qos: job.qos,
        state: job.state,
        priority: job.priority,
        nodes: job.nodes,
        cpus: job.cpus,
        submitted: job.submitted,
        start: job.start,
        time_limit: job.time_limit,
        nodelist: job.nodelist,
        waiting,
    }
}

pub fn rollout(report: &RolloutReport) -> Rollout {
    let (rollout, options) = (&report.rollout, &report.rollout.options);
    Rollout {
        id: rollout.id,
        created: rollout.created,
        finished: rollout.finished,
        state: state_word(&rollout.state).into(),
        message: report.message.clone(),
        is_open: rollout.state.is_open(),
        total: rollout.nodes.len(),
        pending: report.pending,
        in_flight: report.in_flight,
        done: report.done,
        failed: report.failed,
        skipped: report.skipped,
        strategy: match options.strategy {
            Strategy::Job => "job".into(),
            Strategy::Drain => "drain".into(),
        },
        canary: options.canary,
        max_unavailable: options.max_unavailable,
        halt_after: options.halt_after,
    }
}

fn state_word(state: &RolloutState) -> &'static str {
    match state {
        RolloutState::Running => "running",
        RolloutState::Paused => "paused",
        RolloutState::Halting { .. } => "halting",
        RolloutState::Aborting => "aborting",
        RolloutState::RollingBack { .. } => "rolling_back",
        RolloutState::Done => "done",
        RolloutState::Halted { .. } => "halted",
        RolloutState::Aborted => "aborted",
        RolloutState::RolledBack { .. } => "rolled_back",
    }
}

pub fn rollout_nodes(report: &RolloutReport) -> Vec<RolloutNode> {
    let nodes = report.rollout.nodes.iter().enumerate();
    nodes
        .map(|(position, node)| RolloutNode {
            rollout: report.rollout.id,
            node: node.node.clone(),
            position,
            step: node.step.word().into(),
            text: step_text(node),
            since: node.since,
            previous: node.previous.clone(),
            target: node.target.clone(),
        })
        .collect()
}

/// What keeps Kiln itself from seeing or acting.
pub fn blind(what: &str, problem: &str, since: Option<Timestamp>) -> Finding {
    Finding {
        severity: Severity::Broken,
        subject: "kilnd".into(),
        text: format!("{what}: {problem}"),
        next: "Kiln changes nothing until this is over.".into(),
        due: None,
        since,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_kind() {
        let rows = [
            ("IDLE", false, NodeKind::Idle),
            ("IDLE+CLOUD", false, NodeKind::Idle),
            ("MIXED", true, NodeKind::Mixed),
            ("IDLE+COMPLETING", true, NodeKind::Mixed),
            ("ALLOCATED", true, NodeKind::Allocated),
            ("ALLOCATED+DRAIN", true, NodeKind::Draining),
            ("IDLE+DRAIN", false, NodeKind::Drained),
            ("DOWN+DRAIN", false, NodeKind::Down),
            ("DOWN*", false, NodeKind::Down),
            ("IDLE*", false, NodeKind::Down),
            ("IDLE+CLOUD+POWERED_DOWN", false, NodeKind::Off),
            ("IDLE+CLOUD+POWERING_DOWN", false, NodeKind::Off),
            ("IDLE+CLOUD+DRAIN+POWERED_DOWN", false, NodeKind::Drained),
            ("ALLOCATED+CLOUD+POWERING_UP", true, NodeKind::Booting),
            ("IDLE+REBOOT_ISSUED", false, NodeKind::Booting),
            ("IDLE+MAINTENANCE", false, NodeKind::Maintenance),
            ("SOMETHING", false, NodeKind::Unknown),
        ];
        for (text, jobs, kind) in rows {
            assert_eq!(node_kind(Some(&State::parse(text)), jobs, false), kind, "{text}");
        }
        assert_eq!(node_kind(None, false, true), NodeKind::Unknown);
        assert_eq!(node_kind(Some(&State::parse("DOWN")), false, true), NodeKind::Rebuilding);
    }

    #[test]
    fn what_only_people_can_mend_is_worst() {
        let report = |is_early, due: Option<Timestamp>| FindingReport {
            subject: "n-0".into(),
            rule: "r".into(),
            text: "it is lost".into(),
            since: Timestamp::UNIX_EPOCH,
            is_early,
            due,
            actions: vec!["drain it".into(), "delete it".into()],
        };
        let due = Some(Timestamp::UNIX_EPOCH);
        assert_eq!(finding(&report(false, None)).severity, Severity::Broken);
        assert_eq!(finding(&report(false, due)).next, "Kiln will drain it, then delete it.");
        assert!(finding(&report(true, due)).next.starts_with("If it lasts, "));
        assert!(Severity::Broken < Severity::Warning && Severity::Warning < Severity::Note);
    }
}
