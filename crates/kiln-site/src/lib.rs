//! The pure function that makes all configuration: spec, inventory and secrets in, one bundle per node out.
//! No I/O happens here.

pub mod bundle;
pub mod identity;
