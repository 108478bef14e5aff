//! Figures for Prometheus beside those of what the dashboard shows: the store's, Slurm's own statistics, calls to the cloud, the
//! instances of groups, and certificates.

use std::path::Path;
use std::time::Duration;

use kiln_slurm::{Section, Slurm, Statistics};
use kiln_web::Figures;
use kiln_web::figures::{Figure, counted, one};
use kiln_wire::FleetMonitoring;

use crate::error::Result;
use crate::fleet::Fleet;
use crate::store::Store;
use crate::usage::Usage;

/// How long Slurm may take, while Prometheus waits.
const SOON: Duration = Duration::from_secs(10);

pub fn of_store(store: &Store, fleet: Option<&Fleet>) -> Result<Vec<Figures>> {
    let requests = store.count_requests()?.into_iter();
    let requests = requests.map(|(kind, state, count)| (vec![("kind", kind), ("state", state)], wide(count)));
    let rules = counted(store.findings()?.into_iter().map(|finding| vec![("rule", finding.rule)]));
    let failing = store.failure_records()?;
    let groups = fleet.map(|fleet| fleet.file.elastic.keys()).into_iter().flatten();
    let paused = groups.map(|group| {
        let is_paused = failing.get(group).is_some_and(kiln_wire::health::FailureRecord::is_paused);
        (vec![("group", group.clone())], f64::from(u8::from(is_paused)))
    });
    Ok(vec![
        Figures::gauge(
            "kiln_requests",
            "What Slurm asked of Kiln, as far as it is kept.",
            requests.collect(),
        ),
        Figures::gauge("kiln_findings_by_rule", "What the reconciler has found, by rule.", rules),
        Figures::gauge("kiln_group_paused", "Whether an elastic group is paused.", paused.collect()),
        Figures::counter(
            "kiln_events_total",
            "Events since the store was made.",
            one(wide(store.last_event()?)),
        ),
    ])
}

pub async fn of_slurm(slurm: &Slurm) -> Vec<Figures> {
    let (statistics, slurmdbd) = tokio::join!(
        tokio::time::timeout(SOON, slurm.statistics()),
        tokio::time::timeout(SOON, slurm.ask_slurmdbd()),
    );
    let answers = matches!(slurmdbd, Ok(Ok(())));
    let mut all = vec![Figures::gauge(
        "kiln_slurmdbd_up",
        "Whether slurmdbd and its database answer.",
        one(f64::from(u8::from(answers))),
    )];
    if let Ok(Ok(statistics)) = statistics {
        all.extend(of_statistics(&statistics));
    }
    all
}

/// Names, what they tell, and where `sdiag` has them. Times become seconds.
const STATISTICS: [(&str, &str, Section, &str); 9] = [
    ("kiln_slurmctld_threads", "Threads of slurmctld.", Section::Server, "Server thread count"),
    (
        "kiln_slurmctld_agent_queue",
        "Messages that slurmctld has yet to send.",
        Section::Server,
        "Agent queue size",
    ),
    (
        "kiln_slurmctld_dbd_queue",
        "Messages that slurmctld keeps for slurmdbd.",
        Section::Server,
        "DBD Agent queue size",
    ),
    ("kiln_schedule_cycle_seconds", "Last cycle of the main scheduler.", Section::Main, "Last cycle"),
    ("kiln_schedule_mean_cycle_seconds", "Mean cycle of the main scheduler.", Section::Main, "Mean cycle"),
    ("kiln_schedule_queue", "Jobs that the main scheduler saw last.", Section::Main, "Last queue length"),
    ("kiln_backfill_cycle_seconds", "Last cycle of the backfill scheduler.", Section::Backfill, "Last cycle"),
    (
        "kiln_backfill_mean_cycle_seconds",
        "Mean cycle of the backfill scheduler.",
        Section::Backfill,
        "Mean cycle",
    ),
    (
        "kiln_backfill_queue",
        "Jobs that the backfill scheduler saw last.",
        Section::Backfill,
        "Last queue length",
    ),
];

/// What has become of jobs, and sdiag's words for it. slurmctld counts from midnight, which is a new beginning of a counter.
const JOBS: [(&str, &str); 5] = [
    ("submitted", "Jobs submitted"),
    ("started", "Jobs started"),
    ("completed", "Jobs completed"),
    ("canceled", "Jobs canceled"),
    ("failed", "Jobs failed"),
];

