//! The table: what may be wrong, for how long Kiln waits, and what it does about it. Pure.
//!
//! The first row that holds for a node is its finding. No row is asked about a node that something else has in work:
//! see [`NodeObservation::reason_to_leave_alone`].

use std::time::Duration;

use kiln_wire::{FleetFile, Timing};

use super::super::observe::node::{NodeObservation, Stray};
use super::conditions;

pub struct Rule {
    /// As in `kiln status` and `kiln events`.
    pub name: &'static str,
    pub when: &'static str,
    pub grace: Grace,
    pub does: &'static str,
    pub check: Check,
}

#[derive(Clone, Copy)]
pub enum Check {
    Node(fn(&NodeObservation) -> Option<Diagnosis>),
    Stray(fn(&Stray) -> Option<Diagnosis>),
}

/// What a row says about a node or an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    pub text: String,
    /// Empty: a person has to see to it.
    pub actions: Vec<Action>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Its jobs are requeued.
    Down {
        reason: String,
    },
    Drain {
        reason: String,
    },
    /// Of a drain of Kiln's own, which Slurm has dropped.
    RestoreReason {
        reason: String,
    },
    /// Of Kiln's own, on a node that is in service.
    ClearReason,
    /// Takes back a drain of Kiln's own, or being down.
    Resume,
    /// A failure is counted for its group; several in a row pause it.
    CountFailure {
        problem: String,
    },
    /// Behind a `Resume` it ends in a node that Slurm may power up again, whatever it was before. Alone, `Resume` leaves a
    /// node of a cloud "not responding", up to 24.11, and `PowerDown` leaves one that is down, down.
    PowerDown,
    PowerUp,
    /// As Slurm's hook does: of a node that Slurm waits for, it has asked already, and does not ask again.
    AskForInstance,
    Start {
        instance: String,
    },
    Delete {
        instance: String,
    },
}

impl Action {
    /// As people say it.
    pub fn words(&self) -> String {
        match self {
            Action::Down { reason } => format!("set it down in Slurm ({reason})"),
            Action::Drain { reason } => format!("drain it ({reason})"),
            Action::RestoreReason { .. } => "give its drain the reason back".into(),
            Action::ClearReason => "remove the reason".into(),
            Action::Resume => "put it back into service".into(),
            Action::CountFailure { .. } => "count a failure for its group".into(),
            Action::PowerDown => "let Slurm power it down".into(),
            Action::PowerUp => "let Slurm power it up".into(),
            Action::AskForInstance => "ask for an instance".into(),
            Action::Start { instance } => format!("start instance {instance}"),
            Action::Delete { instance } => format!("delete instance {instance}"),
        }
    }
}

/// How long something must have been so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    None,
    /// Two rounds in a row.
    Look,
    Usual,
    /// As long as a boot may take, and then the usual.
    Boot,
    /// `kiln configure` may come until then.
    Newcomer,
}

/// How long Kiln waits before it acts, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub timing: Timing,
    /// Slurm's own `ResumeTimeout`.
    pub resume_timeout: u64,
}

impl Times {
    pub fn of(file: &FleetFile) -> Self {
        Times { timing: file.timing, resume_timeout: file.resume_timeout }
    }
}

impl Grace {
    pub fn time(self, times: &Times) -> Duration {
        Duration::from_secs(match self {
            Grace::None => 0,
            Grace::Look => times.timing.reconcile,
            Grace::Usual => times.timing.grace,
            Grace::Boot => times.resume_timeout + times.timing.grace,
            Grace::Newcomer => times.timing.newcomer,
        })
    }

    /// For the documentation, with the usual timing.
    pub fn words(self) -> String {
        let usual = Times { timing: Timing::default(), resume_timeout: 0 };
        let seconds = self.time(&usual).as_secs();
        match (self, seconds) {
            (Grace::None, _) => "at once".into(),
            (Grace::Look, _) => format!("seen twice ({seconds} s)"),
            (Grace::Boot, _) => format!("`ResumeTimeout` and {seconds} s"),
            (Grace::Usual | Grace::Newcomer, 0..120) => format!("{seconds} s"),
            (Grace::Usual | Grace::Newcomer, _) => format!("{} min", seconds / 60),
        }
    }
}

