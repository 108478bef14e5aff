//! The state of every node in Slurm and in the cloud, side by side, with a verdict and its age.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_cloud::{Instance, InstanceStatus};
use kiln_slurm::{LEAVES, State, UNHEALTHY};
use kiln_spec::{Node, Role};
use kiln_wire::health::{FindingReport, FleetHealth, GroupFailures, NodeHealth};
use kiln_wire::labels;
use serde::Serialize;

use crate::checkup::{Examinations, Examined};
use crate::configure::slurm_nodes;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::observe::Observed;
use crate::plan::group_label;
use crate::sleep::Sleep;
use crate::targets::{Targets, targets};

#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    pub cluster: String,
    pub observed: Timestamp,
    #[serde(flatten)]
    pub sleep: Sleep,
    /// Why Slurm could not be reached, if it could not.
    pub slurm_error: Option<String>,
    /// Why kilnd's findings are missing or old, if they are.
    pub kilnd_error: Option<String>,
    /// Elastic groups for which the cloud refused a request.
    #[serde(rename = "troubles")]
    pub failing_groups: Vec<GroupFailures>,
    pub nodes: Vec<NodeStatus>,
    /// Instances that belong to no node.
    pub strays: Vec<FindingReport>,
}

#[derive(Debug, Clone, Serialize)]
pub struct NodeStatus {
    pub node: String,
    pub role: String,
    pub group: String,
    pub cloud: String,
    pub address: Option<String>,
    /// Where it is reached from outside the cluster's network, if it is.
    pub public_address: Option<String>,
    pub image: Option<String>,
    pub slurm: Option<String>,
    pub reason: Option<String>,
    /// `ok`, or the problem.
    pub verdict: String,
    /// Somebody or kilnd has to do something about it.
    pub wrong: bool,
    /// Since when kilnd sees it so.
    pub since: Option<Timestamp>,
    /// When kilnd does something about it.
    pub due: Option<Timestamp>,
    /// What kilnd does about it.
    pub actions: Vec<String>,
}

impl NodeStatus {
    /// It goes when its jobs have ended; the verdict has the reason.
    pub fn is_leaving(&self) -> bool {
        self.verdict.starts_with(LEAVING)
    }

    /// Its health check has drained it; the verdict has the reason.
    pub fn is_unhealthy(&self) -> bool {
        self.verdict.starts_with(ILL)
    }
}

impl StatusReport {
    /// Nothing is wrong: what is still on its way or waits for a rebuild does not count.
    pub fn is_ok(&self) -> bool {
        self.slurm_error.is_none() && self.kilnd_error.is_none() && !self.nodes.iter().any(|n| n.wrong)
    }
}

/// What kilnd, or else Slurm, answered.
#[derive(Default)]
pub(crate) struct ControlAnswer {
    states: BTreeMap<String, SlurmState>,
    health: BTreeMap<String, NodeHealth>,
    failing_groups: Vec<GroupFailures>,
    strays: Vec<FindingReport>,
    slurm_error: Option<String>,
    kilnd_error: Option<String>,
}

struct SlurmState {
    short: String,
    reason: Option<String>,
    in_order: bool,
    /// Of an elastic group, powered down, and ready to be powered up.
    off: bool,
}

impl SlurmState {
    /// Why Kiln has drained the node to remove or replace it, if it has.
    fn leaves(&self) -> Option<&str> {
        self.drained_for(LEAVES)
    }

    /// What the node's health check has drained it for, if it has.
    fn illness(&self) -> Option<&str> {
        self.drained_for(UNHEALTHY)
    }

    fn drained_for(&self, kind: &str) -> Option<&str> {
        let reason = self.reason.as_deref()?.strip_prefix(kind)?;
        State::parse(&self.short).is_drained().then_some(reason)
    }
}

