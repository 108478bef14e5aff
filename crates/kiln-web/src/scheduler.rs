//! What slurmctld counts about itself (`sdiag`), with what each figure means and whether it is fine.

use kiln_slurm::{Section, Statistics};

use crate::describe::described;

described! {
    /// What is to be thought of a figure.
    pub enum Verdict {
        Fine = "fine",
        /// It may become a problem.
        Watch = "watch",
        /// Somebody has to do something.
        Wrong = "wrong",
        /// It only counts something.
        Count = "count",
    }
}

described! {
    /// One figure of Slurm's scheduler.
    pub struct SchedulerFigure {
        pub name: String,
        pub value: u64,
        /// `microseconds`, or empty for a number of things.
        pub unit: String,
        /// What it counts.
        pub meaning: String,
        pub verdict: Verdict,
        /// Why it is judged like that, and what can be done; empty where nothing is to be said.
        pub advice: String,
    }
}

described! {
    /// Figures of one part of slurmctld.
    pub struct SchedulerPart {
        pub name: String,
        pub meaning: String,
        pub figures: Vec<SchedulerFigure>,
    }
}

described! {
    /// How slurmctld and its schedulers do.
    pub struct Scheduler {
        /// The worst of all figures.
        pub verdict: Verdict,
        /// The same as a sentence.
        pub summary: String,
        pub parts: Vec<SchedulerPart>,
    }
}

/// Where a figure begins to be worth watching, and to be wrong, and what is said then.
#[derive(Clone, Copy)]
struct Scale {
    watch: u64,
    wrong: u64,
    advice: &'static str,
}

struct Row {
    section: Section,
    /// sdiag's words.
    words: &'static str,
    is_time: bool,
    meaning: &'static str,
    scale: Option<Scale>,
}

const SECOND: u64 = 1_000_000;

const fn count(section: Section, words: &'static str, meaning: &'static str) -> Row {
    Row { section, words, is_time: false, meaning, scale: None }
}

impl Row {
    const fn judged(mut self, watch: u64, wrong: u64, advice: &'static str) -> Row {
        self.scale = Some(Scale { watch, wrong, advice });
        self
    }

    const fn time(mut self) -> Row {
        self.is_time = true;
        self
    }
}

const SLOW_MAIN: &str = "While it looks through the queue, slurmctld answers nobody. SchedulerParameters such as \
                         default_queue_depth and sched_interval make each look shorter or rarer.";
const SLOW_BACKFILL: &str = "It hardly gets through the queue in its time (bf_interval, 30 s unless slurm.conf says otherwise). \
                             SchedulerParameters such as bf_max_job_user and bf_resolution let it look at fewer jobs, or less closely.";

const ROWS: &[Row] = &[
    count(
        Section::Server,
        "Server thread count",
        "Questions that slurmctld is answering now. At 256 others have to wait.",
    )
    .judged(100, 230, "Somebody may be asking too often, for example with squeue in a loop."),
    count(Section::Server, "Agent queue size", "Messages to nodes that wait to be sent.").judged(
        200,
        2000,
        "Nodes that do not answer hold up messages to others: see which are down.",
    ),
    count(
        Section::Server,
        "DBD Agent queue size",
        "Records of jobs that wait for slurmdbd. They are kept until it takes them.",
    )
    .judged(
        200,
        5000,
        "slurmdbd or its database is down or slow. Records are lost when the queue is full (MaxDBDMsgs).",
    ),
    count(Section::Server, "Jobs submitted", "Jobs submitted since midnight UTC."),
    count(Section::Server, "Jobs started", "Jobs started since midnight UTC."),
    count(Section::Server, "Jobs completed", "Jobs that have ended since midnight UTC."),
    count(Section::Server, "Jobs canceled", "Jobs cancelled since midnight UTC."),
    count(Section::Server, "Jobs failed", "Jobs that Slurm could not start or lost since midnight UTC."),
    count(Section::Main, "Last cycle", "How long its last look at the queue took.").time().judged(
        SECOND,
        5 * SECOND,
        SLOW_MAIN,
    ),
    count(Section::Main, "Mean cycle", "How long a look takes, on average since midnight UTC.")
        .time()
        .judged(SECOND, 5 * SECOND, SLOW_MAIN),
    count(Section::Main, "Max cycle", "The longest look since midnight UTC.").time(),
    count(Section::Main, "Cycles per minute", "How often it looks at the queue."),
    count(Section::Main, "Last queue length", "Jobs that waited at its last look."),
    count(Section::Backfill, "Last cycle", "How long its last look at the queue took.").time().judged(
        15 * SECOND,
        30 * SECOND,
        SLOW_BACKFILL,
    ),
    count(Section::Backfill, "Mean cycle", "How long a look takes, on average since midnight UTC.")
        .time()
        .judged(15 * SECOND, 30 * SECOND, SLOW_BACKFILL),
    count(Section::Backfill, "Max cycle", "The longest look since midnight UTC.").time(),
    count(Section::Backfill, "Last depth cycle", "Jobs that it looked at the last time."),
    count(Section::Backfill, "Last queue length", "Jobs that waited at its last look."),
    count(
        Section::Backfill,
        "Total backfilled jobs (since last slurm start)",
        "Jobs that it has started ahead of their turn, without making others wait.",
    ),
];

