//! What Slurm is told. A drain that is not the health check's own stays as it is.

use std::path::Path;
use std::time::Duration;

use kiln_slurm::{Node, UNHEALTHY, one_line, parse_node};

use crate::{explain, process, state};

const LIMIT: Duration = Duration::from_secs(8);

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Drain(String),
    Resume,
}

/// Whether Slurm has the node drained then, by whomever.
pub(super) fn tell(problems: &[String]) -> Result<bool, String> {
    let name = node_name();
    let line = scontrol(&["show", "node", "--oneliner", &name])?;
    let node = line.lines().find_map(parse_node).ok_or_else(|| format!("Slurm does not know {name}"))?;
    let target = format!("nodename={name}");
    match step(&node, problems) {
        Step::Nothing => Ok(node.state.is_drained()),
        Step::Resume => scontrol(&["update", &target, "state=resume"]).map(|_| false),
        Step::Drain(reason) => {
            scontrol(&["update", &target, "state=drain", &format!("reason={reason}")]).map(|_| true)
        }
    }
}

fn step(node: &Node, problems: &[String]) -> Step {
    let ours = node.is_drained_for_health();
    if problems.is_empty() {
        return if ours { Step::Resume } else { Step::Nothing };
    }
    let reason = one_line(&format!("{UNHEALTHY}{}", problems.join("; ")));
    let told = node.reason.as_deref().is_some_and(|known| known.trim() == reason.trim());
    // A node that is down is out of service already, and somebody or Slurm itself brings it back.
    if (node.state.is_drained() && !ours) || (ours && told) || node.state.is_down() {
        Step::Nothing
    } else {
        Step::Drain(reason)
    }
}

/// Slurm knows a node by its own name.
fn node_name() -> String {
    let of_host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    state::applied(Path::new("/")).map_or_else(of_host, |applied| applied.node)
}

fn scontrol(words: &[&str]) -> Result<String, String> {
    let argv: Vec<&str> = std::iter::once("scontrol").chain(words.iter().copied()).collect();
    let output = process::run(&argv, None, LIMIT).and_then(process::Output::checked);
    output.map(|output| output.stdout).map_err(|error| explain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(state: &str, reason: &str) -> Node {
        let reason = if reason.is_empty() {
            String::new()
        } else {
            format!(" Reason={reason} [root@2026-01-01T00:00:00]")
        };
        parse_node(&format!("NodeName=n-0 State={state}{reason}")).unwrap()
    }

    #[test]
    fn only_its_own_drain_is_changed() {
        let sick = ["/home is not mounted".to_string()];
        let drain = || Step::Drain("kiln: health: /home is not mounted".into());
        let (own, other) = ("kiln: health: /home is not mounted", "kiln: health: no munge");
        for (state, reason, when_sick, when_well) in [
            ("IDLE", "", drain(), Step::Nothing),
            ("MIXED", "", drain(), Step::Nothing),
            ("IDLE+DRAIN", own, Step::Nothing, Step::Resume),
            ("MIXED+DRAIN", other, drain(), Step::Resume),
            ("IDLE+DRAIN", "bad fan", Step::Nothing, Step::Nothing),
            ("IDLE+DRAIN", "kiln: rollout 6: it did not come back", Step::Nothing, Step::Nothing),
            ("DOWN", "set down", Step::Nothing, Step::Nothing),
            // Put back into service by a person, with the reason left.
            ("IDLE", own, drain(), Step::Nothing),
        ] {
            assert_eq!(step(&node(state, reason), &sick), when_sick, "{state} {reason}");
            assert_eq!(step(&node(state, reason), &[]), when_well, "{state} {reason}");
        }
    }

    #[test]
    fn a_long_reason_is_told_once() {
        let sick: Vec<String> = (0..40).map(|n| format!("problem [{n}]")).collect();
        let Step::Drain(reason) = step(&node("IDLE", ""), &sick) else { panic!("not drained") };
        assert_eq!(step(&node("IDLE+DRAIN", &reason), &sick), Step::Nothing);
    }
}