impl Deployment<'_> {
    pub async fn status(&self) -> Result<StatusReport> {
        let observed = self.observe().await?;
        let (answer, examined) =
            tokio::join!(self.ask_control(&observed), self.examine(&observed, self.with_services(&observed)));
        let report = self.report(&observed, answer, &examined);
        Ok(report)
    }

    /// Slurm judges compute nodes; the others are asked themselves, those that are up.
    fn with_services(&self, observed: &Observed) -> Vec<(&str, kiln_wire::checkup::Checkup)> {
        let instances = observed.nodes();
        let is_up = |name: &str| instances.get(name).is_some_and(|i| i.status == InstanceStatus::Active);
        let nodes = self.spec.nodes().filter(|node| node.role != Role::Compute && is_up(node.name));
        nodes.map(|node| (node.name, self.checkup_of(&node))).collect()
    }

    /// Everything that was asked, put together.
    pub(crate) fn report(
        &self,
        observed: &Observed,
        answer: ControlAnswer,
        examined: &Examinations,
    ) -> StatusReport {
        let images = targets(self.spec, observed);
        let instances = observed.nodes();
        let sleep = observed.sleep(self.spec);
        let nodes = self
            .spec
            .nodes()
            .map(|node| {
                let observed_node = ObservedNode {
                    instance: instances.get(node.name).copied(),
                    slurm: answer.states.get(node.name),
                    slurm_answers: answer.slurm_error.is_none(),
                    health: answer.health.get(node.name),
                    asleep: sleep.is_asleep(),
                    services: examined.get(node.name).and_then(service_problem),
                };
                observed_node.status(&node, observed, &images)
            })
            .chain(self.leavers(observed, &answer, sleep))
            .collect();
        StatusReport {
            cluster: self.spec.name.clone(),
            observed: Timestamp::now(),
            sleep,
            slurm_error: answer.slurm_error,
            kilnd_error: answer.kilnd_error,
            failing_groups: answer.failing_groups,
            nodes,
            strays: answer.strays,
        }
    }

    /// Compute nodes that the file no longer has, while their instances are still there.
    fn leavers(&self, observed: &Observed, answer: &ControlAnswer, sleep: Sleep) -> Vec<NodeStatus> {
        let instances = observed.nodes();
        let left = instances.iter().filter(|(name, _)| self.spec.node(name).is_none());
        let of_group = left.filter_map(|(name, instance)| {
            let group = instance.labels.get(labels::GROUP).filter(|group| group.starts_with("compute."))?;
            Some(leaver(name, group, instance, answer.states.get(*name), observed, sleep))
        });
        of_group.collect()
    }

    pub(crate) async fn ask_control(&self, observed: &Observed) -> ControlAnswer {
        let failed = |error: String| ControlAnswer { slurm_error: Some(error), ..ControlAnswer::default() };
        let name = self.spec.control.node.as_str();
        let Some(instance) = observed.nodes().get(name).copied() else {
            return failed(format!("{name} has no instance"));
        };
        // Nobody is there to be asked, and nobody is missed.
        if instance.status == InstanceStatus::Stopped && observed.sleep(self.spec).is_asleep() {
            return ControlAnswer::default();
        }
        if instance.status != InstanceStatus::Active {
            return failed(format!("{name} is {}", instance.status.word()));
        }
        let asked = match self.control(observed) {
            Ok(control) => control.ask::<FleetHealth>(&["health"], b"").await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(health) => ControlAnswer::from(health),
            // kilnd may have no fleet file yet; Slurm may still answer.
            Err(kilnd_error) => match self.ask_slurm(observed).await {
                Ok(nodes) => ControlAnswer {
                    states: nodes.into_iter().map(|(name, node)| (name, SlurmState::from(node))).collect(),
                    kilnd_error: Some(kilnd_error.to_string()),
                    ..ControlAnswer::default()
                },
                Err(error) => failed(error.to_string()),
            },
        }
    }

    async fn ask_slurm(&self, observed: &Observed) -> Result<BTreeMap<String, kiln_slurm::Node>> {
        let hosts = self.hosts(observed, std::iter::once(self.spec.control.node.as_str()))?;
        slurm_nodes(&self.ssh()?, &hosts[0]).await
    }
}

impl From<FleetHealth> for ControlAnswer {
    fn from(health: FleetHealth) -> Self {
        let unattended = health.is_unattended().then(|| match health.last_look {
            Some(at) => format!("kilnd last checked at {}", at.strftime("%Y-%m-%d %H:%M:%S UTC")),
            None => "kilnd has never checked".into(),
        });
        let blind = health.cloud_problem.map(|problem| format!("kilnd cannot rely on the cloud: {problem}"));
        let says = |n: &NodeHealth| {
            let short = n.slurm.clone()?;
            let off = n.in_order && State::parse(&short).is_off_and_available();
            let (reason, in_order) = (n.reason.clone(), n.in_order);
            Some((n.node.clone(), SlurmState { short, reason, in_order, off }))
        };
        ControlAnswer {
            states: health.nodes.iter().filter_map(says).collect(),
            health: health.nodes.into_iter().map(|n| (n.node.clone(), n)).collect(),
            failing_groups: health.failing_groups,
            strays: health.strays,
            slurm_error: health.slurm_problem,
            kilnd_error: blind.or(unattended),
        }
    }
}

