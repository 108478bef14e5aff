//! Nodes as `scontrol show node --oneliner` prints them. `sinfo` shows only one flag of a node, so it is not used.

mod state;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::oneliner::field;

pub use state::{Base, Flag, Flags, State};

/// What Kiln writes before a reason, to tell its own drains from an administrator's.
pub const REASON: &str = "kiln: ";

/// What Kiln writes before the reason of a node that leaves the cluster or is to be replaced.
pub const LEAVES: &str = "kiln: to be removed: ";

/// What Kiln's health check writes before the reasons of its drains. It ends them itself.
pub const UNHEALTHY: &str = "kiln: health: ";

/// Slurm computes a node's boot time from whole seconds of clock and uptime, up to this much too early. A node that is
/// there so soon after a request has, to Slurm, not been booted for it.
pub const BOOT_TIME_ROUNDING: Duration = Duration::from_secs(2);

/// Reasons given by slurmctld itself, and by kilnd, are this user's.
pub(crate) const SLURM_USER: &str = "slurm";

/// How slurmctld says, in all releases, that it stopped waiting for a node to boot.
const GIVEN_UP: [&str; 2] = ["reboot timed out", "ResumeTimeout reached"];
/// How slurmctld says, in all releases, that a node booted without having been asked to.
const UNEXPECTED_REBOOT: &str = "Node unexpectedly rebooted";

/// Why Slurm's own daemons drain a node, in all releases, for something that happened while it ran. Later releases add which
/// job it was. What they say of a node that registered with less than slurm.conf has (`Low RealMemory`) is not among them:
/// the next instance would have as little.
const DRAINED_BY_DAEMONS: [&str; 10] = [
    "Kill task failed",
    "Job step not running",
    "Epilog error",
    "Prolog error",
    "Prolog/Epilog failure",
    "Job env setup error",
    "batch job complete failure",
    "Duplicate jobid",
    "SlurmdSpoolDir is full",
    "switch_g_job_postfini failed",
];
/// How slurmctld says, in all releases, that a node registered with less than slurm.conf has: `Low RealMemory (...)`,
/// `Low socket*core*thread count`, `gres/gpu count reported lower than configured (0 < 1)`.
const REGISTERED_WITH_LESS: [&str; 2] = ["Low ", "gres/"];
/// slurmctld drains as Slurm's user, slurmd and slurmstepd as root.
const DAEMONS: [&str; 2] = [SLURM_USER, "root"];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub state: State,
    pub reason: Option<String>,
    /// Who gave the reason: Slurm's own user where slurmctld did.
    pub reason_by: Option<String>,
    /// When the reason was given, by slurmctld's clock.
    pub reason_at: Option<Timestamp>,
    /// By slurmctld's clock, from the uptime that the node reported at its registration.
    pub booted: Option<Timestamp>,
    /// By the node's own clock, at its registration.
    pub slurmd_started: Option<Timestamp>,
    /// Where Slurm reaches it: an address, or a name.
    pub address: Option<String>,
    /// CPUs that jobs have.
    pub allocated: u32,
    /// Sockets, cores of each and threads of each, as slurm.conf has them.
    pub cores: Option<[u32; 3]>,
    /// In MiB, as slurm.conf has it.
    pub real_memory: Option<u64>,
    /// The node's `Extra` field, where Kiln keeps which bundle the node has.
    pub extra: Option<String>,
    pub partitions: Vec<String>,
    /// As slurm.conf would say it, `gpu:2`.
    pub gres: Option<String>,
}

impl Node {
    pub fn has_reason(&self, prefix: &str) -> bool {
        self.reason.as_deref().is_some_and(|reason| reason.starts_with(prefix))
    }

    /// Kiln has taken it out of service.
    pub fn is_drained_by_kiln(&self) -> bool {
        self.state.is_drained() && self.has_reason(REASON)
    }

