//! A cluster that is not there: any number of nodes, a queue, a rollout that goes on while somebody looks.

#[path = "fake_health.rs"]
mod fake_health;
#[path = "fake_jobs.rs"]
mod jobs;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kiln_slurm::{History, HistoryQuery, PastJob, QueuedJob, Sharing, SlurmRules, State, Statistics};
use kiln_web::auth::{self, Key, KeyKind};
use kiln_web::figures::one;
use kiln_web::view::{
    Elastic, ElasticGroup, Event, Health, Image, ImageDetail, Node, Package, PowerRequest, QueueLength,
    RolloutDetail, UsageReport,
};
use kiln_web::{
    Cluster, EventQuery, Figures, Look, Order, Problem, Records, finding, node_kind, rollout, rollout_nodes,
    waiting_job,
};
use kiln_wire::dashboard::Role;
use kiln_wire::health::{Console, FindingReport, NodeDossier, NodeHealth};
use kiln_wire::rollout::{NodeStep, Options, Rollout, RolloutNode, RolloutReport, RolloutState};
use kiln_wire::{DashboardSettings, Version};
use tokio::sync::watch;

pub struct Fake {
    nodes: usize,
    /// Nodes change from look to look.
    lively: bool,
    looks: AtomicUsize,
    keys: Mutex<HashMap<String, Key>>,
    events: Mutex<Vec<Event>>,
    rollout: Mutex<Rollout>,
    /// The accounting does not answer.
    no_accounting: AtomicBool,
    /// A service of control that does not run.
    broken: Mutex<Option<&'static str>>,
    /// How others on the network may look at it.
    pub outside: watch::Sender<Option<DashboardSettings>>,
}

/// Slurm's states, by what remains of the node's number.
const STATES: [(&str, u32); 20] = [
    ("ALLOCATED", 64),
    ("ALLOCATED", 64),
    ("ALLOCATED", 64),
    ("MIXED", 24),
    ("MIXED", 40),
    ("ALLOCATED", 64),
    ("IDLE", 0),
    ("ALLOCATED", 64),
    ("ALLOCATED", 64),
    ("IDLE", 0),
    ("ALLOCATED", 64),
    ("MIXED", 8),
    ("ALLOCATED", 64),
    ("ALLOCATED+DRAIN", 64),
    ("ALLOCATED", 64),
    ("IDLE", 0),
    ("ALLOCATED", 64),
    ("IDLE+DRAIN", 0),
    ("ALLOCATED", 64),
    ("DOWN*", 0),
];

impl Fake {
    pub fn new(nodes: usize) -> Fake {
        let at = Timestamp::now();
        let members = (0..nodes.min(40)).map(|number| {
            let image = |name: &str| Some(format!("compute-{name}"));
            RolloutNode {
                previous: image("2026-10-01"),
                target: image("2026-11-01"),
                ..RolloutNode::pending(&name(number), "rebuild", at)
            }
        });
        let rollout = Rollout {
            id: 7,
            created: at,
            finished: None,
            state: RolloutState::Running,
            options: Options { canary: 1, max_unavailable: 4, ..Options::default() },
            nodes: members.collect(),
        };
        let fake = Fake {
            nodes,
            lively: false,
            looks: AtomicUsize::new(0),
            keys: Mutex::default(),
            events: Mutex::default(),
            rollout: Mutex::new(rollout),
            no_accounting: AtomicBool::new(false),
            broken: Mutex::new(Some("slurmctld")),
            outside: watch::channel(None).0,
        };
        fake.put("", "rollout 7", &format!("{} nodes", nodes.min(40)), "started");
        fake.put(&name(0), "reboot", "asked by Slurm", "rebuilt to compute-2026-11-01");
        fake
    }

    /// For people who work on the dashboard.
    pub fn lively(nodes: usize) -> Fake {
        Fake { lively: true, ..Fake::new(nodes) }
    }

    pub fn lose_accounting(&self) {
        self.no_accounting.store(true, Ordering::Relaxed);
    }

