//! Carries out what the rules say about one subject, and records it.

use std::sync::Arc;

use kiln_slurm::Slurm;

use super::observe::node::{NodeObservation, Stray};
use super::plan::Finding;
use super::plan::rules::{Action, diagnose, diagnose_stray};
use crate::cloud_view::{self, node_of};
use crate::error::{Error, Result};
use crate::fleet::Fleet;
use crate::group_pause;
use crate::store::{CloudOperation, NewRequest, RequestKind, Store, now};

#[derive(Clone)]
pub struct Executor {
    pub store: Arc<Store>,
    pub slurm: Slurm,
    pub fleet: Arc<Fleet>,
}

/// What a finding is about, as it was when the plan was made.
pub enum Subject {
    Node(Box<NodeObservation>),
    Stray(Box<Stray>),
}

impl Executor {
    pub async fn execute(&self, finding: &Finding, seen: Subject) -> Result<()> {
        if !self.still_holds(finding, seen).await? {
            return Ok(());
        }
        let subject = finding.subject.as_str();
        self.store.note_action(subject, finding.rule.name)?;
        for action in &finding.actions {
            let outcome = self.perform(subject, action).await;
            let words = outcome.as_ref().map_or_else(Error::chain, |()| "done".into());
            let (rule, text, what) = (finding.rule.name, finding.text.as_str(), action.words());
            tracing::info!(subject, rule, text, action = what, outcome = words, "reconciling");
            self.store.log(subject, &what, &format!("{rule}: {text}"), &words)?;
            if outcome.is_err() {
                // The next actions build on this one; the next round starts over.
                break;
            }
        }
        Ok(())
    }

    /// The node may have changed since: by a hook, a job that Slurm gave it, an administrator.
    async fn still_holds(&self, finding: &Finding, seen: Subject) -> Result<bool> {
        let now = match seen {
            Subject::Node(mut seen) => {
                seen.slurm = self.slurm.node(&seen.node).await?;
                let requests = self.store.open_requests()?;
                seen.request = requests.into_iter().find(|r| r.node == seen.node).map(|r| r.kind);
                diagnose(&seen)
            }
            Subject::Stray(mut seen) => {
                seen.is_known_to_slurm = self.slurm.nodes().await?.contains_key(node_of(&seen.instance));
                diagnose_stray(&seen)
            }
        };
        Ok(now
            .is_some_and(|(rule, found)| rule.name == finding.rule.name && found.actions == finding.actions))
    }

    async fn perform(&self, subject: &str, action: &Action) -> Result<()> {
        match action {
            Action::Down { reason } => Ok(self.slurm.down(&[subject], reason).await?),
            Action::Drain { reason } => Ok(self.slurm.drain(subject, reason).await?),
            Action::RestoreReason { reason } => Ok(self.slurm.restore_reason(subject, reason).await?),
            Action::ClearReason => Ok(self.slurm.clear_reason(subject).await?),
            Action::Resume => Ok(self.slurm.resume(subject).await?),
            Action::CountFailure { problem } => {
                let group = self.fleet.file.nodes.get(subject).map_or("", |node| node.group.as_str());
                group_pause::count(&self.store, &self.fleet.file, group, 1, problem)
            }
            Action::PowerDown => Ok(self.slurm.power_down_force(subject).await?),
            Action::PowerUp => Ok(self.slurm.power_up(subject).await?),
            Action::AskForInstance => {
                // For the jobs that Slurm named when it asked.
                let latest = self.store.latest_requests()?;
                let jobs = latest.into_iter().find(|r| r.node == subject).and_then(|r| r.jobs);
                let request = NewRequest { jobs, ..NewRequest::new(RequestKind::Resume, subject, now()) };
                self.store.enqueue(&[request]).map(drop)
            }
            Action::Start { instance } => {
                self.store.note_operation(subject, CloudOperation::Start)?;
                Ok(self.fleet.cloud.start(instance).await.map(drop)?)
            }
            Action::Delete { instance } => cloud_view::delete(&self.store, &self.fleet, instance).await,
        }
    }
}
