//! A bundle: everything one node needs to become its role, as plain data. `kiln-node` applies it; the
//! order of the resources is the order in which they are applied.

use std::fmt;

use kiln_slurm::accounts::Wanted;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::format::{Format, Version};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    #[serde(default)]
    pub format: Version<1>,
    pub cluster: String,
    pub node: String,
    pub role: String,
    /// The SHA-256 of the `kiln` that this bundle is for. Only in a sealed bundle: it is not part of what configures the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kiln: Option<String>,
    pub resources: Vec<Resource>,
}

impl Format for Bundle {
    const NAME: &'static str = "bundle";
    const VERSION: u32 = 1;
}

impl Bundle {
    /// Names the content: two bundles with the same digest configure a node alike.
    pub fn digest(&self) -> String {
        let json = self.to_json().unwrap_or_default();
        hex::encode(Sha256::digest(json))
    }
}

/// In `needs`: whatever went before, all of it.
pub const EVERYTHING: &str = "*";

/// `id()` of a resource is what others name in `restart_on`, `when_changed` and `needs`, and what reports show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Resource {
    Group(Group),
    User(User),
    Directory(Directory),
    File(File),
    Link(Link),
    Mount(Mount),
    Command(Command),
    Service(Service),
    Accounts(Accounts),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    /// `None`: a system group, if it is missing.
    pub gid: Option<u32>,
    pub system: bool,
}

/// A login user: its home is made if it is missing, never removed. Or a service's, of which only the numbers count once
/// it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<String>,
    pub home: String,
    pub shell: String,
    /// Make the home directory here. Only one node of those that share it does.
    pub make_home: bool,
    /// It is a service's.
    #[serde(default)]
    pub system: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    pub path: String,
    pub mode: u32,
    pub owner: String,
    pub group: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub path: String,
    pub content: String,
    pub mode: u32,
    pub owner: String,
    pub group: String,
    /// Never shown in a diff or a log.
    pub secret: bool,
    /// The content is base64 of the bytes to write.
    pub base64: bool,
    /// A program that must accept the new content before it replaces the old; `{}` stands for a file that holds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
    /// Ids of resources: when one of them failed, this one is left as it is, and owes what it owes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub path: String,
    pub target: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub target: String,
    pub source: MountSource,
    pub read_only: bool,
    /// Make a file system on a device that is empty: only where Kiln created the volume.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub format: bool,
    /// Users have quotas there: only where Kiln has made the file system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quota: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountSource {
    /// A volume of the cloud, by name. A directory below `/mnt/volumes` on the local cloud; a block device elsewhere.
    Volume(String),
    /// `SERVER:/PATH`
    Nfs(String),
    /// The same, from a server that speaks version 3 of NFS alone.
    Nfs3(String),
    /// Whatever `mount` can mount.
    Site(SiteMount),
}

/// A file system of the site, as the mount table has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteMount {
    pub source: String,
    /// Type of the file system.
    pub kind: String,
    pub options: String,
    /// Mounted when it is first used.
    pub automount: bool,
    /// It is an error that it cannot be mounted.
    pub required: bool,
}

impl Mount {
    /// Resources that come later write below its target.
    pub fn is_written_to(&self) -> bool {
        !matches!(self.source, MountSource::Site(_)) || self.target == "/home"
    }
}

/// Runs when one of the resources in `when_changed` changed in this run, or when `unless` fails.
/// With neither, it runs every time. No shell: `argv` is executed as it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub name: String,
    pub argv: Vec<String>,
    /// Given on standard input; may hold secrets, so it is never shown.
    pub stdin: Option<String>,
    pub unless: Option<Vec<String>>,
    pub when_changed: Vec<String>,
    /// Try again until it succeeds or this many seconds have passed.
    pub retry_seconds: u64,
    /// Ids of resources: when one of them failed, this one is left as it is, and owes what it owes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// With its suffix: `slurmd.service`.
    pub unit: String,
    pub enabled: bool,
    pub running: bool,
    /// Ids of resources; a change of one of them restarts the unit.
    pub restart_on: Vec<String>,
    /// Ids of resources; a change of one of them reloads the unit, if it was not restarted.
    pub reload_on: Vec<String>,
    /// Ids of resources: when one of them failed, this one is left as it is, and owes what it owes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// Slurm's accounts, limits and QOS, which slurmdbd keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts {
    pub name: String,
    pub wanted: Wanted,
    /// Limits of resources that slurmdbd has not yet heard of are left out: slurmctld tells it when it starts.
    pub known_resources: bool,
    /// How long slurmdbd may be away, in seconds.
    pub patience: u64,
}