    fn accounting(&self) -> Result<(), Problem> {
        let lost = self.no_accounting.load(Ordering::Relaxed);
        let words = "sacct: Problem talking to the database: Connection refused";
        if lost { Err(Problem::Unavailable(words.into())) } else { Ok(()) }
    }

    /// All services run.
    pub fn mend(&self) {
        *lock(&self.broken) = None;
    }

    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }

    /// Lets somebody in.
    pub fn admit(&self, kind: KeyKind, name: &str, role: Role, life: Duration) -> String {
        let secret = auth::mint().expose_secret().to_string();
        let key = Key::new(kind, name, role, life);
        lock(&self.keys).insert(auth::hash(&secret), key);
        secret
    }

    pub fn seen(&self) -> (Look, Records) {
        let at = Timestamp::now();
        let round = if self.lively { self.looks() } else { 0 };
        let nodes: Vec<Node> = (0..self.nodes).map(|number| self.node(number, round, at)).collect();
        let findings = nodes.iter().filter_map(|node| node.finding.clone()).collect();
        let jobs = queue(self.nodes, at).into_iter().map(waiting_job).collect();
        let look = Look { observed: at, last_check: Some(at), nodes, jobs, findings };
        let report = RolloutReport::from(lock(&self.rollout).clone());
        let records = Records {
            rollouts: vec![rollout(&report)],
            rollout_nodes: rollout_nodes(&report),
            events: lock(&self.events).clone(),
        };
        (look, records)
    }

    fn node(&self, number: usize, round: usize, at: Timestamp) -> Node {
        // A few of them change with every look.
        let turn = if (number * 7919 + round).is_multiple_of(97) { round } else { 0 };
        let elastic = number >= self.nodes * 9 / 10;
        let (state, allocated) = match (elastic, (number + turn) % 5) {
            (true, 0) => ("ALLOCATED+CLOUD+POWERING_UP", 64),
            (true, 1) => ("MIXED+CLOUD", 16),
            (true, _) => ("IDLE+CLOUD+POWERED_DOWN", 0),
            _ => STATES[(number * 31 / 7 + turn) % STATES.len()],
        };
        let in_rollout = lock(&self.rollout).nodes.get(number).is_some_and(RolloutNode::is_in_work);
        let slurm = State::parse(state);
        let is_down = slurm.is_down() && !in_rollout;
        let report = is_down.then(|| FindingReport {
            subject: name(number),
            rule: "down-with-instance".into(),
            text: "Slurm has given it up, and its instance runs".into(),
            since: at - Duration::from_secs(600 + number as u64),
            is_early: false,
            due: (!number.is_multiple_of(3)).then(|| at + Duration::from_secs(90)),
            actions: vec!["reboot its instance".into()],
        });
        // Those of the elastic group have booted after they were asked for.
        let up_for = if elastic { (number - self.nodes * 9 / 10) as u64 * 1700 + 1425 } else { 86_400 };
        let up_for = Duration::from_secs(up_for);
        let reason = match (slurm.is_drained(), is_down) {
            (true, _) => Some("bad fan, ticket 4711"),
            (_, true) => Some("Not responding"),
            _ => None,
        };
        Node {
            name: name(number),
            group: if elastic { "burst".into() } else { "standard".into() },
            elastic,
            kind: node_kind(Some(&slurm), allocated > 0, in_rollout),
            state: Some(slurm.to_string()),
            partitions: vec![if elastic { "burst".into() } else { "main".into() }],
            cpus: 64,
            cpus_allocated: allocated,
            memory_mib: 257_000,
            reason: reason.map(String::from),
            reason_by: reason.map(|_| "root".into()),
            booted: Some(at - up_for),
            slurmd_started: Some(at - up_for + Duration::from_secs(12)),
            address: Some(format!("10.0.{}.{}", number / 250, number % 250 + 1)),
            image: Some("compute-2026-10-01".into()),
            instance: Some("active".into()),
            finding: report.as_ref().map(finding),
        }
    }

    fn put(&self, node: &str, what: &str, why: &str, outcome: &str) {
        let mut events = lock(&self.events);
        let id = i64::try_from(events.len()).unwrap_or(i64::MAX) + 1;
        events.push(Event {
            id,
            time: Timestamp::now(),
            node: node.into(),
            what: what.into(),
            why: why.into(),
            outcome: outcome.into(),
        });
    }

    /// One node goes one step further.
    fn advance(&self) {
        let mut rollout = lock(&self.rollout);
        if rollout.state != RolloutState::Running && rollout.state != RolloutState::Aborting {
            return;
        }
        let is_aborting = rollout.state == RolloutState::Aborting;
        let next = |step: &NodeStep| match step {
            NodeStep::Pending if is_aborting => None,
            NodeStep::Pending => Some(NodeStep::Submitted { job: 900 }),
            NodeStep::Submitted { .. } => Some(NodeStep::Rebuilding { job: Some(900) }),
            NodeStep::Rebuilding { .. } => Some(NodeStep::Booting { job: Some(900) }),
            NodeStep::Booting { .. } => Some(NodeStep::Checking { job: 900 }),
            NodeStep::Checking { .. } => Some(NodeStep::Done),
            _ => None,
        };
        let mut left = 4;
        for node in &mut rollout.nodes {
            let Some(step) = next(&node.step).filter(|_| left > 0) else { continue };
            (node.step, node.since) = (step, Timestamp::now());
            left -= 1;
        }
        if left == 4 {
            rollout.state = if is_aborting { RolloutState::Aborted } else { RolloutState::Done };
            rollout.finished = Some(Timestamp::now());
        }
    }
}