impl From<kiln_slurm::Node> for SlurmState {
    fn from(node: kiln_slurm::Node) -> Self {
        SlurmState {
            short: node.state.to_string(),
            in_order: node.state.in_service(),
            off: node.state.is_off_and_available(),
            reason: node.reason,
        }
    }
}

/// The verdict on a node of a cluster that sleeps.
pub(crate) const ASLEEP: &str = "asleep";
/// How the verdict on a node begins that goes when its jobs have ended. Why follows.
const LEAVING: &str = "leaving: ";
/// How the verdict on a node begins that its health check has drained. What is wrong follows.
const ILL: &str = "unhealthy: ";
pub(crate) const GONE_FROM_FILE: &str = "no longer in the file";

struct ObservedNode<'a> {
    instance: Option<&'a Instance>,
    slurm: Option<&'a SlurmState>,
    slurm_answers: bool,
    health: Option<&'a NodeHealth>,
    /// The cluster sleeps.
    asleep: bool,
    /// What does not work, as far as the node was asked.
    services: Option<String>,
}

/// What is to be said of a node, and whether somebody has to do something about it.
struct Verdict {
    text: String,
    wrong: bool,
}

impl Verdict {
    fn wrong(text: impl Into<String>) -> Verdict {
        Verdict { text: text.into(), wrong: true }
    }

    fn fine(text: impl Into<String>) -> Verdict {
        Verdict { text: text.into(), wrong: false }
    }
}

impl ObservedNode<'_> {
    fn status(&self, node: &Node<'_>, observed: &Observed, images: &Targets) -> NodeStatus {
        let finding = self.health.and_then(|h| h.finding.as_ref()).filter(|f| !f.is_early);
        let finding = finding.filter(|_| !self.is_asleep(node));
        let verdict = finding.map_or_else(|| self.verdict(node, images), |f| Verdict::wrong(f.text.as_str()));
        NodeStatus {
            node: node.name.to_string(),
            role: node.role.as_str().to_string(),
            group: group_label(node),
            cloud: self.cloud(node),
            address: self.instance.and_then(|i| i.address).map(|a| a.to_string()),
            public_address: self.instance.and_then(|i| i.public_address).map(|a| a.to_string()),
            image: self.instance.and_then(|i| i.image.as_deref()).map(|id| observed.image_name(id)),
            slurm: self.slurm.map(|s| s.short.clone()),
            reason: self.slurm.and_then(|s| s.reason.clone()),
            verdict: verdict.text,
            wrong: verdict.wrong,
            since: finding.map(|f| f.since),
            due: finding.and_then(|f| f.due),
            actions: finding.map(|f| f.actions.clone()).unwrap_or_default(),
        }
    }

    /// Off, as it should be.
    fn is_asleep(&self, node: &Node<'_>) -> bool {
        let off = self.instance.map_or(node.elastic, |i| i.status == InstanceStatus::Stopped);
        self.asleep && off
    }

    fn cloud(&self, node: &Node<'_>) -> String {
        match self.instance {
            Some(instance) => instance.status.word().to_string(),
            // Whether it should have one is for Slurm to say.
            None if node.elastic && self.slurm.is_none_or(|s| s.off) => "-".into(),
            None => "missing".into(),
        }
    }

    fn verdict(&self, node: &Node<'_>, images: &Targets) -> Verdict {
        if self.is_asleep(node) {
            return Verdict::fine(ASLEEP);
        }
        let is_off = node.elastic && self.slurm.is_some_and(|s| s.off);
        let Some(instance) = self.instance else {
            return match self.slurm {
                _ if is_off => Verdict::fine("ok"),
                Some(state) if node.elastic => out_of_service(&state.short),
                None if node.elastic => self.without_slurm(),
                _ => Verdict::wrong("no instance"),
            };
        };
        match &instance.status {
            InstanceStatus::Active => {}
            InstanceStatus::Error { reason } => return Verdict::wrong(format!("broken: {reason}")),
            other => return Verdict::wrong(format!("instance is {}", other.word())),
        }
        if let Some(problem) = &self.services {
            return Verdict::wrong(problem.as_str());
        }
        if node.role == Role::Compute {
            match self.slurm {
                Some(state) if state.leaves().is_some() => return leaving(state),
                Some(state) if !state.in_order => {
                    let illness = state.illness().map(|why| Verdict::wrong(format!("{ILL}{why}")));
                    return illness.unwrap_or_else(|| out_of_service(&state.short));
                }
                None => return self.without_slurm(),
                _ => {}
            }
        }
        let target = images.get(node.image).cloned().flatten();
        match target {
            None => Verdict::wrong("its image is not built"),
            Some(_) if instance.image != target => Verdict::fine("another image is due"),
            Some(_) => Verdict::fine("ok"),
        }
    }

    fn without_slurm(&self) -> Verdict {
        Verdict::wrong(if self.slurm_answers { "unknown to Slurm" } else { "Slurm could not be reached" })
    }
}

