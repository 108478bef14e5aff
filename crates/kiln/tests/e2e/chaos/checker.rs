//! An independent judge. It reads Slurm's accounts and the local cloud's own records, and nothing that Kiln says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use jiff::Timestamp;
use kiln_wire::labels;

use super::NODES;
use super::load::read_name;
use crate::instance;
use crate::lab::{Lab, USER, cloud_root};

/// Seconds between the beginning of a job, as Slurm tells it, and that of its script, and between their ends.
const LAG: i64 = 8;
/// Seconds within which Slurm launches what waited for its nodes: it looks every thirty.
const RELAUNCHED_WITHIN: i64 = 40;

/// What the faults themselves are to blame for.
#[derive(Default)]
pub struct Excuses {
    /// Jobs on nodes that the campaign took away.
    pub jobs: BTreeSet<String>,
    /// Slurm saves its state every few seconds: what changed just before it was killed, it may have forgotten.
    pub forgotten: Vec<(i64, i64)>,
    /// Nodes on which nothing could begin, and when.
    pub starts: Vec<(String, i64, i64)>,
    /// When instances could not be made: jobs for the elastic group that began then.
    pub no_room: Vec<(i64, i64)>,
}

/// One run of a job.
#[derive(Debug)]
struct Run {
    id: String,
    name: String,
    /// For how long it was to run.
    seconds: Option<i64>,
    state: String,
    submitted: i64,
    /// `None` for one that never began.
    began: Option<i64>,
    /// `None` while it runs.
    ended: Option<i64>,
    nodes: Vec<String>,
}

/// An instance that the cloud was told to end, rebuild, reboot or stop.
struct Touch {
    at: i64,
    node: String,
    how: String,
}

pub fn now() -> i64 {
    Timestamp::now().as_second()
}

/// What is wrong already, while jobs still run and wait. Nothing is, as far as can be told while the accounts do not answer.
pub fn judge_so_far(lab: &Lab, since: i64, excuses: &Excuses) -> Vec<String> {
    let Some(runs) = try_runs(lab, since) else { return Vec::new() };
    let excused: BTreeSet<&str> =
        runs.iter().filter(|run| excuses.cover(run)).map(|r| r.id.as_str()).collect();
    let is_harmed = |run: &&Run| {
        let ended = run.began.is_some() && run.ended.is_some();
        ended && !["COMPLETED", "RUNNING", "PENDING"].contains(&run.state.as_str())
    };
    let harmed = runs.iter().filter(is_harmed).filter(|run| !excused.contains(run.id.as_str()));
    let mut wrong: Vec<String> = harmed.map(|run| format!("job {} was harmed: {run:?}", run.id)).collect();
    // The accounts hear late of the end of what they show as running.
    let ended: Vec<Run> = runs.into_iter().filter(|run| run.ended.is_some()).collect();
    wrong.extend(touched(&ended, since, excuses));
    wrong
}

/// What is wrong with the jobs since the campaign began; empty if nothing is.
pub fn judge(lab: &Lab, since: i64, submitted: &[(String, i64)], excuses: &Excuses) -> Vec<String> {
    let runs = runs(lab, since);
    let mut wrong = Vec::new();
    let mut by_job: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &runs {
        by_job.entry(&run.id).or_default().push(run);
    }
    for (id, at) in submitted {
        let found = by_job.keys().any(|job| *job == id || job.split('_').next() == Some(id));
        if !found && !within(&excuses.forgotten, *at) {
            wrong.push(format!("job {id} is in no account"));
        }
    }
    for (id, runs) in &by_job {
        let excused = runs.iter().any(|run| excuses.cover(run));
        let begun = runs.iter().filter(|run| run.began.is_some()).count();
        let last = runs.last().expect("a run");
        let once = last.name.ends_with("once") || last.name == "srun";
        // A job that was being launched when its node went away has not run there, and Slurm lets it wait again.
        if once && begun > 1 && !runs.iter().any(|run| excuses.forgot(run) || excuses.kept_from_start(run)) {
            wrong.push(format!("job {id} was to run once and began {begun} times: {runs:?}"));
        }
        if !excused && (begun != 1 || last.state != "COMPLETED") {
            wrong.push(format!("job {id} was harmed: {runs:?}"));
        }
    }
    wrong.extend(touched(&runs, since, excuses));
    wrong
}

