//! What `stop` and `start` would do, for an administrator to agree to. Pure.

use std::collections::BTreeMap;
use std::fmt;

use kiln_cloud::{Instance, InstanceStatus};
use kiln_spec::{Role, Spec, hostlist};
use kiln_wire::labels;
use serde::Serialize;

use super::Sleep;
use crate::error::{Error, Result};
use crate::nodes::node_of;
use crate::observe::Observed;
use crate::plan::ExistingNode;
use crate::queue::{Queue, QueuedJob};

/// What happens to jobs that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopping {
    /// They end first.
    AfterJobs,
    /// They are requeued where they may be, and ended otherwise.
    Now,
}

/// What Slurm says of its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Jobs {
    Known(Queue),
    /// Slurm's daemons are off already.
    None,
    /// And why.
    Unknown(String),
}

impl Jobs {
    pub fn running(&self) -> &[QueuedJob] {
        match self {
            Jobs::Known(queue) => &queue.running,
            Jobs::None | Jobs::Unknown(_) => &[],
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct StopOutlook {
    pub cluster: String,
    #[serde(flatten)]
    pub sleep: Sleep,
    pub jobs: Jobs,
    /// Why kilnd could not be asked whether a rollout is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollouts_unknown: Option<String>,
    /// Instances of elastic groups, which are created again when jobs need them.
    pub delete: Vec<ExistingNode>,
    /// All others that run, but for the control node's.
    pub stop: Vec<ExistingNode>,
    /// The control node's, which goes last, if it runs.
    pub control: Option<ExistingNode>,
    /// What stays.
    pub volumes: Vec<String>,
}

pub fn stop_outlook(spec: &Spec, observed: &Observed, jobs: Jobs) -> StopOutlook {
    let mut outlook = StopOutlook {
        cluster: spec.name.clone(),
        sleep: observed.sleep(spec),
        jobs,
        rollouts_unknown: None,
        delete: Vec::new(),
        stop: Vec::new(),
        control: None,
        volumes: observed.volumes.iter().map(|volume| volume.name.clone()).collect(),
    };
    for instance in &observed.instances {
        let node = existing(instance);
        match instance.status {
            _ if is_elastic(spec, instance) => outlook.delete.push(node),
            InstanceStatus::Active | InstanceStatus::Building | InstanceStatus::Rebuilding => {
                if node.node == spec.control.node {
                    outlook.control = Some(node);
                } else {
                    outlook.stop.push(node);
                }
            }
            // Off, or nothing that could be stopped.
            _ => {}
        }
    }
    outlook.delete.sort_by(|a, b| a.node.cmp(&b.node));
    outlook.stop.sort_by(|a, b| a.node.cmp(&b.node));
    outlook.volumes.sort();
    outlook
}

/// A rollout that is open keeps the cluster awake: its nodes would be stopped half way. That nobody can say whether there is
/// one does not mean that there is none.
pub fn rollouts_unknown(checked: Result<()>) -> Result<Option<String>> {
    match checked {
        Ok(()) => Ok(None),
        Err(error @ Error::RolloutOpen(_)) => Err(error),
        Err(error) => Ok(Some(error.chain())),
    }
}

fn existing(instance: &Instance) -> ExistingNode {
    ExistingNode { node: node_of(instance).to_string(), id: instance.id.clone() }
}

/// Also one that has left the file.
pub fn is_elastic(spec: &Spec, instance: &Instance) -> bool {
    let group = instance.labels.get(labels::GROUP).and_then(|group| group.strip_prefix("compute."));
    group.and_then(|name| spec.compute_group(name)).is_some_and(|group| group.elastic.is_some())
}

impl StopOutlook {
    /// Nothing is left to be done.
    pub fn is_done(&self) -> bool {
        self.sleep.is_asleep() && self.delete.is_empty() && self.stop.is_empty() && self.control.is_none()
    }

    /// Jobs and rollouts that nobody knows of are not ended without a word.
    pub fn check(&self, stopping: Stopping) -> Result<()> {
        match (&self.jobs, &self.rollouts_unknown) {
            _ if stopping == Stopping::Now => Ok(()),
            (Jobs::Unknown(why), _) => Err(Error::JobsUnknown(why.clone())),
            (_, Some(why)) => Err(Error::RolloutsUnknown(why.clone())),
            _ => Ok(()),
        }
    }

    pub fn instances(&self) -> usize {
        self.delete.len() + self.stop.len() + self.control.iter().len()
    }
}

impl fmt::Display for StopOutlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_done() {
            return write!(f, "Cluster {} is asleep. Nothing to do.", self.cluster);
        }
        write!(f, "Putting cluster {} to sleep:", self.cluster)?;
        match &self.jobs {
            Jobs::Known(Queue { running, waiting }) => {
                write!(f, "\n  = no job starts; {} in the queue", waits(waiting.len()))?;
                for job in running {
                    write!(f, "\n  ! runs: {}", job.line())?;
                }
                write!(f, "\n  + a backup of accounting and Slurm's state")?;
            }
            Jobs::Unknown(why) => write!(f, "\n  ! Slurm cannot be asked which jobs run: {why}")?,
            Jobs::None => {}
        }
        if let Some(why) = &self.rollouts_unknown {
            write!(f, "\n  ! kilnd cannot be asked whether a rollout is open: {why}")?;
        }
        if !self.delete.is_empty() {
            let (nodes, count) = named(&self.delete);
            write!(f, "\n  - delete {nodes} ({count}), created again when jobs need them")?;
        }
        if !self.stop.is_empty() {
            let (nodes, count) = named(&self.stop);
            write!(f, "\n  ~ stop {nodes} ({count})")?;
        }
        if let Some(control) = &self.control {
            write!(f, "\n  ~ stop {}, last", control.node)?;
        }
        if self.volumes.is_empty() {
            return Ok(());
        }
        write!(f, "\n  = {} stay", self.volumes.join(", "))
    }
}

fn waits(jobs: usize) -> String {
    match jobs {
        0 => "none waits".into(),
        1 => "1 job waits and stays".into(),
        many => format!("{many} jobs wait and stay"),
    }
}

fn named(nodes: &[ExistingNode]) -> (String, String) {
    let count = if nodes.len() == 1 { "1 node".to_string() } else { format!("{} nodes", nodes.len()) };
    (hostlist::fold(nodes.iter().map(|node| node.node.as_str())), count)
}

#[derive(Debug, Clone, Serialize)]
pub struct StartOutlook {
    pub cluster: String,
    #[serde(flatten)]
    pub sleep: Sleep,
    /// The control node's, which comes first, if it is off.
    pub control: Option<ExistingNode>,
    pub login: Vec<ExistingNode>,
    pub compute: Vec<ExistingNode>,
    /// Those that somebody has set aside, each with how.
    pub held: BTreeMap<String, String>,
    /// The control node has no instance, or a broken one.
    pub control_lost: bool,
}

pub fn start_outlook(spec: &Spec, observed: &Observed) -> StartOutlook {
    let mut outlook = StartOutlook {
        cluster: spec.name.clone(),
        sleep: observed.sleep(spec),
        control: None,
        login: Vec::new(),
        compute: Vec::new(),
        held: BTreeMap::new(),
        control_lost: true,
    };
    for instance in observed.nodes().into_values() {
        let node = existing(instance);
        let is_control = node.node == spec.control.node;
        if is_control {
            outlook.control_lost = matches!(instance.status, InstanceStatus::Error { .. });
        }
        match &instance.status {
            // kilnd has them created.
            _ if is_elastic(spec, instance) => {}
            InstanceStatus::Held { how } => _ = outlook.held.insert(node.node, how.clone()),
            InstanceStatus::Stopped if is_control => outlook.control = Some(node),
            InstanceStatus::Stopped => match role(instance) {
                Some(Role::Login) => outlook.login.push(node),
                _ => outlook.compute.push(node),
            },
            _ => {}
        }
    }
    outlook
}

fn role(instance: &Instance) -> Option<Role> {
    let word = instance.labels.get(labels::ROLE)?;
    [Role::Control, Role::Login, Role::Compute].into_iter().find(|role| role.as_str() == word)
}

impl StartOutlook {
    /// Nothing is left to be done.
    pub fn is_done(&self) -> bool {
        let off = self.control.is_some() || !self.login.is_empty() || !self.compute.is_empty();
        self.sleep == Sleep::Awake && !off && self.held.is_empty() && !self.control_lost
    }

