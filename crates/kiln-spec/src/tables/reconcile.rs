//! `[reconcile]`: how often and how soon kilnd corrects differences between Slurm and the cloud.

use std::time::Duration;

use crate::Reconcile;
use crate::diagnostic::Findings;
use crate::units::duration;
use crate::written::table::table;
use crate::written::{At, Text};

table! {
    /// How often and how soon kilnd corrects differences between Slurm and the cloud.
    ReconcileTable {
        /// Time between two readings of Slurm and the cloud.
        "every" => every: Text, default "30s";
        /// How long a difference must last before kilnd acts on it.
        "grace" => grace: Text, default "2m";
        /// How long an instance that belongs to no node may exist if it is younger than the last `kiln configure`. It may belong to a node that the next `kiln configure` adds.
        "newcomer" => newcomer: Text, default "1h";
        /// How long an elastic group pauses after the cloud refused it, or after repeated failures.
        "pause" => pause: Text, default "10m";
        /// Number of consecutive failures after which an elastic group pauses, 1 to 100.
        "failures" => failures: At<i64>, default 5;
    }
}

pub(crate) fn validate(written: &ReconcileTable, findings: &mut Findings<'_>) -> Reconcile {
    let second = Duration::from_secs(1);
    let failures = u32::try_from(written.failures.value).ok().filter(|n| (1..=100).contains(n));
    if failures.is_none() {
        let message = format!("`failures` cannot be {}", written.failures.value);
        findings.error("out-of-range", written.failures.span.clone(), message).expected("1 to 100");
    }
    Reconcile {
        every: at_least("`every`", &written.every, second, findings),
        grace: at_least("`grace`", &written.grace, second, findings),
        newcomer: at_least("`newcomer`", &written.newcomer, second, findings),
        pause: at_least("`pause`", &written.pause, second, findings),
        failures: failures.unwrap_or(1),
    }
}

pub(crate) fn at_least(what: &str, text: &Text, least: Duration, findings: &mut Findings<'_>) -> Duration {
    match duration(&text.value) {
        Some(duration) if duration >= least => duration,
        _ => {
            (findings.error("bad-time", text.span.clone(), format!("{what} cannot be `{}`", text.value)))
                .expected(format!("a duration of {} s or more, e.g. \"15m\" or \"90s\"", least.as_secs()));
            least
        }
    }
}
