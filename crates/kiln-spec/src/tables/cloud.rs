//! `[cloud]`: where the cluster runs.

use crate::written::table::table;
use crate::written::{At, Choice, List, Text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloudKind {
    Local,
    OpenStack,
}

impl Choice for CloudKind {
    const WORDS: &'static [(&'static str, Self)] =
        &[("local", CloudKind::Local), ("openstack", CloudKind::OpenStack)];
}

table! {
    /// Where the cluster runs.
    CloudTable {
        /// The kind of cloud: `local` boots the nodes on this machine, `openstack` uses a project of an OpenStack cloud.
        "kind" => kind: At<CloudKind>, required;
        /// Private IPv4 network of the nodes, /16 to /28, e.g. `10.213.7.0/24`. It is read when the network is created.
        /// OpenStack: without `network`, Kiln creates a network with this subnet; with it, this chooses one of its subnets.
        "subnet" => subnet: Text, otherwise "on `local` a free /24 of 10.213.0.0/16";
        /// OpenStack: an entry of `clouds.yaml`.
        "cloud" => cloud: Text, otherwise "`OS_CLOUD`, or the other `OS_*` variables";
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