    /// It is not Kiln's to end what somebody else began.
    pub fn check(&self) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let nodes = hostlist::fold(self.held.keys().map(String::as_str));
        let mut how: Vec<&str> = self.held.values().map(String::as_str).collect();
        how.dedup();
        Err(Error::Held { nodes, how: how.join(", ") })
    }
}

impl fmt::Display for StartOutlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_done() {
            return write!(f, "Cluster {} is awake. Nothing to do.", self.cluster);
        }
        write!(f, "Waking cluster {}:", self.cluster)?;
        if self.control_lost {
            write!(f, "\n  ! the control node has no instance that could be started")?;
        }
        if let Some(control) = &self.control {
            write!(f, "\n  ~ start {}, first", control.node)?;
        }
        for nodes in [&self.login, &self.compute] {
            if !nodes.is_empty() {
                let (nodes, count) = named(nodes);
                write!(f, "\n  ~ start {nodes} ({count})")?;
            }
        }
        for (node, how) in &self.held {
            write!(f, "\n  ! {node} is set aside in the cloud: {how}")?;
        }
        write!(f, "\n  = jobs start again when the nodes are back")
    }
}

#[cfg(test)]
mod tests {
    use kiln_cloud::{Labels, Volume, VolumeStatus};

    use super::*;

    const FILE: &str = "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[login.l]\nnodes = \"l-0\"\n\
                        [compute.a]\nnodes = \"a-[0-1]\"\n[compute.e]\nnodes = \"e-[0-1]\"\nelastic = {}\n";

