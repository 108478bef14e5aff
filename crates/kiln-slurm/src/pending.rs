//! Why a job waits, in words that its owner understands.
//!
//! Slurm has a word for each reason: `AssocGrpCPUMinutesLimit`. Many follow a pattern (whose limit, on what, counted how) and are
//! put together from it; the others are in a table. A reason that is in neither is shown as Slurm says it.

use crate::queue::QueuedJob;

/// Who has to do something before the job can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nobody: it starts by itself.
    Time,
    /// Whoever submitted it.
    Owner,
    Administrator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// A whole sentence.
    pub text: String,
    /// `None`: Kiln does not know the reason.
    pub needs: Option<Needs>,
}

/// `None` if it does not wait.
pub fn why(job: &QueuedJob) -> Option<Waiting> {
    if !job.is_pending() {
        return None;
    }
    // Slurm adds names to some: `ReqNodeNotAvail, UnavailableNodes:n-[0-3]`.
    let (word, detail) = job.reason.split_once(',').unwrap_or((&job.reason, ""));
    let (word, detail) = (word.trim(), detail.trim());
    let (text, needs) = match known(word).or_else(|| limit(word)) {
        Some((text, needs)) => (fill(&text, job, detail), Some(needs)),
        None if job.reason.is_empty() => ("Slurm has not looked at it yet.".into(), Some(Needs::Time)),
        None => (format!("Slurm says: {}.", job.reason.trim_end_matches('.')), None),
    };
    Some(Waiting { text, needs })
}

/// Words in braces are the job's own.
fn fill(text: &str, job: &QueuedJob, detail: &str) -> String {
    let nodes = match detail.rsplit_once(':') {
        Some((_, nodes)) if !nodes.is_empty() => format!(" ({nodes})"),
        _ => String::new(),
    };
    let named = |kind: &str, name: &str| {
        if name.is_empty() { format!("its {kind}") } else { format!("{kind} {name}") }
    };
    let after = if job.dependency.is_empty() { String::new() } else { format!(" ({})", job.dependency) };
    text.replace("{partition}", &named("partition", &job.partition))
        .replace("{account}", &named("account", &job.account))
        .replace("{qos}", &named("QOS", &job.qos))
        .replace("{user}", if job.user.is_empty() { "its owner" } else { &job.user })
        .replace("{limit}", if job.time_limit.is_empty() { "the time asked for" } else { &job.time_limit })
        .replace("{dependency}", &after)
        .replace("{nodes}", &nodes)
}

fn known(word: &str) -> Option<(String, Needs)> {
    TABLE.iter().find(|(known, ..)| known.contains(&word)).map(|(_, text, needs)| ((*text).into(), *needs))
}

use Needs::{Administrator, Owner, Time};

type Row = (&'static [&'static str], &'static str, Needs);