/// Instances that the cloud was told to end, rebuild, reboot or stop under a job.
fn touched(runs: &[Run], since: i64, excuses: &Excuses) -> Vec<String> {
    let mut wrong = Vec::new();
    for touch in touches(since) {
        for run in runs {
            let under = run.nodes.contains(&touch.node)
                && run.began.is_some_and(|began| began < touch.at)
                && run.ended.is_none_or(|ended| ended > touch.at);
            if under && !excuses.cover(run) {
                wrong.push(format!("{} of {} at {} under {run:?}", touch.how, touch.node, touch.at));
            }
        }
    }
    wrong
}

/// Figures of a campaign.
pub fn count(lab: &Lab, since: i64, excuses: &Excuses) -> String {
    let runs = runs(lab, since);
    let jobs: BTreeSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    let harmed: BTreeSet<&str> = (runs.iter())
        .filter(|run| run.state != "COMPLETED" && run.began.is_some())
        .map(|run| run.id.as_str())
        .collect();
    let excused: BTreeSet<&str> =
        runs.iter().filter(|run| excuses.cover(run)).map(|run| run.id.as_str()).collect();
    format!(
        "{} jobs, {} runs; {} jobs had a fault as an excuse, {} were hit by one",
        jobs.len(),
        runs.len(),
        excused.len(),
        harmed.len()
    )
}

fn within(windows: &[(i64, i64)], at: i64) -> bool {
    windows.iter().any(|(from, to)| (*from..=*to).contains(&at))
}

impl Excuses {
    fn kept_from_start(&self, run: &Run) -> bool {
        let on = |node: &str, from: i64, to: i64| {
            run.nodes.iter().any(|n| n == node) && run.began.is_some_and(|began| (from..=to).contains(&began))
        };
        self.starts.iter().any(|(node, from, to)| on(node, *from, *to))
    }

    fn cover(&self, run: &Run) -> bool {
        self.jobs.contains(&run.id)
            || self.forgot(run)
            || self.kept_from_start(run)
            || (run.name.starts_with("burst") && run.began.is_some_and(|began| within(&self.no_room, began)))
    }

    fn forgot(&self, run: &Run) -> bool {
        // That it had ended, too: then Slurm tells another end, or another beginning.
        let end = run.began.zip(run.seconds).map(|(began, seconds)| began + seconds);
        // That it had been launched, too: then the second launch is refused, when Slurm has looked at the nodes again, and a job
        // that may not run twice is cancelled.
        let is_refused = ["REQUEUED", "CANCELLED"].contains(&run.state.as_str()) && run.began == run.ended;
        let is_relaunched = |(from, to): &(i64, i64)| {
            run.began.is_some_and(|began| (*from..=to + RELAUNCHED_WITHIN).contains(&began))
        };
        if is_refused && self.forgotten.iter().any(is_relaunched) {
            return true;
        }
        [Some(run.submitted), run.began, run.ended, end, end.map(|end| end + LAG)]
            .into_iter()
            .flatten()
            .any(|at| within(&self.forgotten, at))
    }
}

fn runs(lab: &Lab, since: i64) -> Vec<Run> {
    try_runs(lab, since).expect("the accounts answer")
}

