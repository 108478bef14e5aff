//! Slurm's accounts, limits and QOS: compared with what slurmdbd has, changed with `sacctmgr`, and looked at again. slurmdbd tells slurmctld of
//! every change, so a new limit holds at once.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use kiln_slurm::accounts::{self, Change, Difference, Present, Question, difference};
use kiln_wire::Outcome;
use kiln_wire::bundle::Accounts;

use super::ApplyError;
use super::session::Session;
use crate::process::{self, Output};
use crate::verdict::Verdict;

/// Between two attempts to reach slurmdbd.
const POLL: Duration = Duration::from_millis(500);
/// Of one command.
const LIMIT: Duration = Duration::from_secs(120);

/// Why there is no verdict.
enum Trouble {
    /// It may be over soon: slurmdbd does not answer, or does not know a resource yet.
    NotYet(String),
    Other(ApplyError),
}

pub(super) fn apply(session: &Session, wanted: &Accounts) -> Result<Verdict, ApplyError> {
    if session.dry_run {
        return Ok(would_change(wanted));
    }
    // Whatever was done before slurmdbd went away is there when it is back.
    let deadline = Instant::now() + Duration::from_secs(wanted.patience);
    loop {
        match converge(wanted) {
            Ok(verdict) => return Ok(verdict),
            Err(Trouble::Other(error)) => return Err(error),
            Err(Trouble::NotYet(why)) if Instant::now() >= deadline => {
                let waited = wanted.patience;
                return Err(ApplyError::Refused(format!("after {waited} s of waiting, {why}")));
            }
            Err(Trouble::NotYet(_)) => std::thread::sleep(POLL),
        }
    }
}

fn would_change(wanted: &Accounts) -> Verdict {
    // The same, for resources that slurmdbd will know by then.
    if !wanted.known_resources {
        return Verdict::unchanged();
    }
    match compare(wanted) {
        Ok(compared) => compared.would_change(),
        Err(Trouble::NotYet(why)) => Verdict::new(Outcome::Skipped, why),
        Err(Trouble::Other(error)) => Verdict::new(Outcome::Skipped, crate::explain(&error)),
    }
}

struct Compared {
    found: Difference,
    /// Resources that slurmdbd does not know yet.
    later: Vec<String>,
}

fn compare(wanted: &Accounts) -> Result<Compared, Trouble> {
    let present = read(&wanted.wanted.cluster)?;
    let (known, unknown) = wanted.wanted.clone().without_unknown(&present.resources);
    if !unknown.is_empty() && !wanted.known_resources {
        let names: Vec<String> = unknown.into_iter().collect();
        return Err(Trouble::NotYet(format!(
            "Slurm does not account for {}: is it in GresTypes or Licenses?",
            names.join(", ")
        )));
    }
    Ok(Compared { found: difference(&known, &present), later: unknown.into_iter().collect() })
}

fn read(cluster: &str) -> Result<Present, Trouble> {
    accounts::parse(cluster, |question: Question| {
        let output = run(&question.command(cluster))?;
        if output.success() { Ok(output.stdout) } else { Err(trouble(&output)) }
    })
}

fn run(command: &[String]) -> Result<Output, Trouble> {
    process::run(command, None, LIMIT).map_err(|error| Trouble::Other(error.into()))
}

fn said(output: &Output) -> String {
    process::tail(&format!("{}\n{}", output.stdout, output.stderr), 5)
}

fn trouble(output: &Output) -> Trouble {
    let said = said(output);
    if accounts::is_unreachable(&format!("{}\n{}", output.stdout, output.stderr)) {
        Trouble::NotYet(format!("slurmdbd does not answer\n{said}"))
    } else {
        Trouble::Other(ApplyError::Refused(format!("sacctmgr {}\n{said}", output.status)))
    }
}

fn converge(wanted: &Accounts) -> Result<Verdict, Trouble> {
    let compared = compare(wanted)?;
    if compared.found.changes.is_empty() {
        return Ok(compared.unchanged());
    }
    let mut answers: Vec<(String, String)> = Vec::new();
    for change in &compared.found.changes {
        let output = run(&change.command)?;
        let words = said(&output);
        if !output.success()
            && let not_yet @ Trouble::NotYet(_) = trouble(&output)
        {
            return Err(not_yet);
        }
        answers.push((change.text.clone(), words));
    }
    // How `sacctmgr` ended tells little: badly where there was nothing to do, well where it has left something as it was.
    let left = compare(wanted)?.found.changes;
    settle(&compared, &left, &answers)
}

