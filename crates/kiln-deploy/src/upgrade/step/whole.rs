//! Whether queue and accounting are whole: what was there before an upgrade and is not there after it.

use std::collections::{BTreeMap, BTreeSet};

use kiln_slurm::{JobState, parse_nodes};

/// What `whole.sh` prints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whole {
    /// By id; those of an array each by itself.
    jobs: BTreeMap<String, Job>,
    /// Lines about QOS, accounts, users and associations.
    accounts: BTreeSet<String>,
    pub nodes: BTreeMap<String, kiln_slurm::Node>,
    /// Of jobs, in the database.
    records: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    state: JobState,
    user: String,
}

impl Job {
    fn words(&self, id: &str) -> String {
        format!("job {id} of {}", self.user)
    }
}

impl Whole {
    pub fn parse(text: &str) -> Whole {
        let mut whole = Whole::default();
        let mut nodes = String::new();
        for line in text.lines() {
            if let Some(job) = line.strip_prefix("job: ") {
                whole.jobs.extend(parse_job(job));
            } else if let Some(node) = line.strip_prefix("node: ") {
                nodes.push_str(node);
                nodes.push('\n');
            } else if let Some(records) = line.strip_prefix("records: ") {
                whole.records = records.trim().parse().unwrap_or(0);
            } else if !line.is_empty() {
                whole.accounts.insert(line.to_string());
            }
        }
        whole.nodes = parse_nodes(&nodes);
        whole
    }

    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    /// Those that are not in the queue any more: the accounts must know how they ended.
    pub fn gone<'b>(before: &'b Whole, after: &Whole) -> Vec<&'b str> {
        before.jobs.keys().filter(|id| !after.jobs.contains_key(*id)).map(String::as_str).collect()
    }

    /// What only the new daemons know, and nobody will if what was before comes back.
    pub fn lost_on_the_way_back(before: &Whole, after: &Whole) -> Vec<String> {
        let new = after.jobs.iter().filter(|(id, _)| !before.jobs.contains_key(*id));
        let new =
            new.map(|(id, job)| format!("{} came meanwhile and is lost: submit it again", job.words(id)));
        let ran = |id: &&str| before.jobs.get(*id).filter(|job| job.state != JobState::Pending);
        let ended = Whole::gone(before, after).into_iter().filter_map(|id| Some((id, ran(&id)?)));
        let ended =
            ended.map(|(id, job)| format!("{} ended meanwhile: Slurm may run it again", job.words(id)));
        new.chain(ended).collect()
    }

    /// Jobs that are missing or harmed, a line each. `ended`: what the accounts say of those that have left the queue, which
    /// they may not know at once.
    pub fn harmed_jobs(before: &Whole, after: &Whole, ended: &BTreeMap<String, JobState>) -> Vec<String> {
        let mut all = Vec::new();
        for (id, job) in &before.jobs {
            let ran = job.state != JobState::Pending;
            match after.jobs.get(id).map(|now| &now.state).or_else(|| ended.get(id)) {
                None => all.push(format!("{} is gone", job.words(id))),
                Some(JobState::Pending) if ran => all.push(format!("{} ran, and waits again", job.words(id))),
                Some(JobState::NodeFail) => all.push(format!("{} has lost its node", job.words(id))),
                Some(state) if !state.is_over() && !after.jobs.contains_key(id) => {
                    all.push(format!("{} is {state} in the accounts and not in the queue", job.words(id)));
                }
                Some(_) => {}
            }
        }
        all
    }

    /// What accounting lacks, a line each. `purges`: slurmdbd may have deleted old records by itself.
    pub fn lost_accounts(before: &Whole, after: &Whole, purges: bool) -> Vec<String> {
        let lost = before.accounts.difference(&after.accounts);
        let mut all: Vec<String> = lost.map(|line| format!("{line} is gone")).collect();
        if after.records < before.records && !purges {
            let (had, has) = (before.records, after.records);
            all.push(format!("accounting had records of {had} jobs, and has {has}"));
        }
        all
    }
}