const PARTS: [(Section, &str, &str); 3] = [
    (
        Section::Server,
        "slurmctld",
        "The daemon that everybody asks, and what has become of jobs. It counts from its last start, or from midnight UTC if that was later.",
    ),
    (
        Section::Main,
        "Main scheduler",
        "It starts jobs in the order of their priority, until one of them has to wait.",
    ),
    (
        Section::Backfill,
        "Backfill scheduler",
        "It starts jobs of lower priority where that makes no job of higher priority start later.",
    ),
];

fn figure(row: &Row, statistics: &Statistics) -> Option<SchedulerFigure> {
    let value = statistics.value(row.section, row.words)?;
    let (verdict, advice) = match row.scale {
        None => (Verdict::Count, ""),
        Some(scale) if value >= scale.wrong => (Verdict::Wrong, scale.advice),
        Some(scale) if value >= scale.watch => (Verdict::Watch, scale.advice),
        Some(_) => (Verdict::Fine, ""),
    };
    Some(SchedulerFigure {
        name: row.words.split(" (").next().unwrap_or(row.words).into(),
        value,
        unit: if row.is_time { "microseconds".into() } else { String::new() },
        meaning: row.meaning.into(),
        verdict,
        advice: advice.into(),
    })
}

/// A release that does not tell a figure has none.
pub fn scheduler(statistics: &Statistics) -> Scheduler {
    let parts: Vec<SchedulerPart> = PARTS
        .iter()
        .map(|(section, name, meaning)| SchedulerPart {
            name: (*name).into(),
            meaning: (*meaning).into(),
            figures: ROWS
                .iter()
                .filter(|row| row.section == *section)
                .filter_map(|row| figure(row, statistics))
                .collect(),
        })
        .collect();
    let figures = || parts.iter().flat_map(|part| &part.figures);
    let has = |verdict| figures().any(|figure| figure.verdict == verdict);
    let (verdict, summary) = if has(Verdict::Wrong) {
        (Verdict::Wrong, "Something is wrong: see the figures that are marked.")
    } else if has(Verdict::Watch) {
        (Verdict::Watch, "Slurm keeps up, but some figures are worth watching.")
    } else if has(Verdict::Fine) {
        (Verdict::Fine, "Slurm keeps up with its work.")
    } else {
        (Verdict::Count, "Slurm tells nothing about itself.")
    };
    Scheduler { verdict, summary: summary.into(), parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_judged() {
        let text = "Server thread count: 3\nDBD Agent queue size: 9000\n\nMain schedule statistics (microseconds):\n\
                    \tLast cycle: 2000000\n\tCycles per minute: 1\n";
        let seen = scheduler(&Statistics::parse(text));
        let verdict = |name: &str| {
            let mut all = seen.parts.iter().flat_map(|part| &part.figures);
            all.find(|figure| figure.name == name).map(|figure| (figure.verdict, figure.advice.is_empty()))
        };
        assert_eq!(verdict("Server thread count"), Some((Verdict::Fine, true)));
        assert_eq!(verdict("DBD Agent queue size"), Some((Verdict::Wrong, false)));
        assert_eq!(verdict("Last cycle"), Some((Verdict::Watch, false)));
        assert_eq!(verdict("Cycles per minute"), Some((Verdict::Count, true)));
        assert_eq!(verdict("Mean cycle"), None);
        assert_eq!(seen.verdict, Verdict::Wrong);
        assert_eq!(scheduler(&Statistics::default()).verdict, Verdict::Count);
    }
}