    /// The drain is someone else's: it is not Kiln's to change.
    pub fn is_drained_by_others(&self) -> bool {
        self.state.is_drained() && !self.has_reason(REASON)
    }

    /// Kiln's health check, which runs on the node itself, has drained it.
    pub fn is_drained_for_health(&self) -> bool {
        self.state.is_drained() && self.has_reason(UNHEALTHY)
    }

    /// One of Slurm's own daemons has drained it, for something that happened on the machine that the node was then.
    pub fn is_drained_by_daemons(&self) -> bool {
        let by_daemon = self.reason_by.as_deref().is_some_and(|who| DAEMONS.contains(&who));
        self.state.is_drained() && by_daemon && DRAINED_BY_DAEMONS.iter().any(|why| self.has_reason(why))
    }

    /// slurmctld has drained it, because it registered with less than slurm.conf says. That stays when the node or the file
    /// has changed: [`State::is_registration_refused`] tells whether it is still so.
    pub fn is_drained_for_its_size(&self) -> bool {
        let by_slurmctld = self.reason_by.as_deref() == Some(SLURM_USER);
        self.state.is_drained() && by_slurmctld && REGISTERED_WITH_LESS.iter().any(|why| self.has_reason(why))
    }

    /// It is drained, and nobody can tell why: Slurm drops the reason of a node that registers after Slurm has given it up, and
    /// may then put its own in place.
    pub fn has_lost_reason(&self) -> bool {
        let by_slurmctld =
            self.reason_by.as_deref() == Some(SLURM_USER) && self.has_reason(UNEXPECTED_REBOOT);
        self.state.is_drained() && (self.reason.is_none() || by_slurmctld)
    }

    /// It is off and available, with a reason of Kiln's, which was that of a drain. Slurm ends the drain when the node is off, and
    /// leaves the reason.
    pub fn has_left_reason(&self) -> bool {
        self.state.is_off_and_available() && self.has_reason(REASON)
    }

    /// The drain of someone else in words, if there is one.
    pub fn foreign_drain(&self) -> Option<String> {
        let reason = self.reason.as_deref().unwrap_or("no reason given");
        self.is_drained_by_others().then(|| format!("drained by others: {reason}"))
    }

    /// An administrator has set it down: neither slurmctld nor Kiln did.
    pub fn is_set_down_by_others(&self) -> bool {
        self.state.is_down() && self.reason_by.as_deref().is_some_and(|who| who != SLURM_USER)
    }

    /// Slurm has stopped waiting for it to boot.
    pub fn is_given_up(&self) -> bool {
        let reason = self.reason.as_deref().unwrap_or_default();
        self.state.is_down() && GIVEN_UP.iter().any(|sign| reason.contains(sign))
    }

    /// Slurm has set it down because of a boot that Slurm had not asked for.
    pub fn is_down_for_unexpected_reboot(&self) -> bool {
        self.state.is_down() && self.has_reason(UNEXPECTED_REBOOT)
    }

    /// Jobs are on it, or about to begin there.
    pub fn carries_jobs(&self) -> bool {
        self.allocated > 0 || self.state.is_allocated()
    }

    /// Jobs have it, or wait for it to come up: they would be lost if Slurm lost the node.
    pub fn keeps_jobs(&self) -> bool {
        self.carries_jobs() && !self.state.is_down()
    }

    /// Jobs are on it. A job that waits for its node to come up is on none yet.
    pub fn runs_jobs(&self) -> bool {
        self.carries_jobs() && !self.state.is_coming_up() && !self.state.is_down()
    }

    /// Jobs would be lost with its instance, also where the node takes no more of them: an administrator has drained
    /// it, or it does not answer just now. `POWER_DOWN` is no exception: Slurm calls its hook when the jobs are over.
    pub fn needs_instance_for_jobs(&self) -> bool {
        let off_or_on_the_way = self.state.is_powering_down_or_off() || self.state.is_powering_up();
        self.carries_jobs() && !self.state.is_down() && !off_or_on_the_way
    }