/// What is left is a failure, unless running jobs are the reason.
fn settle(compared: &Compared, left: &[Change], answers: &[(String, String)]) -> Result<Verdict, Trouble> {
    let answer = |change: &Change| {
        let found = answers.iter().find(|(text, _)| *text == change.text);
        found.map_or("", |(_, words)| words.as_str())
    };
    let (in_use, failed): (Vec<&Change>, Vec<&Change>) =
        left.iter().partition(|change| change.removes && accounts::is_in_use(answer(change)));
    // An account cannot go before its members.
    let (waiting, failed): (Vec<&Change>, Vec<&Change>) =
        failed.into_iter().partition(|change| change.removes && !in_use.is_empty());
    if !failed.is_empty() {
        let text = failed.iter().fold(String::from("slurmdbd did not take over:"), |mut text, change| {
            let _ = write!(text, "\n{}: {}", change.text, answer(change).replace('\n', " "));
            text
        });
        return Err(Trouble::Other(ApplyError::Refused(text)));
    }
    let kept: Vec<&str> = in_use.into_iter().chain(waiting).map(|change| change.text.as_str()).collect();
    let done: Vec<&Change> =
        compared.found.changes.iter().filter(|change| !kept.contains(&change.text.as_str())).collect();
    let mut summary = compared.summary(done.len());
    if !kept.is_empty() {
        let _ = write!(summary, "; until their jobs have ended: {}", kept.join(", "));
    }
    let lines: String = done.iter().fold(String::new(), |text, change| text + &change.text + "\n");
    let outcome = if done.is_empty() { Outcome::Unchanged } else { Outcome::Changed };
    Ok(Verdict::new(outcome, summary).with_diff((!lines.is_empty()).then_some(lines)))
}

impl Compared {
    fn summary(&self, done: usize) -> String {
        let mut summary = match done {
            0 => String::new(),
            1 => "1 change".to_string(),
            many => format!("{many} changes"),
        };
        if !self.later.is_empty() {
            let _ = write!(summary, "; limits of {} follow when slurmctld runs", self.later.join(", "));
        }
        summary.trim_start_matches("; ").to_string()
    }

    fn kept(&self) -> Option<String> {
        let line = |text: String, kept: &String| text + "= " + kept + "\n";
        let lines = self.found.kept.iter().fold(String::new(), line);
        (!lines.is_empty()).then_some(lines)
    }

    fn unchanged(&self) -> Verdict {
        let mut verdict = Verdict::new(Outcome::Unchanged, self.summary(0)).with_diff(self.kept());
        if verdict.diff.is_some() && verdict.summary.is_empty() {
            verdict.summary = "kept as it is, mode = \"add\"".into();
        }
        verdict
    }

    fn would_change(&self) -> Verdict {
        if self.found.changes.is_empty() {
            return self.unchanged();
        }
        let lines = self.found.changes.iter().fold(String::new(), |text, change| text + &change.text + "\n");
        let lines = lines + &self.kept().unwrap_or_default();
        Verdict::changed(self.summary(self.found.changes.len())).with_diff(Some(lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str, removes: bool) -> Change {
        Change { text: text.into(), command: Vec::new(), removes }
    }

    fn settled(left: &[Change], said: &[(&str, &str)]) -> Result<Verdict, String> {
        let changes = vec![change("+ qos a", false), change("- user b", true), change("- account c", true)];
        let compared = Compared { found: Difference { changes, kept: Vec::new() }, later: Vec::new() };
        let said: Vec<(String, String)> =
            said.iter().map(|(text, words)| (text.to_string(), words.to_string())).collect();
        settle(&compared, left, &said).map_err(|trouble| match trouble {
            Trouble::Other(error) => crate::explain(&error),
            Trouble::NotYet(why) => why,
        })
    }

    #[test]
    fn what_is_left_is_a_failure_unless_jobs_use_it() {
        let all = settled(&[], &[]).unwrap();
        assert_eq!((all.outcome, all.summary.as_str()), (Outcome::Changed, "3 changes"));
        let error = settled(&[change("+ qos a", false)], &[("+ qos a", "no\nroom")]).unwrap_err();
        assert_eq!(error, "slurmdbd did not take over:\n+ qos a: no room");
        let left = [change("- user b", true), change("- account c", true)];
        let busy = [("- user b", "Error with request: Job(s) active, cancel job(s) before remove")];
        let waits = settled(&left, &busy).unwrap();
        assert_eq!(waits.summary, "1 change; until their jobs have ended: - user b, - account c");
        assert_eq!(waits.diff.as_deref(), Some("+ qos a\n"));
        assert!(settled(&left, &[]).is_err(), "nobody knows why");
    }

    #[test]
    fn what_is_kept_is_told_and_is_no_change() {
        let found = Difference { changes: Vec::new(), kept: vec!["qos a: Priority 1 -> 2".into()] };
        let verdict = Compared { found, later: vec!["gres/gpu".into()] }.would_change();
        assert_eq!(verdict.outcome, Outcome::Unchanged);
        assert_eq!(verdict.diff.as_deref(), Some("= qos a: Priority 1 -> 2\n"));
        assert_eq!(verdict.summary, "limits of gres/gpu follow when slurmctld runs");
    }
}
