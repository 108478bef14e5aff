//! The `Cloud` interface and its drivers.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod cloud;
mod error;
mod http;
pub mod local;
pub mod openstack;
pub mod rate;
pub mod retry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod types;

pub use access::Access;
pub use cloud::Cloud;
pub use error::{Class, Error, Result};
pub use types::*;
