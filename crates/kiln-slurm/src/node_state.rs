//! Node states as `scontrol show node --oneliner` prints them: one base state and any number of flags.
//! `sinfo` shows only one flag, so it is not used here.

use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NodeState {
    pub node: String,
    /// `IDLE`, `ALLOCATED`, `MIXED`, `DOWN`, `UNKNOWN`, ...
    pub base: String,
    /// `DRAIN`, `NOT_RESPONDING`, `POWERING_UP`, ...
    pub flags: Vec<String>,
    pub reason: Option<String>,
    /// Who gave the reason: Slurm's own user where slurmctld did.
    pub reason_by: Option<String>,
}

impl NodeState {
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|f| f == flag)
    }

    /// The node takes jobs or runs them.
    pub fn in_service(&self) -> bool {
        const OUT: [&str; 9] = [
            "DRAIN",
            "FAIL",
            "NOT_RESPONDING",
            "POWERED_DOWN",
            "POWERING_DOWN",
            "POWERING_UP",
            "REBOOT_ISSUED",
            "INVALID_REG",
            "PLANNED_DOWN",
        ];
        matches!(self.base.as_str(), "IDLE" | "ALLOCATED" | "MIXED" | "COMPLETING")
            && !self.flags.iter().any(|f| OUT.contains(&f.as_str()))
    }

    /// `idle`, `down+drain`: as short as a table wants it.
    pub fn short(&self) -> String {
        std::iter::once(&self.base).chain(&self.flags).map(|s| s.to_lowercase()).collect::<Vec<_>>().join("+")
    }
}

/// Lines without a `NodeName` are passed over; a node without a state is `UNKNOWN`.
pub fn parse_node_states(oneliner: &str) -> Vec<NodeState> {
    oneliner.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<NodeState> {
    let node = field(line, "NodeName=")?.to_string();
    let state = field(line, "State=").unwrap_or("UNKNOWN");
    let mut parts = state.split('+');
    // A trailing `*` is the old way to say "not responding".
    let first = parts.next().unwrap_or("UNKNOWN");
    let base = first.trim_end_matches(|c: char| !c.is_ascii_alphabetic() && c != '_').to_string();
    let mut flags: Vec<String> = parts.map(|p| p.trim_end_matches('*').to_string()).collect();
    if state.contains('*') && !flags.iter().any(|f| f == "NOT_RESPONDING") {
        flags.push("NOT_RESPONDING".to_string());
    }
    // The reason may hold spaces; it ends before `[user@time]` or at the end of the line.
    let reason = line.split_once(" Reason=").map(|(_, rest)| rest.split_once(" [").unwrap_or((rest, "")));
    let reason_by = reason.and_then(|(_, who)| who.split_once('@')).map(|(user, _)| user.to_string());
    let reason = reason.map(|(words, _)| words.trim().to_string());
    Some(NodeState { node, base, flags, reason, reason_by })
}

fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_flags_are_split() {
        let text = "NodeName=n-0 Arch=x86_64 CoresPerSocket=1 State=IDLE ThreadsPerCore=1\n\
                    NodeName=n-1 State=DOWN*+DRAIN+POWERING_UP Reason=Not responding, truly [slurm@2026-01-02T03:04:05]\n\n";
        let states = parse_node_states(text);
        assert_eq!(states.len(), 2);
        assert!(states[0].in_service());
        assert_eq!(states[0].short(), "idle");
        assert_eq!(states[1].base, "DOWN");
        assert_eq!(states[1].flags, ["DRAIN", "POWERING_UP", "NOT_RESPONDING"]);
        assert_eq!(states[1].reason.as_deref(), Some("Not responding, truly"));
        assert_eq!(states[1].reason_by.as_deref(), Some("slurm"));
        assert!(states[1].has("DRAIN") && !states[1].has("DOWN"));
        assert!(!states[1].in_service());
    }

    #[test]
    fn a_drained_idle_node_is_not_in_service() {
        let states = parse_node_states("NodeName=a State=IDLE+DRAIN Reason=x [root@1]");
        assert!(!states[0].in_service());
    }

    #[test]
    fn rubbish_yields_nothing() {
        assert!(parse_node_states("slurm_load_node error: Unable to contact slurm controller").is_empty());
    }
}
