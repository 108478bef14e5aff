//! How the fleet is, as kilnd tells `kiln status` and `kiln doctor`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::format::{Format, Version};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetHealth {
    #[serde(default)]
    pub format: Version<1>,
    pub observed: Timestamp,
    /// Why Slurm could not be asked, if it could not. There are no findings then.
    pub slurm_problem: Option<String>,
    /// Why the cloud could not be asked, if it could not. There are no findings then.
    pub cloud_problem: Option<String>,
    /// When kilnd last looked; `None` if it never did.
    pub last_look: Option<Timestamp>,
    /// Seconds between two of its looks.
    pub every: u64,
    /// Elastic groups that the cloud refused something.
    #[serde(rename = "troubles")]
    pub failing_groups: Vec<GroupFailures>,
    pub nodes: Vec<NodeHealth>,
    /// Instances that belong to no node.
    pub strays: Vec<FindingReport>,
}

impl FleetHealth {
    /// kilnd has missed several looks.
    pub fn is_unattended(&self) -> bool {
        let patience = std::time::Duration::from_secs(3 * self.every + 30);
        self.last_look.is_none_or(|at| at + patience < self.observed)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFailures {
    pub group: String,
    pub is_paused: bool,
    #[serde(flatten)]
    pub record: FailureRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHealth {
    pub node: String,
    pub group: String,
    pub elastic: bool,
    /// All flags; `None`: unknown to Slurm.
    pub slurm: Option<String>,
    pub reason: Option<String>,
    pub reason_by: Option<String>,
    pub booted: Option<Timestamp>,
    pub slurmd_started: Option<Timestamp>,
    pub carries_jobs: bool,
    /// In service, or off because it is not needed.
    pub in_order: bool,
    pub instances: Vec<InstanceReport>,
    /// Why Kiln leaves the node alone at present, whatever it looks like.
    pub left_alone: Option<String>,
    pub finding: Option<FindingReport>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceReport {
    pub id: String,
    pub status: String,
    pub address: Option<String>,
    pub image: Option<String>,
    pub created: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingReport {
    pub subject: String,
    /// Of the table in the documentation.
    pub rule: String,
    pub text: String,
    pub since: Timestamp,
    /// Nothing may be wrong yet: it is still within the time that a boot may take.
    pub is_early: bool,
    /// When Kiln does something about it; `None` where a person has to.
    pub due: Option<Timestamp>,
    /// What Kiln does, in order.
    pub actions: Vec<String>,
}

/// Everything there is to know of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDossier {
    #[serde(default)]
    pub format: Version<1>,
    pub observed: Timestamp,
    /// As in [`FleetHealth`].
    pub slurm_problem: Option<String>,
    pub cloud_problem: Option<String>,
    pub health: NodeHealth,
    /// The end of its instances' consoles, by instance.
    pub consoles: Vec<Console>,
    /// Open ones.
    pub requests: Vec<RequestReport>,
    /// Oldest first.
    pub events: Vec<Event>,
    pub last_look: Option<Timestamp>,
    #[serde(rename = "trouble")]
    pub group_failures: Option<GroupFailures>,
}

/// What is to be said of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Slurm or the cloud could not be asked.
    None,
    /// Something that may yet turn out well by itself.
    UnderWay(&'a FindingReport),
    Found(&'a FindingReport),
    Ok,
    NoRule,
}

/// What Kiln does about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent<'a> {
    /// Slurm or the cloud could not be asked.
    Waits,
    LeavesAlone(&'a str),
    Will {
        actions: &'a [String],
        due: Timestamp,
        /// Only if what was found lasts.
        if_it_lasts: bool,
    },
    /// Somebody else has to do something.
    NothingByItself,
    Nothing,
}

impl NodeHealth {
    /// `is_half`: Slurm or the cloud could not be asked.
    pub fn verdict(&self, is_half: bool) -> Verdict<'_> {
        match &self.finding {
            None if is_half => Verdict::None,
            Some(finding) if finding.is_early => Verdict::UnderWay(finding),
            Some(finding) => Verdict::Found(finding),
            None if self.in_order => Verdict::Ok,
            None => Verdict::NoRule,
        }
    }

    pub fn intent(&self, is_half: bool) -> Intent<'_> {
        if is_half {
            return Intent::Waits;
        }
        if let Some(why) = &self.left_alone {
            return Intent::LeavesAlone(why);
        }
        match &self.finding {
            None => Intent::Nothing,
            Some(FindingReport { due: None, .. }) => Intent::NothingByItself,
            Some(FindingReport { due: Some(due), actions, is_early, .. }) => {
                Intent::Will { actions, due: *due, if_it_lasts: *is_early }
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Console {
    pub instance: String,
    pub lines: Vec<String>,
}

/// What is asked for a node and not done yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReport {
    pub id: i64,
    /// `reboot`, `resume` and so on.
    pub kind: String,
    pub state: String,
    pub received: Timestamp,
    pub attempts: u32,
    pub error: Option<String>,
}

/// How often in a row the cloud refused something to an elastic group, and until when the group is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// In a row.
    pub failures: u32,
    pub paused_until: Option<Timestamp>,
    /// In the cloud's words.
    pub problem: String,
    #[serde(default)]
    pub last_failure: Timestamp,
}

impl FailureRecord {
    pub fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| until > Timestamp::now())
    }
}

impl Format for FleetHealth {
    const NAME: &'static str = "report of the fleet's health";
    const VERSION: u32 = 1;
}

impl Format for NodeDossier {
    const NAME: &'static str = "report on a node";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    fn dossier() -> NodeDossier {
        let record = FailureRecord {
            failures: 2,
            paused_until: Some(AT),
            problem: "no host".into(),
            last_failure: AT,
        };
        NodeDossier {
            format: Version,
            observed: AT,
            slurm_problem: None,
            cloud_problem: None,
            health: NodeHealth {
                node: "e-0".into(),
                group: "e".into(),
                elastic: true,
                slurm: Some("idle".into()),
                reason: None,
                reason_by: None,
                booted: Some(AT),
                slurmd_started: Some(AT),
                carries_jobs: false,
                in_order: true,
                instances: Vec::new(),
                left_alone: None,
                finding: None,
            },
            consoles: vec![Console { instance: "i".into(), lines: vec!["login:".into()] }],
            requests: vec![RequestReport {
                id: 1,
                kind: "resume".into(),
                state: "queued".into(),
                received: AT,
                attempts: 0,
                error: None,
            }],
            events: Vec::new(),
            last_look: Some(AT),
            group_failures: Some(GroupFailures { group: "e".into(), is_paused: false, record }),
        }
    }

    #[test]
    fn what_is_said_of_a_node_follows_from_what_was_seen() {
        let health = dossier().health;
        assert_eq!((health.verdict(true), health.intent(true)), (Verdict::None, Intent::Waits));
        assert_eq!((health.verdict(false), health.intent(false)), (Verdict::Ok, Intent::Nothing));
        let finding = FindingReport {
            subject: "e-0".into(),
            rule: "r".into(),
            text: "it is lost".into(),
            since: AT,
            is_early: true,
            due: Some(AT),
            actions: vec!["delete it".into()],
        };
        let early = NodeHealth { finding: Some(finding.clone()), ..health.clone() };
        assert_eq!(early.verdict(false), Verdict::UnderWay(&finding));
        assert_eq!(
            early.intent(false),
            Intent::Will { actions: &["delete it".into()], due: AT, if_it_lasts: true }
        );
        let finding = FindingReport { is_early: false, due: None, ..finding };
        let lasting = NodeHealth { finding: Some(finding.clone()), ..health.clone() };
        assert_eq!(
            (lasting.verdict(true), lasting.intent(false)),
            (Verdict::Found(&finding), Intent::NothingByItself)
        );
        let left = NodeHealth { left_alone: Some("drained by others".into()), in_order: false, ..health };
        assert_eq!(
            (left.verdict(false), left.intent(false)),
            (Verdict::NoRule, Intent::LeavesAlone("drained by others"))
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let dossier = dossier();
        assert_eq!(NodeDossier::from_json(&dossier.to_json().unwrap()), Ok(dossier.clone()));
        let health = FleetHealth {
            format: Version,
            observed: AT,
            slurm_problem: Some("away".into()),
            cloud_problem: None,
            last_look: None,
            every: 30,
            failing_groups: dossier.group_failures.into_iter().collect(),
            nodes: vec![dossier.health],
            strays: Vec::new(),
        };
        assert_eq!(FleetHealth::from_json(&health.to_json().unwrap()), Ok(health));
    }
}
