//! `kind = "openstack"`: a project of an OpenStack cloud.

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::networks::{check_subnet, ssh_from};
use super::{CloudFacts, CloudHints, CloudTable};
use crate::diagnostic::Findings;
use crate::units::size_gib;
use crate::validate::names;
use crate::words::and_list;
use crate::written::table::table;
use crate::written::{At, Choice, List, Text};

pub(super) const FACTS: CloudFacts = CloudFacts {
    kind: "openstack",
    also: &[],
    shares_volumes: false,
    has_file_storage: false,
    delegates_cgroups: true,
    has_kernels: true,
    signs_as_instance: false,
    makes_source_images: false,
    smallest_volume_gib: 1,
    hints: CloudHints {
        flavors: Some("set `flavor` for [control] and for each group; `openstack flavor list` shows them"),
        networks: Some("`openstack network list` shows them; with `subnet` alone Kiln makes one"),
        images: Some(
            "`openstack image list` shows them; one that another project shares has to be accepted first, with \
             `openstack image set --accept ID`",
        ),
        source: Some("`openstack image list` shows them; `prebuilt = \"...\"` uses one as it is"),
    },
};

table! {
    /// A project of an OpenStack cloud.
    OpenStackTable {
        /// OpenStack: an entry of `clouds.yaml`.
        "cloud" => cloud: Text, otherwise "`OS_CLOUD`, or the other `OS_*` variables";
        /// OpenStack: an entry of `clouds.yaml` with an application credential that the control node logs in with. Kiln neither creates nor deletes it.
        "control_credential" => control_credential: Text, otherwise "Kiln creates one for the cluster";
        /// OpenStack: the region.
        "region" => region: Text, otherwise "the region of `clouds.yaml`, or the only one";
        /// OpenStack: name of an existing network for the nodes. Kiln creates ports in it and changes nothing else.
        "network" => network: Text;
        /// OpenStack: name of an external network. Login nodes get floating IPs from it, and Kiln's own network gets a router to it.
        "external_network" => external_network: Text;
        /// OpenStack: name of an existing key pair.
        "key_pair" => key_pair: Text, otherwise "Kiln creates one from the cluster's key";
        /// OpenStack: availability zone of nodes and volumes.
        "availability_zone" => availability_zone: Text, otherwise "the cloud decides";
        /// OpenStack: root disks are volumes, e.g. `{ size = "20 GiB", type = "ssd" }`.
        "root_disk" => root_disk: RootDiskTable, otherwise "root disks are on the hypervisor";
        /// OpenStack: policy of the server group that each group of nodes gets.
        "server_group" => server_group: At<ServerGroupPolicy>, otherwise "no server groups";
        /// OpenStack: names of existing security groups for every node, in addition to Kiln's own.
        "security_groups" => security_groups: List<Text>, empty;
        /// OpenStack: IPv4 networks from which SSH to login nodes is allowed, e.g. `["192.0.2.0/24"]`. The deploy host must be in one of them: Kiln uses the same way, also to build images.
        "ssh_from" => ssh_from: List<Text>, otherwise "everywhere";
    }
}

table! {
    /// A root disk that is a volume.
    RootDiskTable {
        /// Size, e.g. `20 GiB`.
        "size" => size: Text, required;
        /// Volume type.
        "type" => volume_type: Text, otherwise "the cloud's default type";
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerGroupPolicy {
    Affinity,
    AntiAffinity,
    SoftAffinity,
    SoftAntiAffinity,
}

impl Choice for ServerGroupPolicy {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("affinity", ServerGroupPolicy::Affinity),
        ("anti-affinity", ServerGroupPolicy::AntiAffinity),
        ("soft-affinity", ServerGroupPolicy::SoftAffinity),
        ("soft-anti-affinity", ServerGroupPolicy::SoftAntiAffinity),
    ];
}

/// A project of an OpenStack cloud, as the file describes it. The driver takes it as it is, and it travels to the control
/// node. All of it applies to all instances of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenStackSpec {
    /// Entry of `clouds.yaml`; `None`: `OS_CLOUD`, or the other `OS_*` variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud: Option<String>,
    /// Entry of `clouds.yaml` that the control node logs in with; `None`: Kiln makes a credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_credential: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Name of a network that exists; `None`: Kiln makes one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The subnet of Kiln's own network, or which one to use of a network that has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<Ipv4Net>,
    /// Floating IPs of login nodes come from here, and the cluster's own network is connected to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_network: Option<String>,
    /// Name of a key pair that exists; `None`: Kiln makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_pair: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Root disks are volumes of this kind; `None`: they are on the hypervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_disk: Option<RootDiskSpec>,
    /// Policy of the server group that the nodes of a group are in: `anti-affinity`, `soft-affinity`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_group: Option<String>,
    /// Names of security groups that exist, for all instances, beside Kiln's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
    /// Who may connect to login nodes with SSH; empty: everyone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ssh_from: Vec<Ipv4Net>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootDiskSpec {
    pub size_gib: u64,
    /// Volume type; `None`: the cloud's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
}

