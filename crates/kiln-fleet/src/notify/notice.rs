//! Which events people are told of, and in which words. Pure.

use kiln_wire::Event;
use kiln_wire::notify::Topic;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub topic: Topic,
    /// What it is about. Notices with the same title are told together.
    pub title: String,
    /// What has happened, on one line.
    pub text: String,
}

/// `None`: not worth a message.
pub fn notice(event: &Event) -> Option<Notice> {
    let (what, why, outcome) = (event.what.as_str(), event.why.as_str(), event.outcome.as_str());
    let told = |topic, title: String, text: String| Some(Notice { topic, title, text });
    if !event.node.is_empty() {
        return of_node(event)
            .and_then(|text| told(Topic::Drain, "nodes were taken out of service".into(), text));
    }
    let first = what.split(' ').next().unwrap_or_default();
    match first {
        "rollout" => {
            let ends = [("halted", "has halted"), ("done", "is done"), ("rolled back", "was rolled back")];
            let (_, words) = ends.into_iter().find(|(word, _)| starts(outcome, word))?;
            told(Topic::Rollout, format!("{what} {words}"), outcome.into())
        }
        "group" if outcome.contains(" is paused") => {
            told(Topic::Group, format!("{what} is paused"), outcome.into())
        }
        "group" => told(Topic::Group, format!("{what} is back"), format!("{outcome}: {why}")),
        "look" if outcome == SEES_AGAIN => {
            told(Topic::Blind, "kilnd sees the cluster again".into(), outcome.into())
        }
        "look" => told(Topic::Blind, "kilnd cannot see the cluster".into(), outcome.into()),
        "backup" if outcome.starts_with("failed") => {
            told(Topic::Backup, "a backup has failed".into(), outcome.into())
        }
        _ => None,
    }
}

/// The end of an outage.
pub const SEES_AGAIN: &str = "both can be read again";

/// `done`, or `halted: why`.
fn starts(outcome: &str, word: &str) -> bool {
    outcome.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Kiln drains nodes whose reboot or rebuild has failed, and those that the rules say it about. That a rollout drains a node to
/// have it empty is no news.
fn of_node(event: &Event) -> Option<String> {
    let Event { node, what, why, outcome, .. } = event;
    match (what.as_str(), outcome.as_str()) {
        ("reboot" | "rebuild", "failed") => Some(format!("{node}: its {what} failed: {why}")),
        (action, "done") if action.starts_with("drain it") || action.starts_with("set it down") => {
            Some(format!("{node}: {why}"))
        }
        (rollout, "failed") if rollout.starts_with("rollout ") => Some(format!("{node}: {rollout}: {why}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kiln_wire::rollout::RolloutState;

    use super::*;

    fn of(node: &str, what: &str, why: &str, outcome: &str) -> Option<(Topic, String, String)> {
        let event = Event {
            time: Timestamp::UNIX_EPOCH,
            node: node.into(),
            what: what.into(),
            why: why.into(),
            outcome: outcome.into(),
        };
        notice(&event).map(|notice| (notice.topic, notice.title, notice.text))
    }

    fn titles(cases: &[(&str, &str, &str, &str)]) -> Vec<String> {
        cases.iter().filter_map(|(node, what, why, outcome)| Some(of(node, what, why, outcome)?.1)).collect()
    }

    #[test]
    fn what_matters_is_told() {
        let halted = RolloutState::Halted { why: "2 nodes failed".into() }.message();
        let back = RolloutState::RolledBack { why: "2 nodes failed".into() }.message();
        let told = [
            ("", "rollout 7", "", halted.as_str()),
            ("", "rollout 7", "", &RolloutState::Done.message()),
            ("", "rollout 7", "", &back),
            ("", "group burst", "no room", "burst is paused until 09:00:00 UTC: no room"),
            ("", "group burst", "b-1 came into service", "nodes come up again"),
            ("", "look", "", "Slurm cannot be asked"),
            ("", "look", "", SEES_AGAIN),
            ("", "backup", "by the timer", "failed: no room"),
            ("n-1", "rebuild", "no such image", "failed"),
            ("n-1", "drain it (no instance)", "gone: it has no instance", "done"),
            ("n-1", "rollout 7", "no answer", "failed"),
        ];
        assert_eq!(
            titles(&told),
            [
                "rollout 7 has halted",
                "rollout 7 is done",
                "rollout 7 was rolled back",
                "group burst is paused",
                "group burst is back",
                "kilnd cannot see the cluster",
                "kilnd sees the cluster again",
                "a backup has failed",
                "nodes were taken out of service",
                "nodes were taken out of service",
                "nodes were taken out of service",
            ]
        );
        let text = of("n-1", "rebuild", "no such image", "failed").unwrap().2;
        assert_eq!(text, "n-1: its rebuild failed: no such image");
    }

    #[test]
    fn daily_work_is_not() {
        let quiet = [
            ("", "rollout 7", "4 nodes", "started"),
            ("", "rollout 7", "asked by ann", "paused"),
            ("", "rollout 7", "", "halting: 2 nodes failed"),
            ("", "rollout 7", "asked by ann", "aborted"),
            ("", "dashboard", "as operator", "ann has logged in"),
            ("", "notify", "no answer", "mail: is tried again: rollout 7 is done"),
            ("n-1", "rollout 7", "compute", "done"),
            ("n-1", "drain", "for rollout 7", "drained"),
            ("n-1", "drain it (no instance)", "gone: no instance", "Slurm cannot be asked"),
            ("n-1", "resume", "asked by Slurm", "created"),
        ];
        assert_eq!(titles(&quiet), [""; 0]);
    }
}
