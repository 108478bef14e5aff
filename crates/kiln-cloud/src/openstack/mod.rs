//! OpenStack: Keystone, Nova, Neutron, Glance and Cinder behind the [`crate::Cloud`] interface.
//!
//! A thin client of our own, not `openstack_sdk`. Kiln makes about forty different calls. What is hard about them is
//! not their types but what happens between them: one token for many calls at once, renewed in the middle of a long
//! run; a create whose answer was lost and must not be sent twice; faults sorted by what a caller can do about them;
//! retries that share one budget with the other drivers. All of that lives below or in [`crate::retry`] either way. The
//! SDK would bring some hundred generated modules, a second HTTP stack, its own authentication cache and its own
//! configuration loader, and every one of these points would still be ours to write around it.
//!
//! What carries Kiln's labels, and how it is found by the server's own filters:
//!
//! | what | labels | filter |
//! | --- | --- | --- |
//! | servers | metadata, and the tag `kiln_cluster=NAME` | the tag: metadata cannot be filtered by ordinary users |
//! | volumes | metadata | metadata |
//! | images | properties | none: a project has few |
//! | networks, subnets, routers, ports, security groups, floating IPs | the description, given in the request that makes them; the cluster's id is a tag of networks and security groups | the description |
//! | key pairs, server groups, application credentials | their names, which no cluster's own name can equal | none |

mod access;
mod calls;
mod client;
mod clouds_yaml;
mod control_login;
mod create;
mod delete;
mod driver;
mod fault;
mod flavors;
mod floating;
mod groups;
mod images;
mod keys;
mod labels;
mod login;
mod networks;
mod parts;
mod ports;
mod quotas;
mod security;
mod servers;
mod session;
mod volumes;
mod wire;

pub use access::Access;
#[cfg(any(test, feature = "testing"))]
pub(crate) use clouds_yaml::read_clouds_yaml;
pub use driver::Driver;
pub use kiln_spec::{OpenStackSpec as Settings, RootDiskSpec as RootDisk};
