//! Clusters on OpenStack: the real binary against the real services that `tests/openstack-services/up` starts, with
//! the official client to read back what Kiln did. `OS_CLIENT_CONFIG_FILE` says where the services are.
//!
//! The hypervisor is Nova's fake one: nothing boots, so everything up to the nodes' own part is tested here. Only for
//! image builds a booted system stands in.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod addresses;
#[path = "../../../kiln-cloud/tests/openstack/client.rs"]
mod client;
#[path = "../lab/cluster_dir.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod cluster_dir;
mod collisions;
mod control_node;
mod credential;
mod elastic;
mod existing;
mod faults;
mod fence;
mod halves;
mod image_life;
mod images;
mod lab;
mod life;
mod limits;
mod logins;
mod messages;
mod neighbours;
mod options;
mod owners;
#[path = "../lab/project.rs"]
mod project;
mod proxy;
mod shared;
mod sleep;
mod stand_in;
mod tls;
mod twins;
mod upload;