pub const RULES: &[Rule] = &[
    Rule {
        name: "unknown-to-slurm",
        when: "Slurm does not know a node of the fleet",
        grace: Grace::Usual,
        does: "reported; `kiln configure` tells Slurm of it",
        check: Check::Node(conditions::unknown_to_slurm),
    },
    Rule {
        name: "unlisted",
        when: "the cloud's list lacks the node's instance, but the cloud does not say that it is gone",
        grace: Grace::Usual,
        does: "reported; nothing is done about the node until the cloud lists the instance, or says that there is none of its id",
        check: Check::Node(conditions::unlisted),
    },
    Rule {
        name: "lost-reason",
        when: "Kiln drained a node, and Slurm has dropped the reason. Slurm does so when it has given a node up and the node registers after all",
        grace: Grace::None,
        does: "given its reason back, so that everybody sees whose drain it is",
        check: Check::Node(conditions::lost_reason),
    },
    Rule {
        name: "pause-over",
        when: "a node is drained for a pause of its group, and the pause is over",
        grace: Grace::None,
        does: "put back into service",
        check: Check::Node(conditions::pause_over),
    },
    Rule {
        name: "outlived-drain",
        when: "Slurm's own daemons drained a node of an elastic group (`Kill task failed`, `Epilog error` and the like), or its health check did, and the instance that it was about is gone",
        grace: Grace::Look,
        does: "made available again. A drain of anybody else stays",
        check: Check::Node(conditions::outlived_drain),
    },
    Rule {
        name: "duplicate",
        when: "more than one instance carries the label of one node",
        grace: Grace::Usual,
        does: "the one at Slurm's `NodeAddr` is kept, or else the oldest that is active; the others are deleted. Reported only, while jobs run and it is not certain where",
        check: Check::Node(conditions::duplicate),
    },
    Rule {
        name: "instance-back",
        when: "Kiln set a fixed node down because its instance was gone or shut off, and Slurm has heard from the new one, or from it again",
        grace: Grace::None,
        does: "put back into service",
        check: Check::Node(conditions::instance_back),
    },
    Rule {
        name: "own-reboot",
        when: "Slurm set the node down as \"unexpectedly rebooted\", and the reboot was Kiln's own, or the first boot of a fixed node's new instance",
        grace: Grace::None,
        does: "put back into service",
        check: Check::Node(conditions::own_reboot),
    },
    Rule {
        name: "held-instance",
        when: "the node's instance is paused, suspended, shelved or in rescue: somebody has set it aside",
        grace: Grace::Usual,
        does: "reported; it is left as it is until whoever did that ends it",
        check: Check::Node(conditions::held_instance),
    },
    Rule {
        name: "broken-instance",
        when: "the cloud shows the node's instance in its error state",
        grace: Grace::Look,
        does: "elastic: node set down, so that its jobs are requeued; instance deleted; node made available again. Fixed: reported; `kiln up` recreates it. Reported only, while Slurm hears from the node",
        check: Check::Node(conditions::broken_instance),
    },
    Rule {
        name: "stopped-instance",
        when: "the node's instance is shut off, and Slurm does not know",
        grace: Grace::Usual,
        does: "elastic: node set down, instance deleted, node made available again. Fixed: node set down if it has jobs, so that they are requeued; instance started. Reported only, while Slurm hears from the node",
        check: Check::Node(conditions::stopped_instance),
    },
    Rule {
        name: "no-instance",
        when: "the node is up in Slurm, and has no instance",
        grace: Grace::Look,
        does: "node set down, so that its jobs are requeued. Elastic: made available again. Fixed: the reason says that `kiln apply` recreates the instance. Reported only, while Slurm hears from the node",
        check: Check::Node(conditions::no_instance),
    },
    Rule {
        name: "left-running",
        when: "Slurm has the node of an elastic group powered down, and its instance is still there",
        grace: Grace::Usual,
        does: "instance deleted",
        check: Check::Node(conditions::left_running),
    },
    Rule {
        name: "stuck-off",
        when: "a node of an elastic group is powered down and \"not responding\", so that Slurm never powers it up",
        grace: Grace::Usual,
        does: "made available again",
        check: Check::Node(conditions::stuck_off),
    },
    Rule {
        name: "nothing-comes",
        when: "Slurm waits for a node of an elastic group to come up; there is no instance, and none is being created",
        grace: Grace::Look,
        does: "an instance is asked for, so that the jobs that wait for the node can begin. Reported only, while its group is paused",
        check: Check::Node(conditions::nothing_comes),
    },
    Rule {
        name: "never-came-up",
        when: "Slurm waits for a node of an elastic group to come up for longer than it should",
        grace: Grace::Boot,
        does: "node set down, so that its jobs are requeued; a failure counted for its group; instance deleted; node made available again",
        check: Check::Node(conditions::never_came_up),
    },
    Rule {
        name: "down-without-instance",
        when: "a node of an elastic group that is not paused is down, by Slurm or by Kiln, and has no instance",
        grace: Grace::Usual,
        does: "made available again",
        check: Check::Node(conditions::down_without_instance),
    },
    Rule {
        name: "lost-elastic",
        when: "a node of an elastic group is down, by Slurm or by Kiln, while its instance is active",
        grace: Grace::Boot,
        does: "powered down, which deletes the instance, and made available again",
        check: Check::Node(conditions::lost_elastic),
    },
    Rule {
        name: "lost",
        when: "Slurm does not reach a node, while its instance is active",
        grace: Grace::Usual,
        does: "reported; `kiln doctor NODE` shows the end of its console",
        check: Check::Node(conditions::lost),
    },
    Rule {
        name: "paused",
        when: "the node's group is paused, and the node is powered down",
        grace: Grace::None,
        does: "drained, so that jobs wait rather than fail; the reason has the cloud's words",
        check: Check::Node(conditions::paused),
    },
    Rule {
        name: "should-be-up",
        when: "a node that is to stay up (`min`) is powered down",
        grace: Grace::None,
        does: "powered up",
        check: Check::Node(conditions::should_be_up),
    },
    Rule {
        name: "other-image",
        when: "the instance has another image than the node should have",
        grace: Grace::Usual,
        does: "reported; `kiln rebuild` brings it",
        check: Check::Node(conditions::other_image),
    },
    Rule {
        name: "old-bundle",
        when: "the node is in service with an older configuration than the share has for it",
        grace: Grace::Usual,
        does: "reported; `kiln configure` brings it, and so does a reboot",
        check: Check::Node(conditions::old_bundle),
    },
    Rule {
        name: "left-reason",
        when: "a node of an elastic group is off and available, and still has a reason of Kiln's. Slurm leaves the reason when it ends the drain of a node that it has powered down",
        grace: Grace::Look,
        does: "the reason is removed",
        check: Check::Node(conditions::left_reason),
    },
    Rule {
        name: "stray",
        when: "an instance has the cluster's labels of a compute node, and there is no such node",
        grace: Grace::Usual,
        does: "deleted. Reported only, while Slurm has a node of its name",
        check: Check::Stray(conditions::stray),
    },
    Rule {
        name: "newcomer",
        when: "the same, but kilnd saw the instance only after `kiln configure` last told it of the nodes",
        grace: Grace::Newcomer,
        does: "the same",
        check: Check::Stray(conditions::newcomer),
    },
];

/// What is wrong with a node, if something is.
pub fn diagnose(observation: &NodeObservation) -> Option<(&'static Rule, Diagnosis)> {
    if observation.reason_to_leave_alone().is_some() {
        return None;
    }
    RULES.iter().find_map(|rule| match rule.check {
        Check::Node(check) => check(observation).map(|found| (rule, found)),
        Check::Stray(_) => None,
    })
}

/// What is wrong with an instance that belongs to no node.
pub fn diagnose_stray(stray: &Stray) -> Option<(&'static Rule, Diagnosis)> {
    RULES.iter().find_map(|rule| match rule.check {
        Check::Stray(check) => check(stray).map(|found| (rule, found)),
        Check::Node(_) => None,
    })
}

/// The table as Markdown, for the documentation.
pub fn table() -> String {
    let row = |rule: &Rule| {
        format!("| `{}` | {} | {} | {} |\n", rule.name, rule.when, rule.grace.words(), rule.does)
    };
    let head = "| rule | when | for how long | what Kiln does |\n| --- | --- | --- | --- |\n";
    std::iter::once(head.to_string()).chain(RULES.iter().map(row)).collect()
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
