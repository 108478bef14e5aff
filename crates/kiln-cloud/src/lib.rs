//! The `Cloud` interface and its drivers.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod certificate;
mod cloud;
mod driver;
mod error;
pub mod http;
pub mod local;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
pub mod oci;
pub mod openstack;
pub mod rate;
mod remote;
pub mod retry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod types;

pub use cloud::{Access, Cloud};
pub use error::{Class, Error, Result};
pub use types::*;
