//! The services' words, as far as Kiln reads them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::labels;
use crate::{Instance, InstanceStatus, Labels, Volume, VolumeStatus};

#[derive(Debug, Deserialize)]
pub struct Server {
    pub id: String,
    #[serde(default)]
    pub name: String,
    pub status: String,
    #[serde(rename = "OS-EXT-STS:task_state", default)]
    pub task: Option<String>,
    /// An object, or an empty string where the root disk is a volume.
    #[serde(default)]
    image: serde_json::Value,
    #[serde(default)]
    flavor: ServerFlavor,
    #[serde(default)]
    addresses: BTreeMap<String, Vec<Address>>,
    #[serde(default)]
    pub metadata: Labels,
    #[serde(default)]
    fault: Option<Fault>,
    created: Timestamp,
    #[serde(rename = "OS-SRV-USG:launched_at", default, deserialize_with = "utc")]
    launched: Option<Timestamp>,
    #[serde(rename = "os-extended-volumes:volumes_attached", default)]
    pub volumes: Vec<Id>,
}

#[derive(Debug, Default, Deserialize)]
struct ServerFlavor {
    #[serde(default)]
    original_name: String,
}

#[derive(Debug, Deserialize)]
struct Address {
    addr: IpAddr,
    #[serde(rename = "OS-EXT-IPS:type", default)]
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Fault {
    message: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Id {
    pub id: String,
}

#[derive(Debug, Deserialize)]
pub struct NamedId {
    pub id: String,
    pub name: String,
}

/// Nova writes some times without saying that they are UTC.
fn utc<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| {
        let zoned = if text.ends_with('Z') { text } else { format!("{text}Z") };
        zoned.parse().ok()
    }))
}

impl Server {
    /// All that Nova says of a server whose cell does not answer: that there is one.
    pub fn is_out_of_reach(&self) -> bool {
        self.status == "UNKNOWN" && self.metadata.is_empty()
    }

    pub fn is_on_volume(&self) -> bool {
        self.image.get("id").is_none()
    }

    pub fn status(&self) -> InstanceStatus {
        let task = self.task.as_deref().unwrap_or_default();
        match self.status.as_str() {
            _ if task == "deleting" || task == "soft-deleting" => InstanceStatus::Deleting,
            "DELETED" | "SOFT_DELETED" => InstanceStatus::Deleting,
            "BUILD" => InstanceStatus::Building,
            "REBUILD" => InstanceStatus::Rebuilding,
            "ERROR" => InstanceStatus::Error { reason: self.reason() },
            // On its way up again.
            _ if task == "powering-on" => InstanceStatus::Building,
            "SHUTOFF" | "STOPPED" => InstanceStatus::Stopped,
            "SHELVED_OFFLOADED" => InstanceStatus::Held { how: "shelved".into() },
            "PAUSED" | "SUSPENDED" | "SHELVED" | "RESCUE" => {
                InstanceStatus::Held { how: self.status.to_lowercase() }
            }
            "UNKNOWN" => InstanceStatus::Error { reason: "its hypervisor does not answer".into() },
            _ if task.starts_with("rebuild") => InstanceStatus::Rebuilding,
            // ACTIVE, and what a running server goes through: REBOOT, MIGRATING, RESIZE, ...
            _ => InstanceStatus::Active,
        }
    }

    fn reason(&self) -> String {
        let words = self.fault.as_ref().map(|f| f.message.trim()).unwrap_or_default();
        if words.is_empty() { "the cloud gives no reason".into() } else { words.to_string() }
    }

    fn address(&self, floating: bool) -> Option<IpAddr> {
        let is_floating = |a: &&Address| (a.kind.as_deref() == Some("floating")) == floating;
        let all = || self.addresses.values().flatten().filter(is_floating).map(|a| a.addr);
        all().find(IpAddr::is_ipv4).or_else(|| all().next())
    }

