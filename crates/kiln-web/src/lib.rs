//! kilnd's window: what it knows of the cluster, for people and programs, over HTTP on control's loopback address, and over TLS for others
//! where the cluster file says so.
//!
//! [`Cluster`] is what is shown; kilnd is one, the tests have another. [`hub`] looks at it while somebody watches, [`picture`] is
//! what was seen and what differs between two looks. [`routes`] is the one list of all that can be asked: the router, who may ask
//! what, the OpenAPI description and `docs/api.md` are made from it. The dashboard's files are in `assets/`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

// As the fake cluster calls it, which other tests have from outside.
#[cfg(test)]
extern crate self as kiln_web;

mod answers;
mod assets;
pub mod auth;
mod cluster;
mod connections;
mod describe;
mod door;
#[cfg(test)]
#[path = "../tests/lab/fake.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod fake;
pub mod figures;
pub mod health;
mod hub;
mod job_answers;
#[cfg(test)]
#[path = "../tests/lab/outside.rs"]
mod lab;
pub mod limits;
mod login;
mod metrics;
mod openapi;
#[cfg(test)]
mod outside_tests;
mod parameters;
pub mod past;
mod picture;
#[cfg(test)]
#[path = "../tests/lab/provider.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod provider;
mod reading;
#[cfg(test)]
mod router_tests;
mod routes;
pub mod scheduler;
mod server;
pub mod shares;
mod stream;
pub mod view;

pub use cluster::{Cluster, EventQuery, Look, Order, Problem, Records};
pub use figures::Figures;
pub use openapi::{markdown, openapi};
pub use reading::{blind, finding, node_kind, rollout, rollout_nodes, waiting_job};
pub use routes::{App, router};
pub use server::serve;
