//! Slurm's hostlists: `n[001-003,7],login-0`.
//!
//! The grammar and the order of the result are Slurm's own. Where Slurm guesses at a malformed list
//! (`n[1-3` becomes one odd name), this module returns an error that says where the list goes wrong.

mod expand;
mod fold;
mod order;

pub use expand::{HostlistError, MAX_HOSTS, MAX_RANGE, expand};
pub use fold::fold;
pub use order::{natural_cmp, sort};