fn name(number: usize) -> String {
    format!("node-{number:04}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn image(date: &str, days: u64, openmpi: &str) -> ImageDetail {
    let package = |name: &str, version: &str| Package { name: name.into(), version: version.into() };
    let mut packages: Vec<Package> = (0..120).map(|n| package(&format!("lib{n:03}"), "1.0-1")).collect();
    packages.push(package("openmpi-bin", openmpi));
    if days < 30 {
        packages.push(package("perf", "6.12-1"));
    }
    ImageDetail {
        image: Image {
            id: format!("id-{date}"),
            name: format!("compute-{date}"),
            built: Some(Timestamp::now() - Duration::from_secs(days * 86_400)),
            size_mib: 1800,
            descent: vec![format!("base-{date}"), "debian-12".into()],
            software: vec!["compute".into(), "mpi".into()],
            packages: packages.len(),
            is_test: false,
        },
        packages,
    }
}

/// A day of nodes that come and go.
fn elastic(nodes: usize, at: Timestamp) -> Elastic {
    let first = nodes * 9 / 10;
    let ago = |seconds: usize| at - Duration::from_secs(seconds as u64);
    let request = |number: usize, is_start: bool| {
        let asked = number * 1700 + if is_start { 1500 } else { 200 };
        let failed = is_start && number % 11 == 10;
        PowerRequest {
            node: name(first + number % (nodes - first).max(1)),
            group: "burst".into(),
            kind: if is_start { "resume".into() } else { "suspend".into() },
            // A job that still runs, and others that are over.
            jobs: is_start
                .then(|| if number == 0 { "5010,8000".into() } else { (8000 + number).to_string() }),
            received: ago(asked),
            began: Some(ago(asked - 4)),
            finished: Some(ago(asked - 40 - number % 30)),
            state: if failed { "failed".into() } else { "done".into() },
            error: failed.then(|| "no valid host was found".into()),
        }
    };
    let requests = (0..48).flat_map(|number| [request(number, false), request(number, true)]);
    let group = ElasticGroup {
        name: "burst".into(),
        nodes: nodes - first,
        failures: 2,
        paused_until: Some(at + Duration::from_secs(300)),
        problem: Some("no valid host was found".into()),
        last_failure: Some(ago(120)),
    };
    // It grows and shrinks twice in that time.
    let queue = (0..144_usize).map(|number| {
        let waiting = 40 - (number % 72).abs_diff(36);
        QueueLength { time: ago((144 - number) * 600), running: 60, waiting }
    });
    Elastic { groups: vec![group], requests: requests.collect(), queue: queue.collect() }
}

fn queue(nodes: usize, at: Timestamp) -> Vec<QueuedJob> {
    const REASONS: [&str; 8] = [
        "Resources",
        "Priority",
        "Priority",
        "Dependency",
        "AssocGrpCPUMinutesLimit",
        "QOSMaxJobsPerUserLimit",
        "ReqNodeNotAvail, UnavailableNodes:node-0019",
        "SomethingNew",
    ];
    const USERS: [(&str, &str); 4] =
        [("ann", "physics"), ("bob", "physics"), ("eve", "chem"), ("joe", "bio")];
    let ago = |seconds: usize| Some(at - Duration::from_secs(seconds as u64));
    let job = |number: usize| {
        let (user, account) = USERS[number % USERS.len()];
        QueuedJob {
            name: ["relax", "sweep", "train<b>", "assemble"][number % 4].into(),
            user: user.into(),
            account: account.into(),
            partition: if number.is_multiple_of(9) { "burst".into() } else { "main".into() },
            qos: "normal".into(),
            nodes: 1 + u32::try_from(number % 4).unwrap_or(0),
            cpus: 64 * (1 + u32::try_from(number % 4).unwrap_or(0)),
            time_limit: "1-00:00:00".into(),
            ..QueuedJob::default()
        }
    };
    let running = (0..nodes / 3).map(|number| QueuedJob {
        id: (5000 + number).to_string(),
        state: "RUNNING".into(),
        start: ago(30 + number * 61),
        submitted: ago(900 + number * 61),
        nodelist: name(number * 2),
        ..job(number)
    });
    let waiting = (0..(nodes / 8).max(8)).map(|number| QueuedJob {
        id: if number % 7 == 6 { format!("{}_[1-64]", 9000 + number) } else { (9000 + number).to_string() },
        state: "PENDING".into(),
        reason: REASONS[number % REASONS.len()].into(),
        priority: 90_000 - number as u64,
        submitted: ago(60 + number * 17),
        start: (number % REASONS.len() == 0).then(|| at + Duration::from_secs(1800)),
        dependency: if number % REASONS.len() == 3 { "afterok:8999".into() } else { String::new() },
        ..job(number)
    });
    running.chain(waiting).collect()
}

impl Cluster for Fake {
    fn name(&self) -> String {
        "demo".into()
    }

    fn outside(&self) -> watch::Receiver<Option<DashboardSettings>> {
        self.outside.subscribe()
    }

    async fn look(&self) -> Result<Look, Problem> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if self.lively {
            self.advance();
        }
        Ok(self.seen().0)
    }

    fn records(&self) -> Result<Records, Problem> {
        Ok(self.seen().1)
    }

    async fn dossier(&self, node: &str) -> Result<NodeDossier, Problem> {
        let (look, _) = self.seen();
        let found = look.nodes.into_iter().find(|n| n.name == node);
        let found = found.ok_or_else(|| Problem::Unknown(format!("{node} is not there")))?;
        let in_order = found.finding.is_none();
        Ok(NodeDossier {
            format: Version,
            observed: look.observed,
            slurm_problem: None,
            cloud_problem: None,
            health: NodeHealth {
                node: found.name,
                group: found.group,
                elastic: found.elastic,
                slurm: found.state,
                reason: found.reason,
                reason_by: found.reason_by,
                booted: found.booted,
                slurmd_started: found.slurmd_started,
                carries_jobs: found.cpus_allocated > 0,
                in_order,
                instances: Vec::new(),
                left_alone: None,
                finding: found.finding.map(|f| FindingReport {
                    subject: f.subject,
                    rule: "down-with-instance".into(),
                    text: f.text,
                    since: look.observed,
                    is_early: false,
                    due: f.due,
                    actions: vec!["reboot its instance".into()],
                }),
            },
            consoles: vec![Console {
                instance: "i-1".into(),
                lines: vec!["[    0.000000] Linux version 6.12".into(), "login: ".into()],
            }],
            requests: Vec::new(),
            events: Vec::new(),
            last_look: Some(look.observed),
            group_failures: None,
        })
    }

    async fn images(&self) -> Result<Vec<ImageDetail>, Problem> {
        Ok(vec![image("2026-10-01", 45, "5.1"), image("2026-11-01", 12, "5.2")])
    }

    fn elastic(&self) -> Result<Elastic, Problem> {
        Ok(elastic(self.nodes, Timestamp::now()))
    }

    fn usage(&self) -> Result<UsageReport, Problem> {
        Ok(fake_health::usage(Timestamp::now()))
    }

    fn health(&self) -> Result<Health, Problem> {
        let broken = *lock(&self.broken);
        Ok(fake_health::health(broken, Timestamp::now()))
    }

    fn rollout(&self, id: i64) -> Result<RolloutDetail, Problem> {
        let report = RolloutReport::from(lock(&self.rollout).clone());
        if report.rollout.id != id {
            return Err(Problem::Unknown(format!("there is no rollout {id}")));
        }
        Ok(RolloutDetail { rollout: rollout(&report), nodes: rollout_nodes(&report) })
    }

    fn steer(&self, id: i64, order: Order, by: &str) -> Result<(), Problem> {
        self.rollout(id)?;
        let mut rollout = lock(&self.rollout);
        let (to, word) = match (order, &rollout.state) {
            (Order::Pause, RolloutState::Running) => (RolloutState::Paused, "paused"),
            (Order::Resume, RolloutState::Paused) => (RolloutState::Running, "resumed"),
            (Order::Abort, RolloutState::Running | RolloutState::Paused) => {
                (RolloutState::Aborting, "aborted")
            }
            (_, state) => return Err(Problem::Refused(format!("rollout {id} is {}", state.message()))),
        };
        rollout.state = to;
        drop(rollout);
        self.put("", &format!("rollout {id}"), &format!("asked by {by}"), word);
        Ok(())
    }

    fn events(&self, query: &EventQuery) -> Result<Vec<Event>, Problem> {
        let events = lock(&self.events);
        let wanted = events.iter().rev().filter(|event| {
            query.node.as_ref().is_none_or(|node| *node == event.node)
                && query.since.is_none_or(|since| event.time >= since)
                && query.before.is_none_or(|before| event.id < before)
        });
        Ok(wanted.take(query.most as usize).cloned().collect())
    }

    async fn history(&self, query: &HistoryQuery, since: Timestamp, most: usize) -> Result<History, Problem> {
        self.accounting()?;
        Ok(jobs::history(query, since, most))
    }

    async fn past_jobs(&self, id: &str, _most: usize) -> Result<Vec<PastJob>, Problem> {
        self.accounting()?;
        Ok(jobs::past_jobs(id))
    }

    async fn sharing(&self, node: &str) -> Result<Sharing, Problem> {
        let found = self.seen().0.nodes.into_iter().find(|n| n.name == node);
        let found = found.ok_or_else(|| Problem::Unknown(format!("{node} is not there")))?;
        Ok(jobs::sharing(found.cpus_allocated, found.cpus, found.memory_mib))
    }

    async fn rules(&self) -> Result<SlurmRules, Problem> {
        Ok(jobs::rules())
    }

    async fn statistics(&self) -> Result<Statistics, Problem> {
        Ok(jobs::statistics())
    }

    async fn figures(&self) -> Result<Vec<Figures>, Problem> {
        let events = u32::try_from(lock(&self.events).len()).unwrap_or(u32::MAX);
        Ok(vec![Figures::counter("kiln_events_total", "Events.", one(events.into()))])
    }

    fn log(&self, what: &str, why: &str, outcome: &str) -> Result<(), Problem> {
        self.put("", what, why, outcome);
        Ok(())
    }

    fn add_key(&self, hash: &str, key: &Key) -> Result<(), Problem> {
        lock(&self.keys).insert(hash.into(), key.clone());
        Ok(())
    }

    fn key(&self, kind: KeyKind, hash: &str) -> Result<Option<Key>, Problem> {
        let keys = lock(&self.keys);
        let found = keys.get(hash).filter(|key| key.kind == kind && key.expires > Timestamp::now());
        Ok(found.cloned())
    }

    fn take_key(&self, kind: KeyKind, hash: &str) -> Result<Option<Key>, Problem> {
        let found = self.key(kind, hash)?;
        if found.is_some() {
            lock(&self.keys).remove(hash);
        }
        Ok(found)
    }
}