const TABLE: &[Row] = &[
    (&["None", "Scheduling"], "Slurm has not looked at it yet.", Time),
    (&["Priority"], "Other jobs in {partition} have a higher priority and are to start first.", Time),
    (&["Resources"], "It is next, and waits until enough nodes, cores or memory are free.", Time),
    (&["BeginTime"], "It was submitted to start at a later time.", Time),
    (&["Dependency"], "It waits for other jobs to end{dependency}.", Time),
    (
        &["DependencyNeverSatisfied"],
        "It waits for a job that ended otherwise than it was to{dependency}, so it can never start: cancel it.",
        Owner,
    ),
    (&["JobHeldUser"], "Its owner has put it on hold: `scontrol release` lets it start.", Owner),
    (&["JobHeldAdmin"], "An administrator has put it on hold.", Administrator),
    (
        &["JobHoldMaxRequeue", "MaxRequeueExceeded"],
        "It failed to start too many times, so Slurm has put it on hold.",
        Administrator,
    ),
    (&["JobArrayTaskLimit"], "As many members of its array run as its owner allowed at a time.", Time),
    (&["Licenses"], "All licences that it asks for are in use.", Time),
    (&["Reservation"], "It waits for its reservation to begin, or for room in it.", Time),
    (&["ReservationDeleted"], "The reservation that it asks for is gone.", Owner),
    (&["InvalidReservation"], "The reservation that it asks for does not admit it.", Owner),
    (
        &["ReqNodeNotAvail", "Reserved for maintenance"],
        "Nodes that it could run on are not available now{nodes}: they are down, drained, or reserved, for example for \
         maintenance that would begin before the job ends.",
        Administrator,
    ),
    (
        &["NodeDown", "Nodes required for job are DOWN"],
        "Nodes that it needs are down, drained, or reserved for jobs of a higher priority.",
        Administrator,
    ),
    (&["NodeNotAvail"], "Nodes that it needs are not available.", Administrator),
    (
        &["PartitionDown", "PartitionInactive"],
        "{partition} starts no jobs at present: an administrator has closed it.",
        Administrator,
    ),
    (
        &["PartitionNodeLimit"],
        "It asks for more nodes, or fewer, than {partition} allows, or than are in service there.",
        Owner,
    ),
    (&["PartitionTimeLimit"], "It asks for {limit}, which is longer than {partition} allows.", Owner),
    (&["PartitionConfig"], "What it asks for does not agree with how {partition} is set up.", Owner),
    (&["BadConstraints"], "No node has what it asks for.", Owner),
    (&["InvalidAccount"], "{user} may not use {account}.", Owner),
    (&["AccountNotAllowed"], "{account} is not allowed in {partition}.", Owner),
    (&["InvalidQOS"], "{qos} does not exist, or {user} may not use it.", Owner),
    (&["QOSNotAllowed"], "{qos} is not allowed for {account} or in {partition}.", Owner),
    (&["QOSUsageThreshold"], "The share of {account} is used up beyond what {qos} allows.", Time),
    (&["AssociationJobLimit"], "As many jobs of {account} run as are allowed at a time.", Time),
    (&["QOSJobLimit"], "As many jobs of {qos} run as are allowed at a time.", Time),
    (&["AssociationResourceLimit"], "{account} has as much in use as it is allowed.", Time),
    (&["QOSResourceLimit"], "Jobs of {qos} have as much in use as is allowed.", Time),
    (&["AssociationTimeLimit"], "{account} has used up the time that it was given.", Administrator),
    (&["QOSTimeLimit"], "{qos} has used up the time that it was given.", Administrator),
    (&["Prolog", "Cleaning"], "Its nodes are being prepared, or cleaned up from its last run.", Time),
    (&["SchedDefer"], "It asked to be tried at the scheduler's next round.", Time),
    (
        &["BurstBufferResources", "BurstBufferStageIn", "BurstBufferOperation"],
        "Its data is being moved into the burst buffer, or that has no room.",
        Time,
    ),
    (&["FedJobLock"], "Another cluster of the federation is deciding where it runs.", Time),
    (
        &["PowerNotAvail", "PowerReserved"],
        "The cluster's power limit leaves nothing for it at present.",
        Time,
    ),
    (
        &["JobLaunchFailure", "launch failed requeued held"],
        "It could not be started on its nodes, so Slurm has put it on hold.",
        Administrator,
    ),
    (&["SystemFailure"], "A failure in Slurm or on a node has kept it from starting.", Administrator),
    (&["DeadLine"], "It could no longer end before the deadline that it was given.", Owner),
    (&["MaxMemPerLimit"], "It asks for more memory per core or node than {partition} allows.", Owner),
    (&["FrontEndDown"], "The machine that starts jobs here is down.", Administrator),
];

