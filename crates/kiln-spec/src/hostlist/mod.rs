//! Slurm's hostlists: `n[001-003,7],login-0`.
//!
//! The grammar and the order of the result are Slurm's own. Where Slurm guesses at a malformed list
//! (`n[1-3` becomes one odd name), this module returns an error that says where the list goes wrong.

mod expand;
mod fold;
mod grammar;
mod order;

pub use expand::{MAX_HOSTS, expand};
pub use fold::fold;
pub use grammar::{HostlistError, MAX_RANGE};
pub use order::{natural_cmp, sort};
