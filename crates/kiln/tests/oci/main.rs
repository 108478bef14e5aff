//! Clusters on Oracle Cloud: the real binary against the fake of Oracle's services.
//!
//! Nothing boots there, so everything up to the nodes' own part is tested here.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

#[path = "../lab/cluster_dir.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod cluster_dir;
mod lab;
mod life;
mod messages;