// Not derived, here and below, so that secrets find no way into a log.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path)
            .field("content", if self.secret { &"(secret)" } else { &self.content })
            .field("mode", &self.mode)
            .field("owner", &self.owner)
            .field("group", &self.group)
            .field("secret", &self.secret)
            .field("base64", &self.base64)
            .field("check", &self.check)
            .field("needs", &self.needs)
            .finish()
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("name", &self.name)
            .field("argv", &self.argv)
            .field("stdin", &self.stdin.as_ref().map(|_| "(secret)"))
            .field("unless", &self.unless)
            .field("when_changed", &self.when_changed)
            .field("retry_seconds", &self.retry_seconds)
            .field("needs", &self.needs)
            .finish()
    }
}

impl Resource {
    /// `file:/etc/hosts`, `service:slurmd.service`: unique within a bundle.
    pub fn id(&self) -> String {
        match self {
            Resource::Group(r) => format!("group:{}", r.name),
            Resource::User(r) => format!("user:{}", r.name),
            Resource::Directory(r) => format!("directory:{}", r.path),
            Resource::File(r) => format!("file:{}", r.path),
            Resource::Link(r) => format!("link:{}", r.path),
            Resource::Mount(r) => format!("mount:{}", r.target),
            Resource::Command(r) => format!("command:{}", r.name),
            Resource::Service(r) => format!("service:{}", r.unit),
            Resource::Accounts(r) => format!("accounts:{}", r.name),
        }
    }

    /// A unit, or a part of one, that can be written before anything else of a bundle.
    pub fn is_unit_file(&self) -> bool {
        matches!(self, Resource::File(file) if is_unit_path(&file.path) && file.owner == "root" && file.needs.is_empty())
    }
}

/// systemd must be told of a change of this path.
pub fn is_unit_path(path: &str) -> bool {
    ["/etc", "/usr/lib", "/lib", "/usr/local/lib", "/run"]
        .iter()
        .filter_map(|top| path.strip_prefix(top))
        .any(|rest| rest.starts_with("/systemd/system/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make::{command, directory, file, service};

    #[test]
    fn unit_files() {
        for path in ["/etc/systemd/system/slurmd.service.d/kiln.conf", "/usr/lib/systemd/system/x.timer"] {
            assert!(is_unit_path(path), "{path}");
        }
        // Read by journald itself; of a user; of nobody.
        for path in
            ["/etc/systemd/journald.conf.d/kiln.conf", "/etc/systemd/user/x.service", "/systemd/system/x"]
        {
            assert!(!is_unit_path(path), "{path}");
        }
        let unit = file("/etc/systemd/system/x.service", "");
        assert!(Resource::File(unit.clone()).is_unit_file());
        assert!(!Resource::File(unit.clone().needs("mount:/home")).is_unit_file());
        assert!(!Resource::File(unit.owned_by("grafana", 0o600)).is_unit_file());
    }

    #[test]
    fn what_is_written_is_read_and_not_shown() {
        let mount = Mount {
            target: "/home".into(),
            source: MountSource::Nfs("control:/home".into()),
            read_only: false,
            format: false,
            quota: false,
        };
        let mut grant = command("grant", &["mariadb"]).unless(&["false"]).needs(EVERYTHING);
        grant.stdin = Some("s3cret".into());
        let accounts = Accounts {
            name: "demo".into(),
            wanted: Wanted {
                cluster: "demo".into(),
                manage: true,
                qos: Vec::new(),
                accounts: Vec::new(),
                members: Vec::new(),
            },
            known_resources: true,
            patience: 1,
        };
        let bundle = Bundle {
            kiln: None,
            format: Version,
            cluster: "demo".into(),
            node: "c1".into(),
            role: "compute".into(),
            resources: vec![
                directory("/etc/x", "root", 0o755),
                Resource::File(file("/etc/x/key", "s3cret").owned_by("slurm", 0o600).secret()),
                Resource::Mount(mount),
                Resource::Command(grant),
                Resource::Service(service("slurmd.service", &["file:/etc/x/key"])),
                Resource::Accounts(accounts),
            ],
        };
        assert_eq!(Bundle::from_json(&bundle.to_json().unwrap()), Ok(bundle.clone()));
        assert!(!format!("{bundle:?}").contains("s3cret"));
        let before_versions = br#"{"cluster":"demo","node":"c1","role":"compute","resources":[]}"#;
        assert_eq!(Bundle::from_json(before_versions).unwrap().node, "c1");
    }
}