/// The verdict on a node that Kiln has drained to remove or replace it.
fn leaving(state: &SlurmState) -> Verdict {
    Verdict::fine(format!("{LEAVING}{}", state.leaves().unwrap_or_default()))
}

fn leaver(
    name: &str,
    group: &str,
    instance: &Instance,
    slurm: Option<&SlurmState>,
    observed: &Observed,
    sleep: Sleep,
) -> NodeStatus {
    let asleep = sleep.is_asleep() && instance.status == InstanceStatus::Stopped;
    let verdict = match slurm.filter(|state| state.leaves().is_some()) {
        _ if asleep => Verdict::fine(ASLEEP),
        Some(state) => leaving(state),
        None => Verdict::fine(GONE_FROM_FILE),
    };
    NodeStatus {
        node: name.to_string(),
        role: Role::Compute.as_str().to_string(),
        group: group.to_string(),
        cloud: instance.status.word().to_string(),
        address: instance.address.map(|a| a.to_string()),
        public_address: instance.public_address.map(|a| a.to_string()),
        image: instance.image.as_deref().map(|id| observed.image_name(id)),
        slurm: slurm.map(|s| s.short.clone()),
        reason: slurm.and_then(|s| s.reason.clone()),
        verdict: verdict.text,
        wrong: verdict.wrong,
        since: None,
        due: None,
        actions: Vec::new(),
    }
}

/// What a node says of its services, if that is not well.
fn service_problem(examined: &std::result::Result<Examined, String>) -> Option<String> {
    match examined {
        Err(error) => Some(error.clone()),
        Ok(Examined { report, .. }) if report.problems.is_empty() => None,
        Ok(Examined { report, .. }) => {
            Some(report.problems.iter().map(|problem| problem.text.as_str()).collect::<Vec<_>>().join("; "))
        }
    }
}

fn out_of_service(state: &str) -> Verdict {
    let parsed = State::parse(state);
    if parsed.is_powering_up() {
        Verdict::fine("being powered up")
    } else if parsed.is_going_down() {
        Verdict::fine("being powered down")
    } else {
        Verdict::wrong(format!("Slurm: {state}"))
    }
}

#[cfg(test)]
mod tests {
    use kiln_spec::Spec;
    use kiln_wire::Version;
    use kiln_wire::checkup::{CheckupReport, ServiceProblem};

    use super::*;

    fn spec() -> Spec {
        let text = "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[login.l]\nnodes = \"l-0\"\n\
                    [compute.e]\nnodes = \"e-0\"\nelastic = {}\n";
        kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"))
    }

    fn active() -> Instance {
        Instance {
            id: "i".into(),
            name: "x".into(),
            status: InstanceStatus::Active,
            image: Some("image".into()),
            flavor: "medium".into(),
            address: None,
            public_address: None,
            labels: kiln_cloud::Labels::new(),
            volumes: Vec::new(),
            created: Timestamp::UNIX_EPOCH,
            built: None,
        }
    }

    fn status(node: &str, seen: &ObservedNode<'_>) -> NodeStatus {
        let spec = spec();
        let images = Targets::from([("default".to_string(), Some("image".to_string()))]);
        seen.status(&spec.node(node).unwrap(), &Observed::default(), &images)
    }

    fn examined(problems: &[(&str, &str)]) -> Examined {
        let problem = |(service, text): &(&str, &str)| ServiceProblem {
            service: (*service).into(),
            text: (*text).into(),
        };
        let report = CheckupReport {
            format: Version,
            time: Timestamp::UNIX_EPOCH,
            slurm: None,
            problems: problems.iter().map(problem).collect(),
            places: Vec::new(),
            services: Vec::new(),
            certificates: Vec::new(),
        };
        Examined { report, clock_ahead: jiff::SignedDuration::ZERO }
    }

