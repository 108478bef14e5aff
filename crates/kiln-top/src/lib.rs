//! `kiln top`: the cluster live in a terminal. It asks kilnd's API, as the dashboard does, and shows the same.
//!
//! [`model`] is what has been told so far, [`app`] what is looked at and what keys do, [`screen`] draws it. Only what differs from
//! the screen before is written, and not more often than asked for, so that a slow line is enough.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod api;
mod app;
mod error;
mod model;
mod run;
mod screen;
mod sse;
mod terminal;
#[cfg(test)]
mod tests;
mod words;

pub use api::Api;
pub use error::Error;
pub use run::{Options, watch};