/// `None`: slurmdbd, or the control node, does not answer.
fn try_runs(lab: &Lab, since: i64) -> Option<Vec<Run>> {
    let fields = "jobid,jobname,state,submit,start,end,nodelist";
    let ask = format!(
        "SLURM_TIME_FORMAT=%s timeout 20 sacct -aDXnP -u {USER} -S \"$(date -d @{since} +%Y-%m-%dT%H:%M:%S)\" -o {fields}"
    );
    let shown = lab.try_on("control", &["sh", "-c", &ask]);
    let text = String::from_utf8_lossy(&shown.stdout);
    let mut runs: Vec<Run> = text.lines().filter_map(run).collect();
    runs.sort_by_key(|run| (run.submitted, run.began));
    shown.status.success().then_some(runs)
}

fn run(line: &str) -> Option<Run> {
    let [id, name, state, submit, start, end, nodes] = line.split('|').collect::<Vec<_>>()[..] else {
        return None;
    };
    let began = start.parse().ok();
    let nodes = NODES.iter().filter(|node| is_in(nodes, node)).map(|node| (*node).to_string()).collect();
    let (name, seconds) = read_name(name);
    Some(Run {
        id: id.into(),
        name: name.into(),
        seconds,
        // "CANCELLED by 0"
        state: state.split(' ').next().unwrap_or_default().into(),
        submitted: submit.parse().unwrap_or_default(),
        began,
        ended: end.parse().ok(),
        nodes,
    })
}

/// Whether a list such as `burst-1,standard-[0,2-3]` has a node. All nodes here are numbered with one digit.
fn is_in(list: &str, node: &str) -> bool {
    let (prefix, number) = node.split_at(node.len() - 1);
    list.split(prefix).skip(1).any(|rest| match rest.strip_prefix('[').and_then(|r| r.split(']').next()) {
        None => rest.starts_with(number),
        Some(ranges) => ranges.split(',').any(|range| match range.split_once('-') {
            Some((low, high)) => (low..=high).contains(&number),
            None => range == number,
        }),
    })
}

/// From the local cloud's log: names stand where an instance is built, ids where it is touched.
fn touches(since: i64) -> Vec<Touch> {
    let log = fs::read_to_string(cloud_root().join("daemon.log")).expect("the cloud's log");
    let quoted = |line: &str, key: &str| {
        let (_, rest) = line.split_once(&format!("{key}=\""))?;
        rest.split('"').next().map(String::from)
    };
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains(": built ")) {
        if let (Some(name), Some(id)) = (quoted(line, "name"), quoted(line, "id")) {
            names.insert(id, name);
        }
    }
    let touch = |line: &str| {
        let at = line.split(' ').next()?.parse::<Timestamp>().ok()?.as_second();
        let request = quoted(line, "request")?;
        let (method, path) = request.split_once(' ')?;
        let mut parts = path.strip_prefix("/v1/instances/")?.split('/');
        let node = names.get(parts.next()?)?.clone();
        let how = match (method, parts.next()) {
            ("DELETE", None) => "delete",
            ("POST", Some(verb @ ("rebuild" | "reboot" | "stop"))) => verb,
            _ => return None,
        };
        (at >= since && line.contains("status=2")).then(|| Touch { at, node, how: how.into() })
    };
    log.lines().filter(|line| line.contains(": changed ")).filter_map(touch).collect()
}

/// Nodes and how many instances the cloud has of each, but for those that it is deleting; and what belongs to no node.
pub fn instances() -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for record in instance::records("instances") {
        if record["phase"]["phase"] == "deleting" {
            continue;
        }
        let node = record["labels"][labels::NODE].as_str().unwrap_or("of no node").to_string();
        *all.entry(node).or_default() += 1;
    }
    all
}

/// The networks, volumes, groups and images that the cloud has, by id: one that was deleted and made again is another.
pub fn resources() -> BTreeSet<(&'static str, String)> {
    let ids = |kind| {
        instance::records(kind).map(move |record| (kind, record["id"].as_str().unwrap_or_default().into()))
    };
    ["networks", "volumes", "security-groups", "images"].into_iter().flat_map(ids).collect()
}
