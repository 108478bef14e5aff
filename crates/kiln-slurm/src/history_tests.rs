//! With what real clusters have printed.

use super::*;

/// As it was when these were captured.
const DELIMITER: &str = "|x9|";

fn captured(text: &str) -> Vec<PastJob> {
    parse(text, DELIMITER)
}

#[test]
fn a_history_is_read() {
    for (release, text) in [
        ("24.11", include_str!("captured/24.11-history.txt")),
        ("22.05", include_str!("captured/22.05-history.txt")),
    ] {
        let jobs = captured(text);
        let named = |name: &str| {
            let mut found = jobs.iter().filter(|job| job.record.name == name);
            found.next().unwrap_or_else(|| panic!("{release}: {name}")).record.clone()
        };
        assert_eq!(named("fails").exit, Some(ExitCode { code: 3, signal: 0 }), "{release}");
        assert_eq!(named("segv").exit, Some(ExitCode { code: 0, signal: 11 }), "{release}");
        assert_eq!(
            (named("burner").gpus, named("burner").limit),
            (Some(1), TimeLimit::Seconds(600)),
            "{release}"
        );
        assert_eq!(named("forever").limit, TimeLimit::Unlimited, "{release}");
        assert_eq!(named("waits").limit, TimeLimit::Partition, "{release}");
        assert_eq!((named("waits").started, named("waits").nodelist.as_str()), (None, ""), "{release}");
        assert_eq!(named("wide").memory_requested, Some(400 << 20), "{release}");
        let gone = named("gone");
        assert_eq!(
            (gone.state.as_str(), gone.cancelled_by.as_deref()),
            ("CANCELLED", Some("2001")),
            "{release}"
        );
        assert_eq!(named("sweep").job.split('_').nth(1), Some("[10-20]"), "{release}");
        // Names are any text of a user's, and make no rows of their own.
        assert_eq!(named("pipe|name").user, "demo", "{release}");
        assert_eq!(named("new\nline").user, "demo", "{release}");
        let burners = jobs.iter().filter(|job| job.record.job == named("burner").job).count();
        assert_eq!(burners, 1, "{release}");
        assert!(jobs.iter().all(|job| job.record.user == "demo"), "{release}");
    }
}

#[test]
fn a_job_and_its_steps_are_read() {
    for (release, text) in
        [("24.11", include_str!("captured/24.11-job.txt")), ("22.05", include_str!("captured/22.05-job.txt"))]
    {
        let [job] = &captured(text)[..] else { panic!("{release}: one job") };
        let steps: Vec<&str> = job.steps.iter().filter_map(|step| step.step.as_deref()).collect();
        assert_eq!(steps, ["batch", "0"], "{release}");
        let efficiency = job.efficiency();
        assert!(
            efficiency.cpu.is_some_and(|percent| (10..=100).contains(&percent)),
            "{release}: {efficiency:?}"
        );
        assert!(
            efficiency.time.is_some_and(|percent| (3..=20).contains(&percent)),
            "{release}: {efficiency:?}"
        );
    }
}

#[test]
fn members_and_parts_are_told_apart() {
    let ids = |text: &str| captured(text).into_iter().map(|job| job.record.job).collect::<Vec<_>>();
    for (release, array, parts) in [
        ("24.11", include_str!("captured/24.11-array.txt"), include_str!("captured/24.11-het.txt")),
        ("22.05", include_str!("captured/22.05-array.txt"), include_str!("captured/22.05-het.txt")),
    ] {
        assert_eq!(ids(array), ["6_1", "6_2", "6_3"], "{release}");
        assert_eq!(ids(parts), ["7+0", "7+1"], "{release}");
        assert!(captured(parts).iter().all(|job| job.record.base() == "7"), "{release}");
    }
}

#[test]
fn what_was_cut_off_is_passed_over() {
    let text = include_str!("captured/24.11-history.txt");
    let whole = captured(text).len();
    for cut in (0..text.len()).filter(|at| text.is_char_boundary(*at)).step_by(97) {
        assert!(captured(&text[..cut]).len() <= whole);
    }
    assert_eq!(captured("sacct: error: slurm_persist_conn_open: failed"), []);
    assert_eq!(captured(""), []);
}

fn record(limit: TimeLimit, memory: Option<u64>) -> Record {
    Record {
        started: Some(Timestamp::UNIX_EPOCH),
        elapsed: 100,
        cpus: 4,
        limit,
        memory_requested: memory,
        cpu_time: Some(200_000),
        ..Record::default()
    }
}

#[test]
fn efficiency_is_what_was_used_of_what_there_was() {
    let step = |memory| Record { memory_used: Some(memory), cpu_time: Some(100_000), ..Record::default() };
    let job = PastJob {
        record: record(TimeLimit::Seconds(400), Some(1 << 30)),
        steps: vec![step(1 << 28), step(1 << 29)],
    };
    assert_eq!(job.efficiency(), Efficiency { cpu: Some(50), memory: Some(50), time: Some(25) });
    let job = PastJob { record: record(TimeLimit::Unlimited, None), steps: Vec::new() };
    assert_eq!(job.efficiency(), Efficiency { cpu: Some(50), memory: None, time: None });
    assert_eq!(PastJob::default().efficiency(), Efficiency::default());
}

#[test]
fn memory_of_older_releases_is_of_each_node_or_core() {
    assert_eq!(asked_memory("4Gn", 2, 8), Some(8 << 30));
    assert_eq!(asked_memory("500Mc", 2, 8), Some(4000 << 20));
    assert_eq!(asked_memory("500M", 2, 8), Some(500 << 20));
    assert_eq!(asked_memory("", 2, 8), None);
}

#[test]
fn only_jobs_in_the_state_that_was_asked_for_are_shown() {
    let query =
        HistoryQuery { state: Some("FAILED".into()), user: Some("ann".into()), ..HistoryQuery::default() };
    let arguments = query.arguments(Timestamp::UNIX_EPOCH, "2026-11-17T12:00:00Z".parse().unwrap());
    assert_eq!(
        arguments,
        [
            "--allocations",
            "--starttime=1970-01-01T00:00:00",
            "--endtime=2026-11-17T12:00:00",
            "--user=ann",
            "--state=FAILED"
        ]
    );
    let state = |word: &str| Record { state: word.into(), ..Record::default() };
    assert!(query.takes(&state("FAILED")) && !query.takes(&state("COMPLETED")));
    assert!(
        HistoryQuery::default()
            .arguments(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH)
            .contains(&"--allusers".into())
    );
}
