//! The `Cloud` interface and its drivers.

mod error;
mod types;

pub use error::{Error, Result};
pub use types::*;
