//! Images, what they are built from, and where packages come from.

use std::time::Duration;

use serde::Serialize;

use super::{ExtraFile, Role};
use crate::{ImageProperties, Software, System};

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
    /// What packages come from, those of the sets of software too: names of [`crate::Spec::sources`], and [`SYSTEM_SOURCES`].
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
    /// Name of one of [`crate::Spec::software`].
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
    /// Names of [`crate::Spec::sources`], and [`SYSTEM_SOURCES`].
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