    fn spec() -> Spec {
        kiln_spec::parse(FILE, "f").unwrap_or_else(|e| panic!("{e}"))
    }

    fn seen(sleep: &str, instances: &[(&str, &str, InstanceStatus)]) -> Observed {
        let instance = |(name, group, status): &(&str, &str, InstanceStatus)| Instance {
            id: format!("id-{name}"),
            name: (*name).into(),
            status: status.clone(),
            image: None,
            flavor: "medium".into(),
            address: None,
            public_address: None,
            labels: Labels::from([
                (labels::NODE.to_string(), (*name).to_string()),
                (labels::GROUP.to_string(), (*group).to_string()),
                (labels::ROLE.to_string(), group.split('.').next().unwrap_or_default().to_string()),
            ]),
            volumes: Vec::new(),
            created: jiff::Timestamp::UNIX_EPOCH,
            built: None,
        };
        let share = Volume {
            id: "v".into(),
            name: "c-share".into(),
            size_gib: 1,
            labels: Labels::from([(labels::SLEEP.to_string(), sleep.to_string())]),
            attached_to: Vec::new(),
            status: VolumeStatus::default(),
            served: None,
        };
        Observed {
            instances: instances.iter().map(instance).collect(),
            volumes: vec![share],
            ..Observed::default()
        }
    }

    fn all(status: &InstanceStatus) -> Vec<(&'static str, &'static str, InstanceStatus)> {
        let nodes = [("control", "control"), ("l-0", "login.l"), ("a-0", "compute.a"), ("a-1", "compute.a")];
        nodes.into_iter().map(|(node, group)| (node, group, status.clone())).collect()
    }

    fn queue() -> Jobs {
        Jobs::Known(Queue::parse(
            "7|RUNNING|ann|2026-11-16T10:00:00|a-0|sweep\n8|PENDING|bob|N/A||later\n",
            "|",
        ))
    }

    #[test]
    fn what_is_elastic_goes_and_the_rest_stops_control_last() {
        let mut there = all(&InstanceStatus::Active);
        there.push(("e-1", "compute.e", InstanceStatus::Active));
        // It has left the file, and is stopped like the others; what its group can create again is deleted.
        there.push(("a-9", "compute.a", InstanceStatus::Active));
        there.push(("e-9", "compute.e", InstanceStatus::Building));
        let outlook = stop_outlook(&spec(), &seen("no", &there), queue());
        assert_eq!(
            outlook.to_string(),
            "Putting cluster c to sleep:\n  \
             = no job starts; 1 job waits and stays in the queue\n  \
             ! runs: job 7 of ann (sweep) on a-0, ends by 2026-11-16T10:00:00\n  \
             + a backup of accounting and Slurm's state\n  \
             - delete e-[1,9] (2 nodes), created again when jobs need them\n  \
             ~ stop a-[0-1,9],l-0 (4 nodes)\n  \
             ~ stop control, last\n  = c-share stay"
        );
        assert_eq!(outlook.instances(), 7);
        assert!(outlook.check(Stopping::AfterJobs).is_ok());
    }