/// Reasons of accounting limits: `QOSMaxCpuPerUserLimit`, `AssocGrpMemRunMinutes`.
fn limit(word: &str) -> Option<(String, Needs)> {
    let (whose, rest) = match word.strip_prefix("Assoc") {
        Some(rest) => ("{account}", rest),
        None => ("{qos}", word.strip_prefix("QOS")?),
    };
    let rest = rest.strip_suffix("Limit").unwrap_or(rest);
    if let Some(rest) = rest.strip_prefix("Min") {
        let (what, _) = Resource::read(rest)?;
        return Some((format!("It asks for {} than {whose} demands.", what.less()), Owner));
    }
    if let Some(rest) = rest.strip_prefix("Grp") {
        let (what, rest) = Resource::read(rest)?;
        return together(&what, rest, whose);
    }
    let (what, rest) = Resource::read(rest.strip_prefix("Max")?)?;
    let (name, in_use) = (what.words, what.in_use());
    Some(match rest {
        "PerJob" | "DurationPerJob" if name == TIME => {
            (format!("It asks for {{limit}}, which is longer than {whose} allows a job."), Owner)
        }
        "MinutesPerJob" | "Minutes" => {
            (format!("It asks for more time on {name} than {whose} allows a job."), Owner)
        }
        "PerJob" => (format!("It asks for more {name} than {whose} allows a job."), Owner),
        "PerNode" => (format!("It asks for more {name} on one node than {whose} allows."), Owner),
        "PerUser" => (format!("{{user}} has {in_use} as {whose} allows a user."), Time),
        "PerAccount" => (format!("{{account}} has {in_use} as {whose} allows an account."), Time),
        "" if name == JOBS || name == WAITING_JOBS => {
            (format!("{{user}} has {in_use} as {whose} allows."), Time)
        }
        "RunMinutesPerUser" | "RunMinutesPerAccount" => {
            (format!("Running jobs have booked as much time on {name} as {whose} allows at once."), Time)
        }
        _ => return None,
    })
}

/// Limits on all jobs of an account or QOS taken together.
fn together(what: &Resource, rest: &str, whose: &str) -> Option<(String, Needs)> {
    let name = what.words;
    Some(match rest {
        "" if name == TIME => (
            format!("Jobs of {whose} have used up the running time that they are given together."),
            Administrator,
        ),
        "" if name == JOBS => (format!("As many jobs of {whose} run as may at a time."), Time),
        "" => (format!("Jobs of {whose} together have {} as they may.", what.in_use()), Time),
        "RunMinutes" => (
            format!(
                "Running jobs of {whose} together have booked as much time on {name} as they may at once: it starts when \
                 some of them end."
            ),
            Time,
        ),
        "Minutes" => (
            format!("Jobs of {whose} have used up the time on {name} that they are given together."),
            Administrator,
        ),
        _ => return None,
    })
}

/// What is limited.
struct Resource {
    words: &'static str,
    /// It is measured, not counted: as much of it, not as many.
    is_measured: bool,
}

const TIME: &str = "time";
const JOBS: &str = "jobs";
const WAITING_JOBS: &str = "jobs in the queue";

/// As the words of reasons have them. Longer names come first.
const RESOURCES: [(&str, &str, bool); 15] = [
    ("SubmitJobs", WAITING_JOBS, false),
    ("SubmitJob", WAITING_JOBS, false),
    ("Jobs", JOBS, false),
    ("Cpu", "cores", false),
    ("CPU", "cores", false),
    ("Memory", "memory", true),
    ("Mem", "memory", true),
    ("Node", "nodes", false),
    ("GRES", "GPUs or other devices", false),
    ("Gres", "GPUs or other devices", false),
    ("License", "licences", false),
    ("Billing", "billing units", false),
    ("Energy", "energy", true),
    ("BB", "space in the burst buffer", true),
    ("Wall", TIME, true),
];

impl Resource {
    /// And how the word goes on.
    fn read(rest: &str) -> Option<(Resource, &str)> {
        RESOURCES.iter().find_map(|&(name, words, is_measured)| {
            Some((Resource { words, is_measured }, rest.strip_prefix(name)?))
        })
    }

    fn in_use(&self) -> String {
        match (self.words, self.is_measured) {
            (JOBS, _) => "as many jobs running".into(),
            (WAITING_JOBS, _) => "as many jobs in the queue".into(),
            (words, true) => format!("as much {words} in use"),
            (words, false) => format!("as many {words} in use"),
        }
    }