fn of_statistics(statistics: &Statistics) -> Vec<Figures> {
    let mut all = Vec::new();
    for (name, help, section, words) in STATISTICS {
        let Some(value) = statistics.value(section, words) else { continue };
        let value = if name.ends_with("_seconds") { wide(value) / 1e6 } else { wide(value) };
        all.push(Figures::gauge(name, help, one(value)));
    }
    let jobs = JOBS.iter().filter_map(|(outcome, words)| {
        let count = statistics.value(Section::Server, words)?;
        Some((vec![("outcome", (*outcome).to_string())], wide(count)))
    });
    all.push(Figures::counter(
        "kiln_jobs_total",
        "What has become of jobs since midnight UTC.",
        jobs.collect(),
    ));
    let backfilled = statistics.value(Section::Backfill, "Total backfilled jobs (since last slurm start)");
    let backfilled = backfilled.map(|count| one(wide(count))).unwrap_or_default();
    all.push(Figures::counter(
        "kiln_backfilled_jobs_total",
        "Jobs that backfilling has started.",
        backfilled,
    ));
    all
}

pub fn of_cloud() -> Vec<Figures> {
    let labels = |call: &str, failed: bool| {
        let outcome = if failed { "failed" } else { "done" };
        vec![("call", call.to_string()), ("outcome", outcome.to_string())]
    };
    let calls = kiln_cloud::meter::calls();
    let samples = |value: fn(&kiln_cloud::meter::Calls) -> f64| -> Vec<Figure> {
        calls.iter().map(|((call, failed), calls)| (labels(call, *failed), value(calls))).collect()
    };
    vec![
        Figures::counter("kiln_cloud_calls_total", "Calls to the cloud.", samples(|calls| wide(calls.count))),
        Figures::counter(
            "kiln_cloud_call_seconds_total",
            "How long calls to the cloud took, together.",
            samples(|calls| calls.time.as_secs_f64()),
        ),
    ]
}

pub fn of_usage(usage: &Usage, monitoring: Option<&FleetMonitoring>) -> Vec<Figures> {
    let groups = usage.groups();
    let samples = |value: fn(&crate::usage::Used) -> f64| -> Vec<Figure> {
        groups.iter().map(|(group, used)| (vec![("group", group.clone())], value(used))).collect()
    };
    let mut all = vec![
        Figures::gauge(
            "kiln_instances",
            "Instances of compute groups.",
            samples(|used| used.instances.into()),
        ),
        Figures::counter(
            "kiln_instance_seconds_total",
            "How long instances of compute groups have run, together.",
            samples(|used| used.time.as_secs_f64()),
        ),
    ];
    if monitoring.is_some_and(|monitoring| !monitoring.prices.is_empty()) {
        let help = "What instances of compute groups have cost, at the prices of the file.";
        all.push(Figures::counter("kiln_instance_cost_total", help, samples(|used| used.cost)));
    }
    all
}

pub fn of_certificates(monitoring: Option<&FleetMonitoring>) -> Vec<Figures> {
    let files = monitoring.map(|monitoring| monitoring.certificates.iter()).into_iter().flatten();
    let ends = files.filter_map(|(name, path)| Some((vec![("certificate", name.clone())], end(path)?)));
    let help = "Until when a certificate is good.";
    vec![Figures::gauge("kiln_certificate_end_timestamp_seconds", help, ends.collect())]
}

#[allow(clippy::cast_precision_loss, reason = "seconds have less than sixteen digits")]
fn end(path: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(kiln_wire::certificate::certificate_end(&text)?.as_second() as f64)
}

#[allow(clippy::cast_precision_loss, reason = "nothing here has sixteen digits")]
fn wide(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_release_does_not_tell_is_left_out() {
        let text = "Server thread count: 3\nJobs failed: 2\n\nMain schedule statistics (microseconds):\n\tLast cycle: 1500\n";
        let text = kiln_web::figures::text(&of_statistics(&Statistics::parse(text)));
        assert!(text.contains("kiln_slurmctld_threads 3\n"), "{text}");
        assert!(text.contains("kiln_schedule_cycle_seconds 0.0015\n"), "{text}");
        assert!(text.contains("kiln_jobs_total{outcome=\"failed\"} 2\n"), "{text}");
        assert!(!text.contains("kiln_backfill_cycle") && !text.contains("submitted"), "{text}");
    }
}
