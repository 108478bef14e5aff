//! Clusters on Oracle Cloud: the real binary against the fake of Oracle's services, and Oracle's own clients against the same
//! fake, each reading back what the other made. `KILN_OCI_CLIENTS` names the virtual environment with the clients.
//!
//! Nothing boots there, so everything up to the nodes' own part is tested here.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod clients;
#[path = "../lab/cluster_dir.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod cluster_dir;
mod lab;
mod life;
mod messages;
#[path = "../lab/oracle_login.rs"]
mod oracle_login;
