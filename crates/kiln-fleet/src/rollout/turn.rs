//! How a node is rebuilt whose turn has come. Pure: decided from a fresh look at Slurm, because hours may have gone by since
//! the rollout began.

use kiln_slurm::{Flag, Node};
use kiln_wire::rollout::{HAS_IMAGE, Options, RolloutNode, Strategy};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Through Slurm, which lets running jobs end.
    Slurm,
    /// Without Slurm, which cannot run a job there. Nobody else's job runs there either.
    Direct,
    /// Not now; the next round looks again.
    Later(String),
    Skip(String),
    Fail(String),
}

pub fn turn(node: &RolloutNode, options: &Options, slurm: Option<&Node>) -> Turn {
    let reboots = !options.no_reboot || node.rolling_back;
    let Some(slurm) = slurm else {
        return if node.rolling_back { Turn::Direct } else { Turn::Slurm };
    };
    if node.elastic {
        return or_skip(slurm.foreign_drain());
    }
    if !reboots {
        return Turn::Slurm;
    }
    if node.rolling_back {
        return turn_back(slurm);
    }
    if slurm.is_drained_by_kiln() {
        if slurm.state.is_empty() && !slurm.is_in_use() {
            return Turn::Direct;
        }
        return Turn::Skip(KILN_DRAINED.into());
    }
    // It was chosen because Kiln had drained it; somebody has put it back into service since.
    if !options.force && node.target.is_some() && node.target == node.previous {
        return Turn::Skip(HAS_IMAGE.into());
    }
    // A reboot of Slurm's own would end the drain with it.
    or_skip((options.strategy == Strategy::Drain).then(|| slurm.foreign_drain()).flatten())
}

/// Why a node is skipped that Kiln has drained and that is not empty yet.
pub const KILN_DRAINED: &str = "Kiln has drained it, and jobs still run there";

fn or_skip(reason: Option<String>) -> Turn {
    reason.map_or(Turn::Slurm, Turn::Skip)
}

/// On the way back to the image it had. What failed may be in any state.
fn turn_back(slurm: &Node) -> Turn {
    if slurm.is_drained_by_others() {
        return Turn::Fail("not taken back: somebody else has drained it".into());
    }
    // There may be user jobs: Slurm has to let them end.
    if slurm.state.in_service() || slurm.is_silent_with_jobs() {
        return Turn::Slurm;
    }
    if slurm.is_in_use() {
        return Turn::Later("jobs still run there".into());
    }
    if slurm.state.flags.has(&Flag::Fail) {
        return Turn::Fail("not taken back: somebody else has taken it out of service".into());
    }
    Turn::Direct
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kiln_slurm::State;

    use super::*;

    fn seen(state: &str, reason: &str) -> Node {
        let reason = (!reason.is_empty()).then(|| reason.to_string());
        Node { state: State::parse(state), reason, ..Node::default() }
    }

    fn node(previous: &str, rolling_back: bool) -> RolloutNode {
        let (previous, target) = (Some(previous.into()), Some("new".into()));
        let pending = RolloutNode::pending("n-0", "rebuild", Timestamp::UNIX_EPOCH);
        RolloutNode { previous, target, rolling_back, ..pending }
    }

    #[test]
    fn what_kiln_drained_is_rebuilt_directly_only_while_nobody_uses_it() {
        let options = Options::default();
        let rows = [
            ("IDLE+DRAIN", "kiln: x", Turn::Direct),
            ("DOWN+DRAIN+NOT_RESPONDING", "kiln: x", Turn::Direct),
            ("MIXED+DRAIN", "kiln: x", Turn::Skip(KILN_DRAINED.into())),
            ("IDLE+DRAIN+COMPLETING", "kiln: x", Turn::Skip(KILN_DRAINED.into())),
            // An administrator has resumed it, and perhaps a job runs there.
            ("IDLE", "", Turn::Slurm),
            ("MIXED", "", Turn::Slurm),
            // Somebody else has drained it since: its job waits for the end of that.
            ("IDLE+DRAIN", "bad fan", Turn::Slurm),
        ];
        for (state, reason, expected) in rows {
            assert_eq!(turn(&node("old", false), &options, Some(&seen(state, reason))), expected, "{state}");
        }
        let has_image = Turn::Skip(HAS_IMAGE.into());
        assert_eq!(turn(&node("new", false), &options, Some(&seen("IDLE", ""))), has_image);
        assert_eq!(turn(&node("new", false), &options, Some(&seen("IDLE+DRAIN", "kiln: x"))), Turn::Direct);
    }

    #[test]
    fn what_slurm_itself_would_resume_is_skipped_if_others_drained_it() {
        let drain = Options { strategy: Strategy::Drain, ..Options::default() };
        let drained = seen("IDLE+DRAIN", "bad fan");
        let skip = Turn::Skip("drained by others: bad fan".into());
        assert_eq!(turn(&node("old", false), &drain, Some(&drained)), skip);
        let elastic = RolloutNode { elastic: true, ..node("old", false) };
        assert_eq!(turn(&elastic, &Options::default(), Some(&drained)), skip);
        let dry = Options { no_reboot: true, ..drain };
        assert_eq!(turn(&node("old", false), &dry, Some(&drained)), Turn::Slurm);
    }

    #[test]
    fn on_the_way_back_no_job_is_lost() {
        let later = || Turn::Later("jobs still run there".into());
        let rows = [
            ("IDLE", "", Turn::Slurm),
            ("ALLOCATED+NOT_RESPONDING", "", Turn::Slurm),
            ("IDLE+DRAIN", "kiln: x", Turn::Direct),
            ("ALLOCATED+NOT_RESPONDING+POWERING_UP", "", Turn::Direct),
            ("IDLE+NOT_RESPONDING", "", Turn::Direct),
            ("DOWN+NOT_RESPONDING", "reboot timed out", Turn::Direct),
            ("MIXED+DRAIN", "kiln: x", later()),
            ("MIXED+FAIL", "", later()),
            ("IDLE+FAIL", "", Turn::Fail("not taken back: somebody else has taken it out of service".into())),
            ("MIXED+DRAIN", "bad fan", Turn::Fail("not taken back: somebody else has drained it".into())),
        ];
        for (state, reason, expected) in rows {
            let back = turn(&node("old", true), &Options::default(), Some(&seen(state, reason)));
            assert_eq!(back, expected, "{state}");
        }
    }
}
