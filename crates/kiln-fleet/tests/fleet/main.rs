//! The daemon, its store and its hook, against a cloud in memory and a Slurm of scripts.

#![allow(clippy::unwrap_used)]

mod cloud;
mod lab;
mod notify;
mod oracle;
mod power;
mod reconcile;
mod requests;
mod rollouts;
mod slurm;
mod window;
