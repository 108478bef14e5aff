//! What a service is: one value that says everything Kiln has to know of it.

use kiln_distro::Family;
use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;

use crate::inputs::{Inventory, NodeKeys, Secrets};
use crate::secret::Secret;
use crate::service_users::ServiceUser;
use crate::slurm_conf::SlurmConf;
use crate::volumes::{Purpose, restart_with};

/// Software and units have the names that their authors gave them; a family of systems translates those that it calls
/// otherwise.
#[derive(Debug)]
pub struct Service {
    pub name: &'static str,
    /// Whether a cluster has it; `None`: every cluster does.
    pub wanted: Option<fn(&Spec) -> bool>,
    /// Whether the file asks for it; `None`: every cluster has it. Only images of files that do have its software.
    pub asked_for: Option<fn(&Spec) -> bool>,
    /// What the image of a node of this role must have.
    pub software: fn(Role) -> &'static [&'static str],
    /// Whom its units run as. They do not start where the image has them with other numbers.
    pub users: &'static [ServiceUser],
    pub units: &'static [Unit],
    /// Volumes that hold its data. Its units are restarted when one of them is mounted while they run.
    pub volumes: &'static [Purpose],
    pub ports: &'static [Port],
    pub secrets: &'static [Secret],
    /// Files with certificates that it shows others, whose end is watched: what they are for, and their paths.
    pub certificates: &'static [(&'static str, &'static str)],
    /// Files, and contents of directories, that the installation of its software makes and that must not be in an image.
    pub leftovers: &'static [&'static str],
    /// Its part of a node's bundle, in the order in which it is applied.
    pub resources: fn(&Context<'_>) -> Vec<Resource>,
    /// Whether jobs fail without it: Slurm's health check then looks at it, too, and drains a compute node.
    pub for_jobs: ForJobs,
    /// What a node of this role is asked to see that it works, besides that its units run.
    pub health: fn(&Spec, Role) -> Vec<Question>,
}

/// What a service may use to make its resources.
pub struct Context<'a> {
    pub spec: &'a Spec,
    pub inventory: &'a Inventory,
    pub secrets: &'a Secrets,
    pub slurm: &'a SlurmConf,
    pub node: &'a str,
    /// The node's own.
    pub keys: &'a NodeKeys,
    pub role: Role,
    pub family: &'static Family,
}

#[derive(Debug, Clone, Copy)]
pub struct Unit {
    /// With its suffix: `slurmd.service`.
    pub name: &'static str,
    pub starts: Starts,
    /// Writes down what it knows when it is stopped: it must be stopped before its machine is taken away.
    pub saves_on_stop: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// With any system. An image leaves it as it is.
    WithSystem,
    /// Before the node has a bundle, so that Kiln can reach it. Enabled in an image.
    AtBoot,
    /// When the node's bundle says so. Disabled in an image.
    WithBundle,
    /// It comes with software of the service, which does not use it. Disabled in an image.
    Never,
}

/// What jobs need of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForJobs {
    No,
    /// Its units run. What it asks elsewhere may be away for a while.
    Runs,
    /// It answers.
    Works,
}

/// A TCP port that it listens on.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    pub tcp: u16,
    pub open_to: OpenTo,
}

/// Who may connect to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTo {
    /// Nodes of the cluster, which may connect to every port of each other.
    Cluster,
    /// Everyone on the cluster's network.
    Network,
    /// Everyone, on login nodes.
    Everyone,
}

impl Unit {
    /// Runs on the nodes whose bundle says so.
    pub const fn new(name: &'static str) -> Self {
        Unit { name, starts: Starts::WithBundle, saves_on_stop: false }
    }

    #[must_use]
    pub const fn starts(mut self, starts: Starts) -> Self {
        self.starts = starts;
        self
    }

    #[must_use]
    pub const fn saves_on_stop(mut self) -> Self {
        self.saves_on_stop = true;
        self
    }
}

impl Service {
    /// Nothing at all, to start from.
    pub const EMPTY: Service = Service {
        name: "",
        wanted: None,
        asked_for: None,
        software: |_| &[],
        users: &[],
        units: &[],
        volumes: &[],
        ports: &[],
        secrets: &[],
        certificates: &[],
        leftovers: &[],
        resources: |_| Vec::new(),
        for_jobs: ForJobs::No,
        health: |_, _| Vec::new(),
    };

    pub fn is_wanted(&self, spec: &Spec) -> bool {
        let is_so = |condition: Option<fn(&Spec) -> bool>| condition.is_none_or(|holds| holds(spec));
        is_so(self.wanted) && is_so(self.asked_for)
    }

    /// Whether every cluster has it, whatever its cloud and its file.
    pub(super) fn is_everywhere(&self) -> bool {
        self.wanted.is_none() && self.asked_for.is_none()
    }

    pub(crate) fn bundle_part(&self, context: &Context<'_>) -> Vec<Resource> {
        if !self.is_wanted(context.spec) {
            return Vec::new();
        }
        let mut resources: Vec<Resource> = self.users.iter().flat_map(|user| user.resources()).collect();
        resources.extend((self.resources)(context));
        for resource in &mut resources {
            if let Resource::Service(unit) = resource {
                unit.needs.extend(self.users.iter().map(|user| user.resource_id()));
                for purpose in self.volumes {
                    unit.restart_on.extend(restart_with(context.spec, *purpose));
                }
            }
        }
        resources
    }
}