    /// Jobs run there, or Slurm may start one at any moment: whoever takes its instance away takes it from users. A node that
    /// Slurm waits for, because it was rebooted or powered up, is nobody's yet.
    pub fn is_in_use(&self) -> bool {
        !self.state.is_booting() && (self.state.in_service() || self.needs_instance_for_jobs())
    }

    /// In service with jobs on it, except that it has not answered just now.
    pub fn is_silent_with_jobs(&self) -> bool {
        let state = &self.state;
        !state.is_responding() && self.carries_jobs() && !state.is_down() && !state.is_booting()
    }
}

/// A reason as Slurm can keep it: it is shown on one line, in tables, and ends where `scontrol` prints who gave it.
pub fn one_line(reason: &str) -> String {
    let one_line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().map(|c| if matches!(c, '[' | ']' | '"' | '\'') { ' ' } else { c }).take(200).collect()
}

/// All nodes by name. Lines without a `NodeName` are passed over; a node without a state is `UNKNOWN`.
pub fn parse_nodes(oneliner: &str) -> BTreeMap<String, Node> {
    oneliner.lines().filter_map(parse_node).map(|node| (node.name.clone(), node)).collect()
}

/// One line of `scontrol show node --oneliner`.
pub fn parse_node(line: &str) -> Option<Node> {
    // The reason may hold spaces; it ends before `[user@time]` or at the end of the line.
    let reason = line.split_once(" Reason=").map(|(_, rest)| rest.split_once(" [").unwrap_or((rest, "")));
    let given = reason.and_then(|(_, who)| who.split_once('@'));
    Some(Node {
        name: field(line, "NodeName")?.to_string(),
        state: field(line, "State").map(State::parse).unwrap_or_default(),
        reason_by: given.map(|(user, _)| user.to_string()),
        reason_at: given.and_then(|(_, at)| moment(at.split(']').next().unwrap_or_default())),
        reason: reason.map(|(words, _)| words.trim().to_string()),
        booted: field(line, "BootTime").and_then(moment),
        slurmd_started: field(line, "SlurmdStartTime").and_then(moment),
        address: field(line, "NodeAddr").map(String::from),
        allocated: number(line, "CPUAlloc").unwrap_or(0),
        cores: cores(line),
        real_memory: field(line, "RealMemory").and_then(|mib| mib.parse().ok()),
        // The last: a reason, which comes before it, may hold the same word.
        extra: line.rsplit_once(" Extra=").and_then(|(_, rest)| first_word(rest)),
        partitions: field(line, "Partitions")
            .into_iter()
            .flat_map(|p| p.split(','))
            .map(String::from)
            .collect(),
        // With the sockets behind it, where Slurm knows them: `gpu:2(S:0)`.
        gres: field(line, "Gres").filter(|gres| *gres != "(null)").map(without_sockets),
    })
}

fn without_sockets(gres: &str) -> String {
    let plain = |one: &str| one.split('(').next().unwrap_or_default().to_string();
    gres.split(',').map(plain).collect::<Vec<_>>().join(",")
}

fn cores(line: &str) -> Option<[u32; 3]> {
    Some([number(line, "Sockets")?, number(line, "CoresPerSocket")?, number(line, "ThreadsPerCore")?])
}

fn number(line: &str, name: &str) -> Option<u32> {
    field(line, name)?.parse().ok()
}

fn first_word(text: &str) -> Option<String> {
    text.split_ascii_whitespace().next().map(String::from)
}

