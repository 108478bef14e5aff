//! What Slurm says and what the cloud says of every node, side by side, with a verdict.

use std::collections::BTreeMap;

use kiln_cloud::{Instance, InstanceStatus};
use kiln_slurm::NodeState;
use kiln_spec::{Node, Role};
use serde::Serialize;

use crate::configure::slurm_states;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::observe::Observed;
use crate::plan::group_label;
use crate::targets::{Targets, targets};

#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    pub cluster: String,
    pub observed: jiff::Timestamp,
    /// Why Slurm could not be asked, if it could not.
    pub slurm_error: Option<String>,
    pub nodes: Vec<NodeStatus>,
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
    /// `ok`, or what is wrong.
    pub verdict: String,
}

impl StatusReport {
    pub fn is_ok(&self) -> bool {
        self.slurm_error.is_none() && self.nodes.iter().all(|n| n.verdict == "ok")
    }
}

impl Deployment<'_> {
    pub async fn status(&self) -> Result<StatusReport> {
        let observed = self.observe().await?;
        let images = targets(self.spec, &observed);
        let (states, slurm_error) = self.ask_slurm(&observed).await;
        let by_node: BTreeMap<&str, &NodeState> = states.iter().map(|s| (s.node.as_str(), s)).collect();
        let instances = observed.nodes();
        let nodes = self
            .spec
            .nodes()
            .map(|node| {
                let seen = Seen {
                    instance: instances.get(node.name).copied(),
                    slurm: by_node.get(node.name).copied(),
                    slurm_answers: slurm_error.is_none(),
                };
                seen.status(&node, &observed, &images)
            })
            .collect();
        Ok(StatusReport {
            cluster: self.spec.name.clone(),
            observed: jiff::Timestamp::now(),
            slurm_error,
            nodes,
        })
    }

    async fn ask_slurm(&self, observed: &Observed) -> (Vec<NodeState>, Option<String>) {
        let control = self.spec.control.node.as_str();
        let Some(instance) = observed.nodes().get(control).copied() else {
            return (Vec::new(), Some(format!("there is no instance for {control}")));
        };
        if instance.status != InstanceStatus::Active {
            return (Vec::new(), Some(format!("{control} is {}", instance.status.word())));
        }
        let asked = async {
            let hosts = self.hosts(observed, std::iter::once(control))?;
            slurm_states(&self.ssh()?, &hosts[0]).await
        };
        match asked.await {
            Ok(states) => (states, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        }
    }
}

struct Seen<'a> {
    instance: Option<&'a Instance>,
    slurm: Option<&'a NodeState>,
    slurm_answers: bool,
}

impl Seen<'_> {
    fn status(&self, node: &Node<'_>, observed: &Observed, images: &Targets) -> NodeStatus {
        NodeStatus {
            node: node.name.to_string(),
            role: node.role.as_str().to_string(),
            group: group_label(node),
            cloud: self.instance.map_or("missing".to_string(), |i| i.status.word().to_string()),
            address: self.instance.and_then(|i| i.address).map(|a| a.to_string()),
            image: self.instance.and_then(|i| i.image.as_deref()).map(|id| observed.image_name(id)),
            slurm: self.slurm.map(NodeState::short),
            reason: self.slurm.and_then(|s| s.reason.clone()),
            verdict: self.verdict(node, images),
        }
    }

    fn verdict(&self, node: &Node<'_>, images: &Targets) -> String {
        let Some(instance) = self.instance else { return "no instance".into() };
        match &instance.status {
            InstanceStatus::Active => {}
            InstanceStatus::Error { reason } => return format!("broken: {reason}"),
            other => return format!("instance is {}", other.word()),
        }
        if node.role == Role::Compute {
            match self.slurm {
                Some(state) if !state.in_service() => return format!("Slurm: {}", state.short()),
                None if self.slurm_answers => return "unknown to Slurm".into(),
                None => return "Slurm could not be asked".into(),
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