    pub fn instance(self) -> Instance {
        let image = self.image.get("id").and_then(|id| id.as_str()).map(String::from);
        Instance {
            status: self.status(),
            // Nova does not say what a root volume was made from; Kiln noted it.
            image: image.or_else(|| self.metadata.get(kiln_wire::labels::IMAGE).cloned()),
            address: self.address(false),
            public_address: self.address(true),
            flavor: self.flavor.original_name,
            volumes: self.volumes.into_iter().map(|v| v.id).collect(),
            created: self.created,
            built: self.launched,
            id: self.id,
            name: self.name,
            labels: self.metadata,
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct WireVolume {
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
    pub size: u64,
    pub status: String,
    #[serde(default)]
    pub snapshot_id: Option<String>,
    #[serde(default)]
    pub metadata: Labels,
    #[serde(default)]
    attachments: Vec<VolumeAttachment>,
}

#[derive(Debug, Deserialize)]
struct VolumeAttachment {
    server_id: String,
}

impl WireVolume {
    pub fn volume(self) -> Volume {
        Volume {
            id: self.id,
            name: self.name.unwrap_or_default(),
            size_gib: self.size,
            labels: self.metadata,
            attached_to: self.attachments.into_iter().map(|a| a.server_id).collect(),
            status: match self.status.as_str() {
                "creating" | "downloading" => VolumeStatus::Building,
                "error" => VolumeStatus::Error,
                // Also what one that was made goes through: attaching, backing-up, extending, ...
                _ => VolumeStatus::Usable,
            },
            served: None,
        }
    }
}

/// Anything of Neutron's that has a name and a description.
#[derive(Debug, Clone, Deserialize)]
pub struct Described {
    pub id: String,
    pub name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    /// With the project that asks.
    #[serde(default)]
    shared: Option<bool>,
    /// Of a network.
    #[serde(default, rename = "router:external")]
    external: Option<bool>,
}

impl Described {
    /// As opposed to what only an administrator is shown.
    pub fn is_for_others(&self) -> bool {
        self.shared == Some(true) || self.external == Some(true)
    }

    pub fn labels(&self) -> Labels {
        labels::with_tags(self.description.as_deref(), &self.tags)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct Port {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub device_id: String,
    #[serde(default)]
    device_owner: String,
    #[serde(default)]
    pub fixed_ips: Vec<FixedIp>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    project_id: String,
}

impl Port {
    pub fn labels(&self) -> Labels {
        labels::read(self.description.as_deref())
    }

    /// Another project may have a cluster of the same name in the same network.
    pub fn is_of(&self, cluster: &str, project: &str) -> bool {
        self.project_id == project && labels::cluster_of(&self.labels()) == Some(cluster)
    }

    /// For a person who looks for it.
    pub fn words(&self) -> String {
        match (self.name.as_str(), self.device_owner.as_str()) {
            ("", "") => format!("port {}", self.id),
            ("", owner) => format!("port {} ({owner})", self.id),
            (name, _) => format!("port {name} ({})", self.id),
        }
    }

    pub fn address(&self) -> Option<IpAddr> {
        let all = || self.fixed_ips.iter().map(|f| f.ip_address);
        all().find(IpAddr::is_ipv4).or_else(|| all().next())
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct FixedIp {
    pub ip_address: IpAddr,
    #[serde(default)]
    pub subnet_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(status: &str, task: Option<&str>, more: &str) -> Server {
        let task = task.map_or("null".into(), |t| format!("{t:?}"));
        serde_json::from_str(&format!(
            r#"{{"id":"1","name":"n","status":"{status}","OS-EXT-STS:task_state":{task},"created":"2026-11-15T06:00:00Z"{more}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn novas_states_are_understood() {
        use InstanceStatus::{Active, Building, Deleting, Held, Rebuilding, Stopped};
        let held = |how: &str| Held { how: how.into() };
        let rows = [
            ("BUILD", Some("spawning"), Building),
            ("BUILD", Some("deleting"), Deleting),
            ("ACTIVE", None, Active),
            ("ACTIVE", Some("deleting"), Deleting),
            ("ACTIVE", Some("rebuilding"), Rebuilding),
            ("REBUILD", Some("rebuild_spawning"), Rebuilding),
            ("HARD_REBOOT", Some("rebooting_hard"), Active),
            ("SHUTOFF", None, Stopped),
            ("SHUTOFF", Some("powering-on"), Building),
            ("ERROR", Some("deleting"), Deleting),
            // An administrator's doing: neither off nor broken.
            ("PAUSED", None, held("paused")),
            ("SUSPENDED", None, held("suspended")),
            ("RESCUE", None, held("rescue")),
            ("SHELVED_OFFLOADED", None, held("shelved")),
        ];
        for (status, task, expected) in rows {
            assert_eq!(server(status, task, "").status(), expected, "{status} {task:?}");
        }
    }

    /// From API version 2.69 on, Nova lists the servers of a cell that does not answer, with what it knows elsewhere.
    #[test]
    fn a_server_of_a_cell_that_is_down_is_out_of_reach() {
        let text = r#"{"created":"2018-06-29T15:07:29Z","id":"bcc6c6dd-3d0a-4633-9586-60878fd68edb","links":[],
            "status":"UNKNOWN","tenant_id":"940f47b984034c7f8f9624ab28f5643c"}"#;
        let server: Server = serde_json::from_str(text).unwrap();
        assert!(server.is_out_of_reach());
        assert!(!self::server("UNKNOWN", None, r#","metadata":{"kiln_cluster":"c"}"#).is_out_of_reach());
        assert!(!self::server("ACTIVE", None, "").is_out_of_reach());
    }

    #[test]
    fn a_fault_is_told_in_the_clouds_words() {
        let broken = server("ERROR", None, r#","fault":{"code":500,"message":"No valid host was found. "}"#);
        assert_eq!(broken.status(), InstanceStatus::Error { reason: "No valid host was found.".into() });
    }

    #[test]
    fn a_server_on_a_volume_has_the_image_kiln_noted() {
        let more = r#","image":"","metadata":{"kiln_image":"i-1"},"OS-SRV-USG:launched_at":"2026-11-15T06:00:05.000000",
            "addresses":{"net":[{"addr":"10.0.0.7","version":4,"OS-EXT-IPS:type":"fixed"},
                                {"addr":"172.24.4.9","version":4,"OS-EXT-IPS:type":"floating"}]}"#;
        let server = server("ACTIVE", None, more);
        assert!(server.is_on_volume());
        let instance = server.instance();
        assert_eq!(instance.image.as_deref(), Some("i-1"));
        assert_eq!(instance.address, Some("10.0.0.7".parse().unwrap()));
        assert_eq!(instance.reach(), Some("172.24.4.9".parse().unwrap()));
        assert_eq!(instance.built, Some("2026-11-15T06:00:05Z".parse().unwrap()));
    }
}
