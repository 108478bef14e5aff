//! The `Cloud` interface and its drivers.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cloud;
mod driver;
mod error;
mod gpus;
pub mod http;
mod limits;
pub mod local;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
pub mod meter;
pub mod oci;
pub mod openstack;
pub mod rate;
mod remote;
pub mod retry;
mod rights;
mod server_tls;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod types;

pub use cloud::{Access, Cloud};
pub use error::{Class, Error, Result};
pub use gpus::Gpus;
pub use limits::Limit;
pub use rights::{Right, RightState};
pub use server_tls::server_tls;
pub use types::*;
