//! The daemon, its store and its hook, against a cloud and a Slurm that only pretend.

#![allow(clippy::unwrap_used)]

mod cloud;
mod lab;
mod power;
mod reconcile;
mod requests;
mod rollouts;
mod slurm;