    fn less(&self) -> String {
        format!("{} {}", if self.is_measured { "less" } else { "fewer" }, self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(reason: &str) -> QueuedJob {
        QueuedJob {
            user: "ann".into(),
            account: "physics".into(),
            partition: "main".into(),
            qos: "short".into(),
            state: "PENDING".into(),
            time_limit: "2-00:00:00".into(),
            dependency: "afterok:17".into(),
            reason: reason.into(),
            ..QueuedJob::default()
        }
    }

    fn told(reason: &str) -> (String, Option<Needs>) {
        let waiting = why(&job(reason)).unwrap();
        (waiting.text, waiting.needs)
    }

    #[test]
    fn reasons_are_sentences_with_the_jobs_own_names() {
        let rows = [
            ("Priority", "Other jobs in partition main have a higher priority and are to start first.", Time),
            ("Dependency", "It waits for other jobs to end (afterok:17).", Time),
            (
                "PartitionTimeLimit",
                "It asks for 2-00:00:00, which is longer than partition main allows.",
                Owner,
            ),
            ("InvalidAccount", "ann may not use account physics.", Owner),
            ("QOSMaxCpuPerUserLimit", "ann has as many cores in use as QOS short allows a user.", Time),
            (
                "QOSMaxGRESPerUser",
                "ann has as many GPUs or other devices in use as QOS short allows a user.",
                Time,
            ),
            ("QOSMaxJobsPerUserLimit", "ann has as many jobs running as QOS short allows a user.", Time),
            ("QOSMaxMemoryPerUser", "ann has as much memory in use as QOS short allows a user.", Time),
            ("QOSMinMemory", "It asks for less memory than QOS short demands.", Owner),
            ("AssocGrpJobsLimit", "As many jobs of account physics run as may at a time.", Time),
            ("AssocMaxJobsLimit", "ann has as many jobs running as account physics allows.", Time),
            ("QOSMinCpuNotSatisfied", "It asks for fewer cores than QOS short demands.", Owner),
            (
                "AssocMaxWallDurationPerJobLimit",
                "It asks for 2-00:00:00, which is longer than account physics allows a job.",
                Owner,
            ),
            (
                "AssocGrpCPUMinutesLimit",
                "Jobs of account physics have used up the time on cores that they are given together.",
                Administrator,
            ),
            ("QOSGrpNodeLimit", "Jobs of QOS short together have as many nodes in use as they may.", Time),
            (
                "AssocGrpWallLimit",
                "Jobs of account physics have used up the running time that they are given together.",
                Administrator,
            ),
        ];
        for (reason, text, needs) in rows {
            assert_eq!(told(reason), (text.to_string(), Some(needs)), "{reason}");
        }
    }

    #[test]
    fn nodes_that_slurm_names_are_named() {
        let (text, needs) = told("ReqNodeNotAvail, UnavailableNodes:main-[0-3]");
        assert!(text.starts_with("Nodes that it could run on are not available now (main-[0-3]):"), "{text}");
        assert_eq!(needs, Some(Administrator));
        assert!(told("ReqNodeNotAvail").0.contains("available now: they"));
    }

    #[test]
    fn what_slurm_says_in_words_is_recognised_by_its_beginning() {
        let (text, _) = told(
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        );
        assert!(text.starts_with("Nodes that it needs are down"), "{text}");
    }

    #[test]
    fn an_unknown_reason_is_shown_as_it_is() {
        for reason in ["SomethingNew", "QOSGrpSomethingNew", "AssocMaxCpuPerMoon", "QOS", "Assoc"] {
            assert_eq!(told(reason), (format!("Slurm says: {reason}."), None));
        }
        assert_eq!(told("").1, Some(Time));
    }

    /// A placeholder that is misspelt would be shown.
    #[test]
    fn every_sentence_is_whole() {
        let bare = |reason: &str| QueuedJob {
            state: "PENDING".into(),
            reason: reason.into(),
            ..QueuedJob::default()
        };
        let limits =
            ["AssocGrpCpuLimit", "QOSMaxMemoryPerNode", "AssocGrpMemRunMinutes", "QOSMaxNodePerAccount"];
        for word in TABLE.iter().flat_map(|(words, ..)| words.iter()).chain(&limits) {
            for job in [job(word), bare(word)] {
                let text = why(&job).unwrap().text;
                assert!(!text.contains(['{', '}']) && text.ends_with('.') && !text.contains("  "), "{text}");
            }
        }
    }

    #[test]
    fn a_job_that_runs_waits_for_nothing() {
        assert_eq!(why(&QueuedJob { state: "RUNNING".into(), ..job("None") }), None);
    }
}
