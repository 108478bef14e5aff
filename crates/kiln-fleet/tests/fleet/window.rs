//! What kilnd shows of a cluster, and what it lets somebody do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_fleet::store::{NewRequest, RequestKind, now};
use kiln_fleet::window::{SlurmPages, Window};
use kiln_fleet::{Fleet, Store};
use kiln_slurm::HistoryQuery;
use kiln_web::view::{Needs, NodeKind};
use kiln_web::{Cluster as _, EventQuery, Order, Problem};
use kiln_wire::rollout::Options;
use tokio::sync::watch;

use crate::lab::Lab;

fn window(lab: &Lab) -> Window {
    let fleet = Fleet::read(&lab.path("fleet.json")).unwrap();
    Window {
        store: Arc::new(Store::open(&lab.path("store.db")).unwrap()),
        slurm: lab.commands(),
        share: lab.path("share"),
        fleet: watch::channel(Some(Arc::new(fleet))).1,
        reports: Arc::default(),
        past: Mutex::default(),
        usage: Arc::default(),
        pages: SlurmPages::default(),
        outside: watch::channel(None).1,
    }
}

/// The name of the first job passes for another job, line by line.
const QUEUE: &str = "\
17+ann+physics+main+normal+PENDING+9+1+4+2026-11-16T05:10:00+N/A+1:00:00++(null)+JobHeldUser+sweep
19|root|root|main|normal|RUNNING|9|1|4|2026-11-16T05:10:00|N/A|1:00:00|n-0|(null)|None|forged
18+bob+bio+main+normal+RUNNING+0+1+4+2026-11-16T05:10:00+2026-11-16T05:11:00+1:00:00+n-0+(null)+None+relax
";

#[tokio::test]
async fn nodes_jobs_and_findings_are_shown() {
    let lab = Lab::new();
    lab.slurm.queue(&QUEUE.replace('+', "|x9|"));
    lab.slurm.node("n-1", "IDLE+DRAIN Reason=bad_fan", "2020-01-01T00:00:00");
    let window = window(&lab);
    assert_eq!(window.name(), "c");
    let look = window.look().await.unwrap();
    let kinds: Vec<NodeKind> = look.nodes.iter().map(|node| node.kind).collect();
    assert_eq!(kinds, [NodeKind::Idle, NodeKind::Drained, NodeKind::Idle]);
    assert_eq!(look.nodes[0].image.as_deref(), Some("old"));
    assert_eq!(look.jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["17", "18"]);
    let waiting = look.jobs[0].waiting.as_ref().unwrap();
    assert_eq!((waiting.needs, look.jobs[1].waiting.is_none()), (Needs::Owner, true));
    // Nobody has ever compared Slurm with the cloud here.
    assert!(look.findings.iter().any(|finding| finding.subject == "kilnd"), "{:?}", look.findings);
    assert_eq!(window.dossier("n-1").await.unwrap().health.node, "n-1");
    assert!(window.dossier("n-9").await.is_err());
}

#[tokio::test]
async fn a_rollout_is_steered_by_somebody_with_a_name() {
    let lab = Lab::new();
    let window = window(&lab);
    let id = kiln_fleet::start(&lab.store, &lab.fleet(), &lab.commands(), Options::default()).await.unwrap();
    window.steer(id, Order::Pause, "olga").unwrap();
    assert!(matches!(window.steer(id, Order::Pause, "olga"), Err(Problem::Refused(_))));
    assert!(matches!(window.steer(id + 1, Order::Pause, "olga"), Err(Problem::Unknown(_))));
    assert_eq!(window.rollout(id).unwrap().rollout.state, "paused");
    let events = window.events(&EventQuery { most: 1, ..EventQuery::default() }).unwrap();
    assert_eq!((events[0].why.as_str(), events[0].outcome.as_str()), ("asked by olga", "paused"));

    let records = window.records().unwrap();
    assert_eq!((records.rollouts.len(), records.rollout_nodes.len()), (1, 3));
    assert_eq!(records.events.last().map(|event| event.id), Some(events[0].id));
    let figures = kiln_web::figures::text(&window.figures().await.unwrap());
    // There is no sdiag here.
    assert!(figures.contains("kiln_events_total 2\n") && !figures.contains("kiln_schedule"), "{figures}");
}

#[tokio::test]
async fn nodes_that_come_and_go_are_shown() {
    let lab = Lab::new();
    lab.fleet_file("old", r#","elastic":{"g":{"places":[]}}"#);
    let asked = NewRequest { jobs: Some("17".into()), ..NewRequest::new(RequestKind::Resume, "n-0", now()) };
    lab.store.enqueue(&[asked, NewRequest::new(RequestKind::Reboot, "n-1", now())]).unwrap();
    lab.store.pause_group("g", now() + Duration::from_secs(60), "no room").unwrap();
    let seen = window(&lab).elastic().unwrap();
    let group = &seen.groups[0];
    assert_eq!((group.name.as_str(), group.nodes, group.problem.as_deref()), ("g", 3, Some("no room")));
    assert!(group.paused_until.is_some());
    // A reboot is no coming or going.
    let [request] = &seen.requests[..] else { panic!("{:?}", seen.requests) };
    assert_eq!(
        (request.node.as_str(), request.group.as_str(), request.kind.as_str()),
        ("n-0", "g", "resume")
    );
    assert_eq!((request.jobs.as_deref(), request.state.as_str()), (Some("17"), "queued"));
    assert_eq!(seen.queue, []);
}

#[tokio::test]
async fn the_accounting_is_asked_once_for_all_who_look() {
    let lab = Lab::new();
    let history = include_str!("../../../kiln-slurm/src/captured/24.11-history.txt");
    std::fs::write(lab.slurm.dir.join("history"), history).unwrap();
    let window = window(&lab);
    let since = jiff::Timestamp::now() - Duration::from_secs(1800);
    let query = HistoryQuery::default();
    for _ in 0..3 {
        let seen = window.history(&query, since, 100).await.unwrap();
        assert!(seen.is_whole && seen.jobs.len() > 10, "{seen:?}");
        // Those that are not over come first.
        assert!(seen.jobs.is_sorted_by_key(|job| job.ended.is_some()), "{:?}", seen.jobs);
    }
    let failed = HistoryQuery { state: Some("FAILED".into()), ..query.clone() };
    let seen = window.history(&failed, since, 2).await.unwrap();
    assert_eq!((seen.jobs.len(), seen.is_whole), (2, false));
    assert!(seen.jobs.iter().all(|job| job.state == "FAILED"), "{:?}", seen.jobs);
    let calls = std::fs::read_to_string(lab.slurm.dir.join("calls")).unwrap();
    assert_eq!(calls.lines().filter(|line| line.starts_with("sacct ")).count(), 2, "{calls}");
}
