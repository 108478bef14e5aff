//! Talk to Slurm: parse what its commands print and know what differs between its releases.

mod node_state;
mod release;

pub use node_state::{NodeState, parse_node_states};
pub use release::{ParseReleaseError, Release};