    #[test]
    fn a_stop_that_was_cut_off_goes_on_with_what_is_left() {
        let mut there = all(&InstanceStatus::Stopped);
        let asleep = "asleep 2026-11-16T20:00:00Z";
        assert!(stop_outlook(&spec(), &seen(asleep, &there), Jobs::None).is_done());
        // Stopped by somebody else, and not as Kiln does it.
        assert!(!stop_outlook(&spec(), &seen("no", &there), Jobs::None).is_done());
        there[0].2 = InstanceStatus::Active;
        let outlook = stop_outlook(&spec(), &seen(asleep, &there), Jobs::None);
        assert_eq!(
            outlook.to_string(),
            "Putting cluster c to sleep:\n  ~ stop control, last\n  = c-share stay"
        );
    }

    #[test]
    fn jobs_that_cannot_be_known_are_ended_only_on_demand() {
        let outlook = stop_outlook(
            &spec(),
            &seen("no", &all(&InstanceStatus::Active)),
            Jobs::Unknown("no answer".into()),
        );
        let refused = outlook.check(Stopping::AfterJobs).unwrap_err();
        assert_eq!(refused.to_string(), "Slurm cannot be asked which jobs run: no answer");
        assert!(outlook.check(Stopping::Now).is_ok());
    }

    #[test]
    fn control_wakes_first_and_nothing_elastic_is_started() {
        let mut there = all(&InstanceStatus::Stopped);
        there.push(("e-0", "compute.e", InstanceStatus::Stopped));
        let outlook = start_outlook(&spec(), &seen("asleep", &there));
        assert_eq!(
            outlook.to_string(),
            "Waking cluster c:\n  ~ start control, first\n  ~ start l-0 (1 node)\n  ~ start a-[0-1] (2 nodes)\n  \
             = jobs start again when the nodes are back"
        );
        assert!(outlook.check().is_ok());
        let awake = start_outlook(&spec(), &seen("no", &all(&InstanceStatus::Active)));
        assert!(awake.is_done(), "{awake}");
        // The reservation may still be there.
        assert!(!start_outlook(&spec(), &seen("closing", &all(&InstanceStatus::Active))).is_done());
    }

    #[test]
    fn what_somebody_has_set_aside_is_left_to_them() {
        let mut there = all(&InstanceStatus::Stopped);
        for at in [2, 3] {
            there[at].2 = InstanceStatus::Held { how: "shelved".into() };
        }
        let outlook = start_outlook(&spec(), &seen("asleep", &there));
        let refused = outlook.check().unwrap_err();
        assert_eq!(refused.to_string(), "a-[0-1] set aside in the cloud: shelved");
        assert!(start_outlook(&spec(), &seen("asleep", &[])).control_lost);
    }

    /// Only an answer says that there is no rollout.
    #[test]
    fn a_kilnd_that_does_not_answer_is_not_one_without_a_rollout() {
        assert_eq!(rollouts_unknown(Ok(())).unwrap(), None);
        assert!(matches!(rollouts_unknown(Err(Error::RolloutOpen(7))), Err(Error::RolloutOpen(7))));
        let mut outlook = stop_outlook(&spec(), &seen("no", &all(&InstanceStatus::Active)), queue());
        assert!(outlook.check(Stopping::AfterJobs).is_ok());
        outlook.rollouts_unknown = rollouts_unknown(Err(Error::Fleet("no store".into()))).unwrap();
        let refused = outlook.check(Stopping::AfterJobs).unwrap_err();
        assert!(refused.to_string().contains("no store") && refused.hint().is_some(), "{refused}");
        assert!(
            outlook.to_string().contains("\n  ! kilnd cannot be asked whether a rollout is open: "),
            "{outlook}"
        );
        assert!(outlook.check(Stopping::Now).is_ok());
    }
}