impl OpenStackSpec {
    pub(super) fn validate(
        cloud: &CloudTable,
        table: &OpenStackTable,
        subnet: Option<Ipv4Net>,
        findings: &mut Findings<'_>,
    ) -> OpenStackSpec {
        let mut text = |what: &str, text: &Option<Text>| {
            let text = text.as_ref()?;
            names::check_one_line(&format!("`{what}`"), text, findings);
            Some(text.value.clone())
        };
        let spec = OpenStackSpec {
            cloud: text("cloud", &table.cloud),
            control_credential: text("control_credential", &table.control_credential),
            region: text("region", &table.region),
            external_network: text("external_network", &table.external_network),
            key_pair: text("key_pair", &table.key_pair),
            availability_zone: text("availability_zone", &table.availability_zone),
            network: text("network", &table.network),
            subnet,
            root_disk: table.root_disk.as_ref().and_then(|table| root_disk(table, findings)),
            server_group: table.server_group.as_ref().map(|policy| word(policy.value).to_owned()),
            security_groups: security_groups(table, findings),
            ssh_from: table.ssh_from.as_ref().map(|list| ssh_from(list, findings)).unwrap_or_default(),
        };
        if table.network.is_none() {
            check_subnet(cloud, "one that exists", findings);
        }
        spec
    }

    /// Which subnet to use of a network that exists.
    pub fn chosen_subnet(&self) -> Option<Ipv4Net> {
        self.network.as_ref().and(self.subnet)
    }

    pub(super) fn subnet(&self) -> Option<Ipv4Net> {
        self.subnet
    }

    pub(super) fn existing_network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    pub(super) fn ssh_from(&self) -> &[Ipv4Net] {
        &self.ssh_from
    }
}

fn root_disk(table: &RootDiskTable, findings: &mut Findings<'_>) -> Option<RootDiskSpec> {
    let size = table.size.as_ref()?;
    let volume_type = table.volume_type.as_ref().map(|text| {
        names::check_one_line("`type`", text, findings);
        text.value.clone()
    });
    match size_gib(&size.value) {
        Ok(size_gib) => Some(RootDiskSpec { size_gib, volume_type }),
        Err(expected) => {
            let message = format!("`{}` is not the size of a disk", size.value);
            findings.error("bad-size", size.span.clone(), message).expected(expected);
            None
        }
    }
}

fn word(policy: ServerGroupPolicy) -> &'static str {
    match policy {
        ServerGroupPolicy::Affinity => "affinity",
        ServerGroupPolicy::AntiAffinity => "anti-affinity",
        ServerGroupPolicy::SoftAffinity => "soft-affinity",
        ServerGroupPolicy::SoftAntiAffinity => "soft-anti-affinity",
    }
}

fn security_groups(table: &OpenStackTable, findings: &mut Findings<'_>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in &table.security_groups.value {
        names::check_one_line("a security group", text, findings);
        if all.contains(&text.value) {
            let message = format!("{} is listed twice", and_list(&[&text.value]));
            findings.error("duplicate", text.span.clone(), message).expected("each once");
        }
        all.push(text.value.clone());
    }
    all
}
