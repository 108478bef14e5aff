//! `cluster.toml` and everything that is needed to understand it. No I/O happens here.

mod cloud;
mod diagnostic;
pub mod hostlist;
mod image_properties;
mod key_tables;
mod merge;
mod nearest;
mod parse;
mod render;
mod schema;
pub mod slurm_limits;
mod slurm_parameters;
mod snapshots;
mod software;
mod spec;
mod syntax;
mod system;
mod tables;
mod template;
mod units;
mod validate;
mod words;
mod written;

pub use cloud::{CloudFacts, CloudHints, CloudSpec, LocalSpec, OciSpec, OpenStackSpec, RootDiskSpec};
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use image_properties::{Firmware, ImageProperties, Visibility};
pub use key_tables::{key_table, key_table_paths};
pub use parse::{Files, parse, parse_with_files, parse_with_warnings};
pub use schema::schema;
pub use slurm_parameters::is_known as is_slurm_parameter;
pub use snapshots::{SNAPSHOTS_FILE, Snapshots};
pub use software::Software;
pub use spec::*;
pub use system::System;
pub use template::template;
pub use units::duration;
