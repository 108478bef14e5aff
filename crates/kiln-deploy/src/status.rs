//! The state of every node in Slurm and in the cloud, side by side, with a verdict and its age.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_cloud::{Instance, InstanceStatus};
use kiln_distro::Family;
use kiln_site::services;
use kiln_slurm::State;
use kiln_spec::{Node, Role};
use kiln_wire::health::{FindingReport, FleetHealth, GroupFailures, NodeHealth};
use serde::Serialize;

use crate::configure::slurm_nodes;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::observe::Observed;
use crate::plan::group_label;
use crate::targets::{Targets, targets};

#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    pub cluster: String,
    pub observed: Timestamp,
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
    pub image: Option<String>,
    pub slurm: Option<String>,
    pub reason: Option<String>,
    /// `ok`, or the problem.
    pub verdict: String,
    /// Since when kilnd sees it so.
    pub since: Option<Timestamp>,
    /// When kilnd does something about it.
    pub due: Option<Timestamp>,
    /// What kilnd does about it.
    pub actions: Vec<String>,
}

impl StatusReport {
    pub fn is_ok(&self) -> bool {
        self.slurm_error.is_none() && self.nodes.iter().all(|n| n.verdict == "ok")
    }
}

/// What the control node answered.
#[derive(Default)]
struct ControlAnswer {
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
}

impl Deployment<'_> {
    pub async fn status(&self) -> Result<StatusReport> {
        let observed = self.observe().await?;
        let images = targets(self.spec, &observed);
        let answer = self.ask_control(&observed).await;
        let instances = observed.nodes();
        let nodes = self
            .spec
            .nodes()
            .map(|node| {
                let observed_node = ObservedNode {
                    instance: instances.get(node.name).copied(),
                    slurm: answer.states.get(node.name),
                    slurm_answers: answer.slurm_error.is_none(),
                    health: answer.health.get(node.name),
                };
                observed_node.status(&node, &observed, &images)
            })
            .collect();
        Ok(StatusReport {
            cluster: self.spec.name.clone(),
            observed: Timestamp::now(),
            slurm_error: answer.slurm_error,
            kilnd_error: answer.kilnd_error,
            failing_groups: answer.failing_groups,
            nodes,
            strays: answer.strays,
        })
    }

    async fn ask_control(&self, observed: &Observed) -> ControlAnswer {
        let failed = |error: String| ControlAnswer { slurm_error: Some(error), ..ControlAnswer::default() };
        let name = self.spec.control.node.as_str();
        let Some(instance) = observed.nodes().get(name).copied() else {
            return failed(format!("{name} has no instance"));
        };
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
                Err(error) => failed(self.with_stopped_units(observed, error.to_string()).await),
            },
        }
    }

    /// The error, with the units of the control node that should run and do not.
    async fn with_stopped_units(&self, observed: &Observed, error: String) -> String {
        let control = &self.spec.control;
        let units =
            services::units_to_run(self.spec, Role::Control, Family::of_image(self.spec, &control.image));
        let (Ok(ssh), Ok(hosts)) = (self.ssh(), self.hosts(observed, std::iter::once(control.node.as_str())))
        else {
            return error;
        };
        let argv: Vec<&str> = ["systemctl", "is-active"].into_iter().chain(units.iter().copied()).collect();
        match ssh.output(&hosts[0], &argv, b"").await.map(|output| not_active(&units, &output.stdout)) {
            Ok(stopped) if !stopped.is_empty() => format!("{error} ({})", stopped.join(", ")),
            _ => error,
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
            Some((n.node.clone(), SlurmState { short, reason: n.reason.clone(), in_order: n.in_order }))
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
        SlurmState { short: node.state.to_string(), in_order: node.state.in_service(), reason: node.reason }
    }
}

struct ObservedNode<'a> {
    instance: Option<&'a Instance>,
    slurm: Option<&'a SlurmState>,
    slurm_answers: bool,
    health: Option<&'a NodeHealth>,
}

impl ObservedNode<'_> {
    fn status(&self, node: &Node<'_>, observed: &Observed, images: &Targets) -> NodeStatus {
        let finding = self.health.and_then(|h| h.finding.as_ref()).filter(|f| !f.is_early);
        NodeStatus {
            node: node.name.to_string(),
            role: node.role.as_str().to_string(),
            group: group_label(node),
            cloud: self.cloud(),
            address: self.instance.and_then(|i| i.address).map(|a| a.to_string()),
            image: self.instance.and_then(|i| i.image.as_deref()).map(|id| observed.image_name(id)),
            slurm: self.slurm.map(|s| s.short.clone()),
            reason: self.slurm.and_then(|s| s.reason.clone()),
            verdict: finding.map_or_else(|| self.verdict(node, images), |f| f.text.clone()),
            since: finding.map(|f| f.since),
            due: finding.and_then(|f| f.due),
            actions: finding.map(|f| f.actions.clone()).unwrap_or_default(),
        }
    }

    fn cloud(&self) -> String {
        match self.instance {
            Some(instance) => instance.status.word().to_string(),
            None if self.is_off() => "-".into(),
            None => "missing".into(),
        }
    }

    /// Whether it is of an elastic group and powered down.
    fn is_off(&self) -> bool {
        self.health.is_some_and(|h| h.elastic && h.in_order && h.instances.is_empty())
    }

    fn verdict(&self, node: &Node<'_>, images: &Targets) -> String {
        let Some(instance) = self.instance else {
            return match self.health {
                _ if self.is_off() => "ok".into(),
                Some(health) if health.elastic => out_of_service(health.slurm.as_deref().unwrap_or_default()),
                _ => "no instance".into(),
            };
        };
        match &instance.status {
            InstanceStatus::Active => {}
            InstanceStatus::Error { reason } => return format!("broken: {reason}"),
            other => return format!("instance is {}", other.word()),
        }
        if node.role == Role::Compute {
            match self.slurm {
                Some(state) if !state.in_order => return out_of_service(&state.short),
                None if self.slurm_answers => return "unknown to Slurm".into(),
                None => return "Slurm could not be reached".into(),
                _ => {}
            }
        }
        let target = images.get(node.image).cloned().flatten();
        match target {
            None => "its image is not built".into(),
            Some(_) if instance.image != target => "another image is due".into(),
            Some(_) => "ok".into(),
        }
    }
}

/// `systemctl is-active` says one word for each unit.
fn not_active(units: &[&str], said: &str) -> Vec<String> {
    let states = units.iter().zip(said.lines().map(str::trim));
    let stopped = states.filter(|(_, state)| *state != "active");
    stopped.map(|(unit, state)| format!("{unit} is {state}")).collect()
}

fn out_of_service(state: &str) -> String {
    let observed_node = State::parse(state);
    if observed_node.is_powering_up() {
        "being powered up".into()
    } else if observed_node.is_going_down() {
        "being powered down".into()
    } else {
        format!("Slurm: {state}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_do_not_run_are_named() {
        let units = ["munge.service", "slurmctld.service", "kilnd.service"];
        let said = not_active(&units, "active\nfailed\ninactive\n");
        assert_eq!(said, ["slurmctld.service is failed", "kilnd.service is inactive"]);
        assert!(not_active(&units, "active\nactive\nactive\n").is_empty());
    }
}
