//! `[cloud]`: where the cluster runs. Each kind of cloud has a file here with its checks, its part of the spec and its
//! facts; the list below is all that names them.

mod facts;
mod local;
mod openstack;

use std::ops::Range;

use ipnet::Ipv4Net;
use serde::Serialize;

pub use facts::{CloudFacts, CloudHints};
pub use local::LocalSpec;
pub use openstack::{OpenStackSpec, RootDiskSpec};

use crate::diagnostic::Findings;
use crate::words::and_list;
use crate::written::table::table;
use crate::written::{At, Choice, List, Text};
use openstack::{RootDiskTable, ServerGroupPolicy};

/// Makes what is needed of each kind of cloud from the one list of them.
macro_rules! clouds {
    ($($variant:ident($module:ident), $spec:ident;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum CloudKind {
            $($variant,)*
        }

        impl Choice for CloudKind {
            const WORDS: &'static [(&'static str, Self)] = &[$(($module::FACTS.kind, CloudKind::$variant)),*];
        }

        impl CloudKind {
            const ALL: &'static [CloudKind] = &[$(CloudKind::$variant),*];

            pub fn facts(self) -> &'static CloudFacts {
                match self {
                    $(CloudKind::$variant => &$module::FACTS,)*
                }
            }

            /// The keys that only this kind has.
            fn keys(self) -> &'static [&'static str] {
                match self {
                    $(CloudKind::$variant => $module::KEYS,)*
                }
            }

            /// The keys that only this kind has, where the file has them.
            fn written(self, table: &CloudTable) -> Vec<(&'static str, Range<usize>)> {
                match self {
                    $(CloudKind::$variant => $module::written(table),)*
                }
            }
        }

        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        pub enum CloudSpec {
            $($variant(Box<$spec>),)*
        }

        impl CloudSpec {
            pub fn facts(&self) -> &'static CloudFacts {
                match self {
                    $(CloudSpec::$variant(_) => &$module::FACTS,)*
                }
            }

            /// The subnet the file asks for, of whatever network.
            pub fn subnet(&self) -> Option<Ipv4Net> {
                match self {
                    $(CloudSpec::$variant(spec) => spec.subnet(),)*
                }
            }

            /// A network that exists and is not Kiln's to make or delete.
            pub fn existing_network(&self) -> Option<&str> {
                match self {
                    $(CloudSpec::$variant(spec) => spec.existing_network(),)*
                }
            }

            fn validate(
                kind: CloudKind,
                table: &CloudTable,
                subnet: Option<Ipv4Net>,
                findings: &mut Findings<'_>,
            ) -> CloudSpec {
                match kind {
                    $(CloudKind::$variant => {
                        CloudSpec::$variant(Box::new($spec::validate(table, subnet, findings)))
                    })*
                }
            }
        }
    };
}

clouds! {
    Local(local), LocalSpec;
    OpenStack(openstack), OpenStackSpec;
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

impl CloudTable {
    /// `None`: its absence was reported.
    pub fn facts(&self) -> Option<&'static CloudFacts> {
        self.kind.as_ref().map(|kind| kind.value.facts())
    }
}

pub(crate) fn validate(
    table: &CloudTable,
    subnet: Option<Ipv4Net>,
    findings: &mut Findings<'_>,
) -> CloudSpec {
    let Some(kind) = table.kind.as_ref().map(|kind| kind.value) else {
        // Its absence was reported; which keys would go with it cannot be known.
        return CloudSpec::Local(Box::new(LocalSpec { subnet }));
    };
    reject_others(kind, table, findings);
    CloudSpec::validate(kind, table, subnet, findings)
}

/// All keys that this kind of cloud has.
fn known(kind: CloudKind) -> Vec<&'static str> {
    ["kind", "subnet"].iter().chain(kind.keys()).copied().collect()
}

/// Keys that this kind of cloud has no use for.
fn reject_others(kind: CloudKind, table: &CloudTable, findings: &mut Findings<'_>) {
    let own = kind.written(table);
    for other in CloudKind::ALL.iter().filter(|other| **other != kind) {
        for (key, span) in other.written(table) {
            if own.iter().any(|(own, _)| *own == key) {
                continue;
            }
            let message = format!("the {} cloud has no `{key}`", kind.facts().kind);
            (findings.error("wrong-cloud", span, message))
                .expected(format!("keys of this cloud: {}", and_list(&known(kind))))
                .hint(format!("these belong to kind = \"{}\"", other.facts().kind));
        }
    }
}
