//! The validated content of `cluster.toml`: every default is filled in, every name is checked, every
//! hostlist is expanded. Nothing behind this type needs to ask whether the file was right.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;

use crate::{CloudSpec, ImageProperties, Software, System};

/// One cluster, as the user described it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spec {
    pub name: String,
    /// DNS domain of the nodes; `NODE.DOMAIN` is a node's full name.
    pub domain: String,
    pub cloud: CloudSpec,
    /// By name. Every `image` of a node names one of these.
    pub images: BTreeMap<String, ImageSpec>,
    /// By name: the site's sets of software.
    pub software: BTreeMap<String, SoftwareSpec>,
    /// By name. Images name these.
    pub sources: BTreeMap<String, SourceSpec>,
    pub pulp: Option<PulpSpec>,
    pub control: ControlSpec,
    /// In the order of the file.
    pub login: Vec<Group>,
    /// In the order of the file.
    pub compute: Vec<Group>,
    pub volumes: Volumes,
    pub backup: Backup,
    /// `None`: slurmdbd and its database run on the control node.
    pub accounting: Option<ExternalSlurmdbd>,
    pub accounts: Accounts,
    pub partitions: Vec<Partition>,
    pub rebuild: Vec<RebuildPartition>,
    pub slurm: SlurmSpec,
    pub users: Vec<User>,
    /// Every group that the file names, but those of its system and the own groups of users.
    pub user_groups: Vec<UserGroup>,
    pub roles: Roles,
    /// At most this many cloud or SSH operations at a time.
    pub concurrency: usize,
    pub reconcile: Reconcile,
}

/// How kilnd keeps Slurm and the cloud in agreement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reconcile {
    /// Between two looks.
    pub every: Duration,
    /// How long an odd state must have lasted.
    pub grace: Duration,
    /// How long an instance that belongs to no node is kept, in case the next `kiln configure` adds its node.
    pub newcomer: Duration,
    /// How long an elastic group is left alone after the cloud refused it.
    pub pause: Duration,
    /// Failures in a row that make a group pause.
    pub failures: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImageSpec {
    pub name: String,
    /// Where the build starts.
    pub source: ImageSource,
    /// Also of an image that is built on another one.
    pub system: System,
    /// Roles whose software goes in. A fat image has all three.
    pub roles: Vec<Role>,
    /// Sets of software, besides that of the roles, in the order of the file.
    pub software: Vec<ImageSoftware>,
    /// Installed on top of the roles' own packages.
    pub packages: Vec<String>,
    /// Names of packages that keep their version when others are updated.
    pub hold: Vec<String>,
    /// Run as root at the end of the build, in order.
    pub commands: Vec<String>,
    /// What packages come from, those of the sets of software too: names of [`Spec::sources`], and [`SYSTEM_SOURCES`].
    pub sources: Vec<String>,
    pub build: BuildSpec,
    pub properties: ImageProperties,
}

/// The machine that an image is built on. Nothing of it is in the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuildSpec {
    /// `None`: that of the control node.
    pub flavor: Option<String>,
    /// Name of a network that exists; `None`: that of the cluster, or one for the build.
    pub network: Option<String>,
    /// Size of a root disk that is a volume; `None`: like those of nodes.
    pub disk_gib: Option<u64>,
    /// For the whole build.
    pub timeout: Duration,
}

impl Default for BuildSpec {
    fn default() -> Self {
        BuildSpec { flavor: None, network: None, disk_gib: None, timeout: Duration::from_secs(2 * 3600) }
    }
}

/// A set of software that an image has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageSoftware {
    Kiln(Software),
    /// Name of one of [`Spec::software`].
    Site(String),
}

impl ImageSoftware {
    pub fn name(&self) -> &str {
        match self {
            ImageSoftware::Kiln(set) => set.name(),
            ImageSoftware::Site(name) => name,
        }
    }
}

/// A set of software of the site's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SoftwareSpec {
    pub name: String,
    pub packages: Vec<String>,
    /// Names of [`Spec::sources`], and [`SYSTEM_SOURCES`].
    pub sources: Vec<String>,
    pub files: Vec<ExtraFile>,
    /// Run as root after the files are written, in order.
    pub commands: Vec<String>,
}

/// Among the sources of an image: the repositories that the source image has itself.
pub const SYSTEM_SOURCES: &str = "system";