/// Printed in the zone of the command's environment: UTC.
pub(crate) fn moment(text: &str) -> Option<Timestamp> {
    text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(rest: &str) -> Node {
        parse_node(&format!("NodeName=n-0 {rest}")).unwrap()
    }

    #[test]
    fn reasons_stay_on_one_line() {
        assert_eq!(one_line("kiln: a\n b [x] 'q'"), "kiln: a b  x   q ");
    }

    #[test]
    fn nodes_are_read() {
        let nodes = parse_nodes(
            "NodeName=a Arch=x86_64 CoresPerSocket=4 CPUAlloc=2 Sockets=1 ThreadsPerCore=2 NodeAddr=10.0.0.1 State=MIXED BootTime=2026-01-02T03:04:05 \
             SlurmdStartTime=None Gres=gpu:a100:2(S:0-1) Partitions=x,y Extra=kiln-bundle:0123\n\
             NodeName=b State=DOWN*+DRAIN BootTime=None SlurmdStartTime=2026-01-02T03:04:09 Reason=Not responding, truly [slurm@2026-01-01T00:00:00]\n\n",
        );
        let (a, b) = (&nodes["a"], &nodes["b"]);
        assert_eq!(a.booted, Some("2026-01-02T03:04:05Z".parse().unwrap()));
        let started = Some("2026-01-02T03:04:09Z".parse().unwrap());
        assert_eq!((a.slurmd_started, b.slurmd_started), (None, started));
        assert_eq!((a.allocated, a.address.as_deref()), (2, Some("10.0.0.1")));
        assert_eq!((a.cores, b.cores), (Some([1, 4, 2]), None));
        assert_eq!(a.extra.as_deref(), Some("kiln-bundle:0123"));
        assert_eq!((a.gres.as_deref(), a.partitions.len()), (Some("gpu:a100:2"), 2));
        assert_eq!((a.reason.as_deref(), b.booted), (None, None));
        assert_eq!(b.reason.as_deref(), Some("Not responding, truly"));
        assert_eq!(b.reason_by.as_deref(), Some("slurm"));
        assert_eq!(b.reason_at, Some("2026-01-01T00:00:00Z".parse().unwrap()));
    }

    #[test]
    fn rubbish_yields_nothing() {
        assert!(parse_nodes("slurm_load_node error: Unable to contact slurm controller").is_empty());
        assert_eq!(parse_node("NodeName=a").unwrap().state.base, Base::Unknown);
    }

    #[test]
    fn a_node_that_is_too_small_is_known_by_slurmctlds_words() {
        let low = "Reason=Low RealMemory (reported:463 < 100.00% of configured:486)";
        let drained = node(&format!("State=IDLE+DRAIN+INVALID_REG {low} [slurm@1]"));
        assert!(drained.is_drained_for_its_size() && drained.state.is_registration_refused());
        let mended = node(&format!("State=IDLE+DRAIN {low} [slurm@1]"));
        assert!(mended.is_drained_for_its_size() && !mended.state.is_registration_refused());
        let gres = "Reason=gres/gpu count reported lower than configured (0 < 1) [slurm@1]";
        assert!(node(&format!("State=IDLE+DRAIN+INVALID_REG {gres}")).is_drained_for_its_size());
        // An administrator may say the same; that stays.
        assert!(!node(&format!("State=IDLE+DRAIN {low} [root@1]")).is_drained_for_its_size());
        assert!(!node("State=IDLE+DRAIN Reason=bad fan [slurm@1]").is_drained_for_its_size());
    }

    #[test]
    fn drains_are_told_apart() {
        assert!(node("State=IDLE+DRAIN Reason=kiln: no image [slurm@1]").is_drained_by_kiln());
        assert!(node("State=IDLE+DRAIN Reason=bad fan [root@1]").is_drained_by_others());
        assert!(node("State=IDLE+DRAIN").is_drained_by_others());
        assert_eq!(node("State=IDLE Reason=bad fan [root@1]").foreign_drain(), None);
        let drained = node("State=IDLE+DRAIN Reason=bad fan [root@1]").foreign_drain();
        assert_eq!(drained.as_deref(), Some("drained by others: bad fan"));
    }

    #[test]
    fn a_reason_that_slurm_dropped_is_missed() {
        assert!(node("State=IDLE+DRAIN").has_lost_reason());
        let left =
            |state: &str| node(&format!("State={state} Reason=kiln: rollout 11 [slurm@1]")).has_left_reason();
        assert!(left("IDLE+CLOUD+POWERED_DOWN"));
        assert!(
            !left("IDLE+CLOUD+DRAIN+POWERED_DOWN") && !left("DOWN+CLOUD+POWERED_DOWN") && !left("IDLE+CLOUD")
        );
        assert!(!node("State=IDLE+CLOUD+POWERED_DOWN Reason=bad fan [root@1]").has_left_reason());
        assert!(node("State=DOWN+DRAIN Reason=Node unexpectedly rebooted [slurm@1]").has_lost_reason());
        assert!(!node("State=DOWN+DRAIN Reason=Node unexpectedly rebooted [root@1]").has_lost_reason());
        assert!(!node("State=DOWN Reason=Node unexpectedly rebooted [slurm@1]").has_lost_reason());
        assert!(!node("State=IDLE+DRAIN Reason=bad fan [slurm@1]").has_lost_reason());
    }

    #[test]
    fn drains_by_slurms_daemons_are_known_by_their_words() {
        for reason in ["Kill task failed [root@1]", "Kill task failed (JobId=7 StepId=0) [root@1]"] {
            assert!(node(&format!("State=IDLE+DRAIN Reason={reason}")).is_drained_by_daemons(), "{reason}");
        }
        assert!(node("State=IDLE+DRAIN Reason=Epilog error [slurm@1]").is_drained_by_daemons());
        for reason in
            ["bad fan [root@1]", "Kill task failed [alice@1]", "Low RealMemory (reported:1 < 2) [slurm@1]"]
        {
            assert!(!node(&format!("State=IDLE+DRAIN Reason={reason}")).is_drained_by_daemons(), "{reason}");
        }
        assert!(!node("State=IDLE Reason=Epilog error [slurm@1]").is_drained_by_daemons());
    }

    #[test]
    fn reasons_for_being_down_are_told_apart() {
        assert!(node("State=DOWN Reason=reboot timed out [slurm@1]").is_given_up());
        assert!(
            node("State=DOWN Reason=Node unexpectedly rebooted [slurm@1]").is_down_for_unexpected_reboot()
        );
        assert!(node("State=DOWN Reason=x [root@1]").is_set_down_by_others());
        assert!(!node("State=DOWN Reason=x [slurm@1]").is_set_down_by_others());
        assert!(!node("State=DOWN").is_set_down_by_others());
    }

    /// State, then: carries jobs, runs jobs, needs its instance for them, is silent with them, is in use.
    #[test]
    fn jobs_on_a_node() {
        let rows = [
            ("IDLE", [false, false, false, false, true]),
            ("IDLE+DRAIN", [false; 5]),
            ("IDLE+REBOOT_ISSUED", [false; 5]),
            ("IDLE+NOT_RESPONDING", [false; 5]),
            ("MIXED", [true, true, true, false, true]),
            ("MIXED+DRAIN", [true, true, true, false, true]),
            ("MIXED+FAIL", [true, true, true, false, true]),
            ("MIXED+REBOOT_REQUESTED", [true, true, true, false, true]),
            ("IDLE CPUAlloc=1", [true, true, true, false, true]),
            ("ALLOCATED*", [true, true, true, true, true]),
            ("ALLOCATED+POWERING_UP", [true, false, false, false, false]),
            ("ALLOCATED+POWER_UP", [true, false, true, false, true]),
            ("MIXED+POWER_DOWN", [true, true, true, false, true]),
            ("MIXED+POWERING_DOWN", [true, true, false, false, false]),
            ("DOWN CPUAlloc=1", [true, false, false, false, false]),
        ];
        for (text, expected) in rows {
            let n = node(&format!("State={text}"));
            let answers = [
                n.carries_jobs(),
                n.runs_jobs(),
                n.needs_instance_for_jobs(),
                n.is_silent_with_jobs(),
                n.is_in_use(),
            ];
            assert_eq!(answers, expected, "{text}");
        }
    }
}
