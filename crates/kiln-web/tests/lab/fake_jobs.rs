//! What the accounting and slurmctld would say of the jobs of a cluster that is not there.

use std::time::Duration;

use jiff::Timestamp;
use kiln_slurm::{
    Devices, ExitCode, History, HistoryQuery, License, PastJob, Qos, QosLimit, Record, Reservation, Scope,
    Share, Sharing, SlurmRules, Statistics, TimeLimit,
};

const JOBS: usize = 240;
const GIB: u64 = 1 << 30;

/// How some of the jobs ended: state, code, signal.
const ENDS: [(&str, u16, u16); 8] = [
    ("COMPLETED", 0, 0),
    ("COMPLETED", 0, 0),
    ("FAILED", 127, 0),
    ("COMPLETED", 0, 0),
    ("TIMEOUT", 0, 15),
    ("COMPLETED", 0, 0),
    ("OUT_OF_MEMORY", 0, 125),
    ("CANCELLED", 0, 15),
];

const USERS: [(&str, &str); 4] = [("ann", "physics"), ("bob", "physics"), ("eve", "chem"), ("joe", "bio")];

fn past_job(number: usize, at: Timestamp) -> PastJob {
    let (state, code, signal) = ENDS[number % ENDS.len()];
    let (user, account) = USERS[number % USERS.len()];
    let wide = number as u64;
    let elapsed = if state == "TIMEOUT" { 14_400 } else { 3000 + wide * 37 % 9000 };
    let ended = at - Duration::from_secs(120 + wide * 400);
    let started = ended - Duration::from_secs(elapsed);
    let (job, submitted) = match number {
        number if number % 7 == 6 => (format!("{}_{}", 4999 - number, number % 5), wide * 3),
        number => ((4999 - number).to_string(), 40 + wide * 11 % 5000),
    };
    let record = Record {
        job,
        name: ["relax", "sweep", "train<b>", "assemble"][number % 4].into(),
        user: user.into(),
        account: account.into(),
        partition: "main".into(),
        qos: "normal".into(),
        state: state.into(),
        cancelled_by: (state == "CANCELLED").then(|| "2001".into()),
        exit: Some(ExitCode { code, signal }),
        submitted: Some(started - Duration::from_secs(submitted)),
        eligible: Some(started - Duration::from_secs(submitted)),
        started: Some(started),
        ended: Some(ended),
        elapsed,
        limit: if number % 5 == 4 { TimeLimit::Unlimited } else { TimeLimit::Seconds(14_400) },
        nodes: 1,
        cpus_requested: 16,
        cpus: 16,
        memory_requested: Some(64 * GIB),
        cpu_time: Some(elapsed * 16 * (250 + wide * 97 % 740)),
        nodelist: super::name(number),
        ..Record::default()
    };
    let step = |step: &str, name: &str, memory: u64, cpu_time| Record {
        step: Some(step.into()),
        name: name.into(),
        memory_used: Some(memory),
        cpu_time,
        ..record.clone()
    };
    let steps = vec![
        step("batch", "batch", GIB / 50, Some(2400)),
        step("0", "solver", GIB * (6 + wide * 13 % 57), record.cpu_time),
    ];
    PastJob { record, steps }
}

pub fn history(query: &HistoryQuery, since: Timestamp, most: usize) -> History {
    let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
    let at = Timestamp::now();
    let all = (0..JOBS).map(|number| past_job(number, at).record).filter(|record| {
        is(&query.user, &record.user)
            && is(&query.account, &record.account)
            && is(&query.partition, &record.partition)
            && query.takes(record)
            && record.ended.is_some_and(|ended| ended >= since)
    });
    let mut jobs: Vec<Record> = all.collect();
    let is_whole = jobs.len() <= most;
    jobs.truncate(most);
    History { since, jobs, is_whole }
}

pub fn past_jobs(id: &str) -> Vec<PastJob> {
    let at = Timestamp::now();
    let all = (0..JOBS).map(|number| past_job(number, at));
    all.filter(|job| job.record.job == id || job.record.base() == id).collect()
}

/// Three jobs share what is taken.
pub fn sharing(taken: u32, cpus: u32, memory_mib: u64) -> Sharing {
    let parts = [taken / 2, taken / 4, taken - taken / 2 - taken / 4];
    let mut first = 0;
    let mut shares = Vec::new();
    for (number, part) in parts.into_iter().enumerate().filter(|(_, part)| *part > 0) {
        let gpu = u32::try_from(number).unwrap_or(0);
        shares.push(Share {
            job: (5000 + number).to_string(),
            user: USERS[number % USERS.len()].0.into(),
            cpus: (first..first + part).collect(),
            memory_mib: memory_mib / 8 * (number as u64 + 1),
            devices: vec![Devices {
                name: "gpu".into(),
                kind: Some("a100".into()),
                count: 1,
                indexes: vec![gpu],
            }],
        });
        first += part;
    }
    let gpus = Devices { name: "gpu".into(), kind: Some("a100".into()), count: 4, indexes: Vec::new() };
    Sharing { cpus, memory_mib, devices: vec![gpus], shares }
}

pub fn rules() -> SlurmRules {
    let at = Timestamp::now();
    let limit = |scope, name: &str, resource: Option<&str>, limit: &str, used: Option<&str>| QosLimit {
        scope,
        name: name.into(),
        resource: resource.map(String::from),
        limit: limit.into(),
        used: used.map(String::from),
    };
    let normal = Qos { name: "normal".into(), running: 66, submitted: 91, ..Qos::default() };
    let short = Qos {
        name: "short".into(),
        priority: 100,
        running: 4,
        submitted: 9,
        limits: vec![
            limit(Scope::Whole, "GrpTRES", Some("cpu"), "256", Some("256")),
            limit(Scope::Whole, "GrpTRES", Some("gres/gpu"), "8", Some("3")),
            limit(Scope::Job, "MaxWallPJ", None, "60", None),
            limit(Scope::EachUser, "MaxJobsPU", None, "4", None),
            limit(Scope::User("ann".into()), "MaxJobsPU", None, "4", Some("3")),
        ],
    };
    let hours = |hours: u64| Some(at + Duration::from_secs(hours * 3600));
    let reservation =
        |name: &str, flags: &str, state: &str, from, to, nodes: &str, users: &str| Reservation {
            name: name.into(),
            start: hours(from),
            end: hours(to),
            nodes: nodes.into(),
            cores: 640,
            users: users.into(),
            flags: flags.into(),
            state: state.into(),
            ..Reservation::default()
        };
    let license = |name: &str, total, used| License {
        name: name.into(),
        total,
        used,
        free: total - used,
        ..License::default()
    };
    SlurmRules {
        qos: vec![normal, short],
        reservations: vec![
            reservation("upkeep", "MAINT,SPEC_NODES", "INACTIVE", 48, 56, "node-[0000-0009]", "root"),
            reservation("course", "SPEC_NODES", "ACTIVE", 0, 6, "node-0011", "ann,bob"),
        ],
        licenses: vec![license("comsol", 4, 1), license("matlab", 50, 50)],
        problems: Vec::new(),
    }
}

/// As 24.11 prints it, of a cluster that is busy.
pub fn statistics() -> Statistics {
    let text = include_str!("../../../kiln-slurm/src/captured/24.11-sdiag.txt");
    Statistics::parse(&text.replace("DBD Agent queue size: 0", "DBD Agent queue size: 412"))
}