/// A repository of packages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSpec {
    pub name: String,
    /// With the snapshot in it.
    pub address: String,
    pub snapshot: Option<String>,
    pub pulp: Option<PulpSource>,
    /// None: packages are at the address itself.
    pub suites: Vec<String>,
    pub components: Vec<String>,
    /// `None`: one of those that the source image trusts.
    pub key: Option<SigningKey>,
    pub credentials: Option<Credentials>,
    /// Nodes have it too.
    pub keep: bool,
}

/// Where a Pulp server has the snapshots of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PulpSource {
    /// Below the server's content, without slashes at its ends.
    pub path: String,
    /// What the server fetches it from. `None`: its snapshots are made by others.
    pub upstream: Option<String>,
    /// The cluster file itself says which snapshot is used.
    pub fixed: bool,
}

/// A server that has snapshots of package repositories. URLs are without a slash at their end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PulpSpec {
    pub address: String,
    /// Where packages are.
    pub content: String,
    /// `None`: it is only read.
    pub credentials: Option<Credentials>,
}

/// An OpenPGP public key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SigningKey {
    /// As the file has it.
    pub path: String,
    #[serde(skip)]
    pub content: Vec<u8>,
}

/// Where `USER:PASSWORD` is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Credentials {
    Environment(String),
    /// Relative to the cluster file.
    File(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageSource {
    /// Another image of this file: an "extra" image on top of it.
    Image(String),
    /// An image of the cloud, by name or id.
    Cloud(String),
    /// An image of the cloud that is used as it is: nothing is built.
    Prebuilt(String),
    /// The plain image of a system: `bookworm`, `trixie`, `forky`, `noble`.
    #[serde(untagged)]
    System(System),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Control,
    Login,
    Compute,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Control, Role::Login, Role::Compute];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Control => "control",
            Role::Login => "login",
            Role::Compute => "compute",
        }
    }

    pub fn of(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlSpec {
    /// The node's name, `control` unless the file says otherwise.
    pub node: String,
    pub flavor: String,
    pub image: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    pub name: String,
    pub role: Role,
    /// Expanded, in the order written.
    pub nodes: Vec<String>,
    pub flavor: String,
    pub image: String,
    /// Slurm features of the nodes (compute only).
    pub features: Vec<String>,
    /// Who replaces the image of a living node. Always `Apply` for login groups.
    pub image_update: ImageUpdate,
    /// Where the nodes may be, in this order; empty: the cloud decides (compute only).
    pub zones: Vec<String>,
    /// Slurm powers the nodes up and down (compute only).
    pub elastic: Option<Elastic>,
    /// How long a healthy node may take from its reboot, onto a new image, until it is back in Slurm.
    pub rebuild_time: Duration,
    /// Extra parameters of the group's `NodeName` line (compute only), in slurm.conf's own words.
    pub node_config: BTreeMap<String, String>,
    /// Settings for single nodes, by node name.
    pub overrides: BTreeMap<String, NodeOverride>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Elastic {
    /// How long a node may be idle before it is deleted.
    pub idle: Duration,
    /// This many of the group's first nodes are kept up at all times.
    pub min: usize,
    /// Taken in this order where the cloud has no room for the group's own flavor.
    pub flavors: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeOverride {
    pub flavor: Option<String>,
    pub image: Option<String>,
    /// Replaces the group's features.
    pub features: Option<Vec<String>>,
    pub address: Option<IpAddr>,
    /// Set over the group's.
    pub node_config: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageUpdate {
    /// `kiln apply` rebuilds the node in place, at once.
    Apply,
    /// `kiln apply` only records the new image.
    Slurm,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Volumes {
    /// Slurm's state and the accounting database.
    pub state: Volume,
    /// The users' home directories.
    pub home: Volume,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Volume {
    /// Kiln creates it and `destroy` deletes it.
    Manage { size_gib: u64 },
    /// It exists under this name; Kiln attaches it and never deletes it.
    Attach { name: String },
    /// On the root disk of each node, and lost when the node is rebuilt.
    None,
}

/// Backups of accounting and Slurm's state, which the control node makes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Backup {
    /// When, in systemd's words.
    pub calendar: String,
    /// Between two of them.
    pub interval: Duration,
    pub keep: usize,
    /// Where they are kept, unless there is a `path`.
    pub volume: Volume,
    /// A directory of the site.
    pub path: Option<String>,
}

/// A slurmdbd that the site runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalSlurmdbd {
    pub host: String,
    pub port: u16,
    pub backup_host: Option<String>,
}

impl ExternalSlurmdbd {
    /// `dbd.example.org:6819`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Slurm's accounts, limits and QOS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Accounts {
    pub mode: AccountsMode,
    /// In the order of the file. With at least one, only members may submit jobs.
    pub accounts: Vec<Account>,
    pub qos: Vec<Qos>,
}

/// What becomes of accounts and QOS that are not as the file says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountsMode {
    /// They are made so, and what the file does not have is removed.
    Manage,
    /// What is missing is added; nothing else is changed.
    #[default]
    Add,
    /// Nothing is done.
    Off,
}

impl Accounts {
    /// Slurm refuses jobs of users without an account.
    pub fn enforced(&self) -> bool {
        self.mode != AccountsMode::Off && !self.accounts.is_empty()
    }

    /// Of a user's jobs that name none.
    pub fn default_of<'a>(&'a self, user: &str, users: &'a [User]) -> Option<&'a str> {
        let named = users.iter().find(|known| known.name == user).and_then(|user| user.account.as_deref());
        let has = |account: &&Account| account.members.iter().any(|member| member.user == user);
        named.or_else(|| self.accounts.iter().find(has).map(|account| account.name.as_str()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    pub name: String,
    /// Another account, or Slurm's `root`.
    pub parent: String,
    pub description: String,
    pub organisation: String,
    #[serde(flatten)]
    pub settings: AssociationSettings,
    /// By name.
    pub members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Member {
    pub user: String,
    #[serde(flatten)]
    pub settings: AssociationSettings,
}

/// What Slurm keeps for an account or for a user in it. `None`: the account above decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AssociationSettings {
    /// A number or `parent`; `None`: 1.
    pub fairshare: Option<String>,
    pub qos: Option<Vec<String>>,
    pub default_qos: Option<String>,
    /// By names of [`crate::slurm_limits`], in their canonical form.
    pub limits: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Qos {
    pub name: String,
    /// `None`: left as it is.
    pub description: Option<String>,
    pub priority: u32,
    pub flags: Vec<String>,
    pub preempt: Vec<String>,
    /// `None`: slurm.conf decides.
    pub preempt_mode: Option<String>,
    /// Seconds.
    pub grace_time: u32,
    /// With six decimals; `None`: 1.
    pub usage_factor: Option<String>,
    /// By names of [`crate::slurm_limits`], in their canonical form.
    pub limits: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Partition {
    pub name: String,
    /// Names of compute groups.
    pub groups: Vec<String>,
    pub default: bool,
    /// In slurm.conf's format, e.g. `1-00:00:00`.
    pub max_time: Option<String>,
    /// The QOS whose limits hold for all its jobs together with their own.
    pub qos: Option<String>,
    /// `None`: all.
    pub allow_accounts: Option<Vec<String>>,
    /// `None`: all.
    pub allow_qos: Option<Vec<String>>,
    /// Extra parameters of the `PartitionName` line, in slurm.conf's own words.
    pub config: BTreeMap<String, String>,
}

impl Partition {
    /// The tier that the file gives it: jobs of a higher one go first, whatever their priority. `Priority` sets it too.
    pub fn priority_tier(&self) -> Option<u64> {
        let value = |name: &str| self.config.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        value("Priority").or_else(|| value("PriorityTier")).and_then(|(_, tier)| tier.parse().ok())
    }

    /// What the file gives its jobs towards their priority. `Priority` sets it too.
    pub fn priority_factor(&self) -> Option<u64> {
        let value = |name: &str| self.config.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        value("Priority").or_else(|| value("PriorityJobFactor")).and_then(|(_, factor)| factor.parse().ok())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RebuildPartition {
    pub name: String,
    pub groups: Vec<String>,
    pub max_time: Duration,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SlurmSpec {
    /// Parameters for slurm.conf that are set over Kiln's own.
    pub config: BTreeMap<String, ConfigValue>,
    /// Parameters for slurmdbd.conf beside Kiln's own.
    pub slurmdbd_config: BTreeMap<String, String>,
}

impl SlurmSpec {
    /// Whether jobs may be ended, suspended or requeued for others.
    pub fn preempts(&self) -> bool {
        let set = self.config.iter().find(|(key, _)| key.eq_ignore_ascii_case("PreemptType"));
        matches!(set, Some((_, ConfigValue::Set(kind))) if !kind.eq_ignore_ascii_case("preempt/none"))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ConfigValue {
    Set(String),
    /// Joined with commas.
    List(Vec<String>),
    /// `false` in the file: Kiln's own line is left out.
    Removed,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct User {
    pub name: String,
    pub uid: u32,
    /// Supplementary groups; one that the nodes do not have is made.
    pub groups: Vec<String>,
    /// Lines for `authorized_keys`.
    pub ssh_keys: Vec<String>,
    pub shell: String,
    /// May become root with sudo on every node.
    pub sudo: bool,
    /// Of jobs that name none.
    pub account: Option<String>,
}

/// A group that users are in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserGroup {
    pub name: String,
    pub gid: u32,
    /// The gid stands in the file. One that does not is for groups that the nodes' system does not have.
    pub given: bool,
}

/// What a site adds to the nodes of a role.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Roles {
    pub control: Extras,
    pub login: Extras,
    pub compute: Extras,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Extras {
    /// Packages, installed at image build.
    pub packages: Vec<String>,
    pub files: Vec<ExtraFile>,
    /// Run by `kiln node apply`, after everything else, whenever the list or a file of it changed.
    pub commands: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExtraFile {
    pub path: String,
    pub content: String,
    pub mode: u32,
    pub owner: String,
    pub group: String,
}

impl Roles {
    pub fn of(&self, role: Role) -> &Extras {
        match role {
            Role::Control => &self.control,
            Role::Login => &self.login,
            Role::Compute => &self.compute,
        }
    }
}

/// One node, with its group's settings and its own overrides merged.
#[derive(Debug, Clone, PartialEq)]
pub struct Node<'a> {
    pub name: &'a str,
    pub role: Role,
    /// `control` for the control node.
    pub group: &'a str,
    pub flavor: &'a str,
    pub image: &'a str,
    pub features: &'a [String],
    pub image_update: ImageUpdate,
    pub address: Option<IpAddr>,
    /// Where it should be, if that is said.
    pub zone: Option<&'a str>,
    /// Slurm powers it up and down.
    pub elastic: bool,
}

impl Spec {
    /// Every node of the cluster: control, then login, then compute, in the order of the file.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let control = Node {
            name: &self.control.node,
            role: Role::Control,
            group: "control",
            flavor: &self.control.flavor,
            image: &self.control.image,
            features: &[],
            image_update: ImageUpdate::Apply,
            address: None,
            zone: None,
            elastic: false,
        };
        std::iter::once(control).chain(self.login.iter().chain(&self.compute).flat_map(Group::members))
    }

    pub fn node(&self, name: &str) -> Option<Node<'_>> {
        self.nodes().find(|n| n.name == name)
    }

    pub fn compute_group(&self, name: &str) -> Option<&Group> {
        self.compute.iter().find(|g| g.name == name)
    }
}

impl Group {
    /// The extra parameters of a node's `NodeName` line. Slurm takes a parameter in any case.
    pub fn node_config(&self, node: &str) -> BTreeMap<String, String> {
        let own = self.overrides.get(node).and_then(|own| own.node_config.as_ref());
        let is_own = |key: &str| own.is_some_and(|own| own.keys().any(|k| k.eq_ignore_ascii_case(key)));
        let of_group = self.node_config.iter().filter(|(key, _)| !is_own(key));
        of_group.chain(own.into_iter().flatten()).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The group's nodes with their overrides merged.
    pub fn members(&self) -> impl Iterator<Item = Node<'_>> {
        self.nodes.iter().map(move |name| {
            let own = self.overrides.get(name);
            Node {
                name,
                role: self.role,
                group: &self.name,
                flavor: own.and_then(|o| o.flavor.as_deref()).unwrap_or(&self.flavor),
                image: own.and_then(|o| o.image.as_deref()).unwrap_or(&self.image),
                features: own.and_then(|o| o.features.as_deref()).unwrap_or(&self.features),
                image_update: self.image_update,
                address: own.and_then(|o| o.address),
                zone: self.zones.first().map(String::as_str),
                elastic: self.elastic.is_some(),
            }
        })
    }
}
