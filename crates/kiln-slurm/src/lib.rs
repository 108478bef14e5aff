//! All that Kiln knows of Slurm: its nodes and jobs, its commands, its configuration, and what differs between releases.
//!
//! [`command`] runs Slurm's programs; everything else is pure.

pub mod accounts;
mod command;
pub mod config;
pub mod ended;
mod error;
mod history;
mod job;
mod measures;
mod node;
mod oneliner;
pub mod pending;
mod queue;
mod release;
pub mod resume_file;
mod rows;
mod rules;
mod sharing;
mod statistics;

pub use command::{History, LicenseUse, Slurm, Submission};
pub use error::{Error, Result};
pub use history::{
    Efficiency, ExitCode, HistoryQuery, PastJob, Record, TimeLimit, base, parse as parse_history,
};
pub use job::{Job, JobOnNodes, JobState, parse_sacct, parse_squeue};
pub use node::{
    BOOT_TIME_ROUNDING, Base, Flag, Flags, LEAVES, Node, REASON, State, UNHEALTHY, one_line, parse_node,
    parse_nodes,
};
pub use queue::QueuedJob;
pub use release::{ParseReleaseError, RebootHook, Release};
pub use rows::{delimiter, rows, squeue_format};
pub use rules::{
    License, Qos, QosLimit, Reservation, Scope, SlurmRules, add_each, licenses, qos, reservations,
};
pub use sharing::{Devices, Share, Sharing, share};
pub use statistics::{Section, Statistics};