fn parse_job(line: &str) -> Option<(String, Job)> {
    let mut fields = line.split('|').map(|field| field.trim().to_string());
    let (id, state, user) = (fields.next()?, fields.next()?, fields.next()?);
    Some((id, Job { state: JobState::parse(&state), user }))
}

/// Reads `sacct --parsable2 --format=JobID,State`.
pub fn parse_ended(text: &str) -> BTreeMap<String, JobState> {
    let line = |line: &str| {
        let (id, state) = line.split_once('|')?;
        Some((id.trim().to_string(), JobState::parse(state)))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "job: 7|RUNNING|ann\njob: 8_1|PENDING|bob\njob: 8_2|PENDING|bob\n\
                          qos: normal\naccount: physics\nuser: ann\nassociation: physics|ann|\n\
                          node: NodeName=n-0 State=IDLE\nrecords: 12\n";

    fn differences(after: &str, ended: &str, purges: bool) -> Vec<String> {
        let (before, after) = (Whole::parse(BEFORE), Whole::parse(after));
        let mut all = Whole::harmed_jobs(&before, &after, &parse_ended(ended));
        all.extend(Whole::lost_accounts(&before, &after, purges));
        all
    }

    #[test]
    fn what_is_as_before_is_whole() {
        assert_eq!(differences(BEFORE, "", false), [""; 0]);
        assert_eq!(Whole::parse(BEFORE).nodes.len(), 1);
        let more = "job: 9|PENDING|ann\nuser: slurm\nrecords: 13\n";
        let later = BEFORE.replace("records: 12\n", more).replace("8_1|PENDING", "8_1|RUNNING");
        assert_eq!(differences(&later, "", false), [""; 0], "what starts and what comes in addition is fine");
        let lost = Whole::lost_on_the_way_back(&Whole::parse(BEFORE), &Whole::parse(&later));
        assert_eq!(lost, ["job 9 of ann came meanwhile and is lost: submit it again"]);
    }

    #[test]
    fn a_job_that_has_ended_is_not_lost() {
        let later = BEFORE.replace("job: 7|RUNNING|ann\n", "");
        assert_eq!(Whole::gone(&Whole::parse(BEFORE), &Whole::parse(&later)), ["7"]);
        let lost = Whole::lost_on_the_way_back(&Whole::parse(BEFORE), &Whole::parse(&later));
        assert_eq!(lost, ["job 7 of ann ended meanwhile: Slurm may run it again"]);
        assert_eq!(differences(&later, "7|COMPLETED\n", false), [""; 0]);
        assert_eq!(differences(&later, "7|CANCELLED by 0\n", false), [""; 0]);
        assert_eq!(differences(&later, "", false), ["job 7 of ann is gone"]);
        let said = differences(&later, "7|RUNNING\n", false);
        assert_eq!(said, ["job 7 of ann is RUNNING in the accounts and not in the queue"]);
        assert_eq!(differences(&later, "7|NODE_FAIL\n", false), ["job 7 of ann has lost its node"]);
    }

    #[test]
    fn no_text_of_a_user_is_asked_for() {
        for field in ["%j", "%k", "%o", "%Z", "%z"] {
            assert!(!super::super::WHOLE.contains(field), "{field}");
        }
    }

    #[test]
    fn everything_that_is_missing_is_named() {
        let later = "job: 7|PENDING|ann\njob: 8_1|PENDING|bob\nqos: normal\naccount: physics\nuser: ann\nrecords: 3\n";
        assert_eq!(
            differences(later, "", false),
            [
                "job 7 of ann ran, and waits again",
                "job 8_2 of bob is gone",
                "association: physics|ann| is gone",
                "accounting had records of 12 jobs, and has 3",
            ]
        );
        assert!(!differences(later, "", true).iter().any(|line| line.contains("records")));
    }
}
