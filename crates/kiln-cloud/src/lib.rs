//! The `Cloud` interface and its drivers.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cloud;
mod error;
pub mod local;
pub mod rate;
pub mod retry;
mod types;

pub use cloud::Cloud;
pub use error::{Error, Result};
pub use types::*;