    #[test]
    fn control_and_login_are_judged_by_their_services() {
        let instance = active();
        let seen = |answer: &std::result::Result<Examined, String>| ObservedNode {
            instance: Some(&instance),
            slurm: None,
            slurm_answers: true,
            health: None,
            asleep: false,
            services: service_problem(answer),
        };
        let well = status("control", &seen(&Ok(examined(&[]))));
        assert_eq!((well.verdict.as_str(), well.wrong), ("ok", false));
        let down =
            [("accounting", "slurmdbd.service is inactive"), ("slurmctld", "slurmctld.service is failed")];
        let down = status("control", &seen(&Ok(examined(&down))));
        assert_eq!(down.verdict, "slurmdbd.service is inactive; slurmctld.service is failed");
        let lost = status("l-0", &seen(&Err("l-0 could not be reached over SSH: timed out".into())));
        assert_eq!(lost.verdict, "l-0 could not be reached over SSH: timed out");
        assert!(down.wrong && lost.wrong);
    }

    #[test]
    fn a_node_that_leaves_is_told_with_its_reason() {
        let instance = active();
        let verdict = |line: &str| {
            let slurm = SlurmState::from(kiln_slurm::parse_node(&format!("NodeName=e-0 {line}")).unwrap());
            let seen = ObservedNode {
                instance: Some(&instance),
                slurm: Some(&slurm),
                slurm_answers: true,
                health: None,
                asleep: false,
                services: None,
            };
            let status = status("e-0", &seen);
            format!("{} {}", status.wrong, status.verdict)
        };
        let drained =
            "State=MIXED+DRAIN Reason=kiln: to be removed: flavor a -> b [root@2026-11-16T08:00:00]";
        assert_eq!(verdict(drained), "false leaving: flavor a -> b");
        assert_eq!(
            verdict("State=MIXED+DRAIN Reason=fan [root@2026-11-16T08:00:00]"),
            "true Slurm: mixed+drain"
        );
        assert_eq!(
            verdict("State=IDLE+DRAIN Reason=kiln: health: /home is not mounted [root@2026-11-16T08:00:00]"),
            "true unhealthy: /home is not mounted"
        );
        // A node that is gone, or back, may keep the words.
        assert_eq!(verdict("State=IDLE Reason=kiln: to be removed: flavor a -> b"), "false ok");
    }

    #[test]
    fn a_node_that_sleeps_is_as_it_should_be() {
        let mut instance = active();
        let seen = |instance: Option<&Instance>, node: &str, asleep| {
            let seen = ObservedNode {
                instance,
                slurm: None,
                slurm_answers: true,
                health: None,
                asleep,
                services: None,
            };
            let status = status(node, &seen);
            format!("{} {}", status.wrong, status.verdict)
        };
        assert_eq!(seen(None, "e-0", true), "false asleep");
        assert_eq!(seen(None, "l-0", true), "true no instance");
        assert_eq!(seen(Some(&instance), "l-0", true), "false ok");
        instance.status = InstanceStatus::Stopped;
        assert_eq!(seen(Some(&instance), "l-0", true), "false asleep");
        assert_eq!(seen(Some(&instance), "l-0", false), "true instance is stopped");
    }

    #[test]
    fn an_elastic_node_without_an_instance_has_a_whole_verdict() {
        let slurm = |state: &str| {
            SlurmState::from(kiln_slurm::parse_node(&format!("NodeName=e-0 State={state}")).unwrap())
        };
        let seen = |slurm: Option<&SlurmState>, slurm_answers| {
            let seen = ObservedNode {
                instance: None,
                slurm,
                slurm_answers,
                health: None,
                asleep: false,
                services: None,
            };
            let status = status("e-0", &seen);
            format!("{} {} {}", status.cloud, status.wrong, status.verdict)
        };
        assert_eq!(seen(None, false), "- true Slurm could not be reached");
        assert_eq!(seen(None, true), "- true unknown to Slurm");
        assert_eq!(seen(Some(&slurm("IDLE+CLOUD+POWERED_DOWN")), true), "- false ok");
        assert_eq!(seen(Some(&slurm("DOWN+CLOUD")), true), "missing true Slurm: down+cloud");
    }
}
