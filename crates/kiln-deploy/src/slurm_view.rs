//! What Slurm says of nodes and of the jobs on them, asked on the control node over SSH.

use std::collections::BTreeMap;

use kiln_cloud::InstanceStatus;
use kiln_site::{Purpose, volume_name};
use kiln_slurm::{Node, delimiter, parse_nodes};
use kiln_spec::hostlist;

pub use kiln_slurm::JobOnNodes;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::{ASK_LIMIT, Observed};

#[derive(Debug, Clone, Default)]
pub enum SlurmView {
    /// Nothing depends on it, or there is no Slurm yet.
    #[default]
    NotAsked,
    /// And why.
    Unreachable(String),
    Known {
        nodes: BTreeMap<String, Node>,
        jobs: Vec<JobOnNodes>,
    },
}

impl SlurmView {
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes().find(|node| node.name == name)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        let nodes = match self {
            SlurmView::Known { nodes, .. } => Some(nodes),
            SlurmView::NotAsked | SlurmView::Unreachable(_) => None,
        };
        nodes.into_iter().flat_map(BTreeMap::values)
    }

    pub fn jobs_on(&self, node: &str) -> Vec<JobOnNodes> {
        match self {
            SlurmView::Known { jobs, .. } => {
                jobs.iter().filter(|job| job.nodes.iter().any(|on| on == node)).cloned().collect()
            }
            SlurmView::NotAsked | SlurmView::Unreachable(_) => Vec::new(),
        }
    }
}

impl Deployment<'_> {
    /// All nodes, and the jobs on those that `of_interest` names.
    pub(crate) async fn ask_slurm_view(
        &self,
        observed: &Observed,
        of_interest: impl Fn(&str) -> bool,
    ) -> SlurmView {
        let name = self.spec.control.node.as_str();
        let control = observed.nodes().get(name).copied();
        match control {
            None if self.has_never_run(observed) => SlurmView::NotAsked,
            None => SlurmView::Unreachable(format!("{name} has no instance")),
            Some(instance) if instance.status != InstanceStatus::Active => {
                SlurmView::Unreachable(format!("{name} is {}", instance.status.word()))
            }
            Some(_) => match self.read_slurm(observed, of_interest).await {
                Ok((nodes, jobs)) => SlurmView::Known { nodes, jobs },
                Err(error) => SlurmView::Unreachable(error.chain()),
            },
        }
    }

    /// No instance has ever had the share, so nothing was ever configured.
    fn has_never_run(&self, observed: &Observed) -> bool {
        let share = volume_name(self.spec, Purpose::Share);
        observed.volumes.iter().find(|volume| volume.name == share).is_none_or(kiln_cloud::Volume::never_used)
    }

    async fn read_slurm(
        &self,
        observed: &Observed,
        of_interest: impl Fn(&str) -> bool,
    ) -> Result<(BTreeMap<String, Node>, Vec<JobOnNodes>)> {
        let nodes =
            parse_nodes(&self.run_slurm(observed, &["scontrol", "show", "node", "--oneliner"]).await?);
        let asked: Vec<&str> = nodes.keys().map(String::as_str).filter(|name| of_interest(name)).collect();
        if asked.is_empty() {
            return Ok((nodes, Vec::new()));
        }
        let delimiter = delimiter();
        let words = JobOnNodes::squeue(&hostlist::fold(asked), &delimiter);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let jobs = JobOnNodes::parse(&self.run_slurm(observed, &words).await?, &delimiter);
        Ok((nodes, jobs))
    }

    /// Runs one of Slurm's programs on the control node.
    pub(crate) async fn run_slurm(&self, observed: &Observed, words: &[&str]) -> Result<String> {
        let control = self.hosts(observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        let argv: Vec<&str> = ["env", "TZ=UTC"].into_iter().chain(words.iter().copied()).collect();
        let output = self.ssh()?.wait_output(&control, &argv, ASK_LIMIT).await?;
        if output.status != 0 {
            let program = words.first().copied().unwrap_or_default();
            let said = output.stderr.lines().last().unwrap_or("no answer").to_string();
            return Err(Error::Slurm { program: program.to_string(), said });
        }
        Ok(output.stdout)
    }
}
