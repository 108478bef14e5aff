//! `cluster.toml` and everything that is needed to understand it. No I/O happens here.

mod spec;

pub use spec::*;
