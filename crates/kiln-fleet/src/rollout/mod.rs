//! A rollout: moving nodes to their target image through Slurm, watched until proven.
//!
//! ```text
//! Pending -> Submitted -> Rebuilding -> Booting -> Checking -> Done
//!    |           |             |           |          |
//!    |           +-------------+-----------+----------+------> Failed
//!    +-> Draining (without a job) -> Rebuilding ...
//!    +-> Draining (of an elastic group) -> Done: what it had is gone
//!    +-> Skipped
//! ```
//! A step back to `Pending` is a job that has to be submitted again. [`plan`] decides, the engine does.

mod execute;
mod observe;
mod plan;
mod start;

pub use observe::Rollouts;
pub use plan::node::{JobSeen, Seen};
pub use plan::{Action, CANCELLED, Limits, plan};
pub use start::{abort, list, pause, report, resume, start};
