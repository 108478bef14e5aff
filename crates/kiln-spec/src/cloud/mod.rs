//! `[cloud]`: where the cluster runs. Each kind of cloud has a file here with its keys, its checks, its part of the spec
//! and its facts; the list below is all that names them.

mod facts;
mod local;
mod networks;
mod oci;
mod openstack;
mod written;

use ipnet::Ipv4Net;
use serde::Serialize;

pub use facts::{CloudFacts, CloudHints};
pub use local::LocalSpec;
pub use oci::OciSpec;
pub use openstack::{OpenStackSpec, RootDiskSpec};

pub(crate) use networks::ipv4_net;
pub(crate) use written::CloudTable;

use crate::diagnostic::Findings;
use crate::written::{Choice, Key, Reader, Source, Text, Written as _};
use local::LocalTable;
use oci::OciTable;
use openstack::OpenStackTable;

/// Makes what is needed of each kind of cloud from the one list of them.
macro_rules! clouds {
    ($($variant:ident($module:ident), $table:ident, $spec:ident;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum CloudKind {
            $($variant,)*
        }

        impl Choice for CloudKind {
            const WORDS: &'static [(&'static str, Self)] = &[$(($module::FACTS.kind, CloudKind::$variant)),*];

            fn meant(written: &str) -> Option<&'static str> {
                let written = written.to_lowercase();
                [$(&$module::FACTS),*].iter().find(|facts| facts.also.contains(&&*written)).map(|facts| facts.kind)
            }
        }

        impl CloudKind {
            const ALL: &'static [CloudKind] = &[$(CloudKind::$variant),*];

            pub fn facts(self) -> &'static CloudFacts {
                match self {
                    $(CloudKind::$variant => &$module::FACTS,)*
                }
            }

            /// The names of the keys that not every kind has.
            fn names(self) -> &'static [&'static str] {
                match self {
                    $(CloudKind::$variant => $table::KEYS,)*
                }
            }

            fn keys(self) -> Vec<Key> {
                match self {
                    $(CloudKind::$variant => $table::keys(),)*
                }
            }

            fn read(
                self,
                source: &Source<'_>,
                entries: &[(Text, Source<'_>)],
                reader: &mut Reader<'_, '_>,
            ) -> OwnTable {
                match self {
                    $(CloudKind::$variant => OwnTable::$variant(Box::new($table::of_entries(
                        source,
                        entries,
                        $table::KEYS,
                        reader,
                    ))),)*
                }
            }
        }

        /// What the file says in keys that not every kind has.
        #[derive(Debug)]
        enum OwnTable {
            $($variant(Box<$table>),)*
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

            /// The networks from which SSH is allowed to what everyone else may reach.
            pub fn ssh_from(&self) -> Vec<Ipv4Net> {
                let networks = match self {
                    $(CloudSpec::$variant(spec) => spec.ssh_from(),)*
                };
                if networks.is_empty() { vec![Ipv4Net::default()] } else { networks.to_vec() }
            }

            fn validate(
                table: &CloudTable,
                own: &OwnTable,
                subnet: Option<Ipv4Net>,
                findings: &mut Findings<'_>,
            ) -> CloudSpec {
                match own {
                    $(OwnTable::$variant(own) => {
                        CloudSpec::$variant(Box::new($spec::validate(table, own, subnet, findings)))
                    })*
                }
            }
        }
    };
}

clouds! {
    Local(local), LocalTable, LocalSpec;
    OpenStack(openstack), OpenStackTable, OpenStackSpec;
    Oci(oci), OciTable, OciSpec;
}

pub(crate) fn validate(
    table: &CloudTable,
    subnet: Option<Ipv4Net>,
    findings: &mut Findings<'_>,
) -> CloudSpec {
    match &table.own {
        Some(own) => CloudSpec::validate(table, own, subnet, findings),
        // The kind is missing or wrong, which was reported.
        None => CloudSpec::Local(Box::new(LocalSpec { subnet })),
    }
}
