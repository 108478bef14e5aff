//! When a rollout will be over, if it goes on as it went so far. Pure.

use std::time::Duration;

use jiff::Timestamp;

use kiln_wire::rollout::{NodeStep, Rollout, RolloutNode, RolloutState};

/// `None` until a node is done, and for a rollout that is not going forward.
pub fn estimate(rollout: &Rollout, now: Timestamp) -> Option<Timestamp> {
    if !matches!(rollout.state, RolloutState::Running | RolloutState::RollingBack { .. }) {
        return None;
    }
    let took: Vec<Duration> = rollout.nodes.iter().filter_map(time_of_done).collect();
    let count = u32::try_from(took.len()).ok().filter(|n| *n > 0)?;
    let usual = took.iter().sum::<Duration>() / count;
    // Each node in flight holds a place until its usual time is over; a pending one takes the first place that
    // falls free.
    let mut places: Vec<Duration> = rollout
        .nodes
        .iter()
        .filter(|n| n.step.is_in_flight())
        .map(|n| usual.saturating_sub(age(n, now)))
        .collect();
    let waiting = rollout.nodes.iter().filter(|n| n.step == NodeStep::Pending).count();
    if places.is_empty() && waiting > 0 {
        places = vec![Duration::ZERO; width(rollout).min(waiting)];
    }
    for _ in 0..waiting {
        let next = places.iter_mut().min()?;
        *next += usual;
    }
    Some(now + places.into_iter().max().unwrap_or_default())
}

fn time_of_done(node: &RolloutNode) -> Option<Duration> {
    let (begun, finished) = (node.begun?, node.finished?);
    (node.step == NodeStep::Done).then(|| finished.duration_since(begun).unsigned_abs())
}

fn age(node: &RolloutNode, now: Timestamp) -> Duration {
    node.begun.map_or(Duration::ZERO, |begun| now.duration_since(begun).unsigned_abs())
}

/// How many nodes may be in flight at a time, as far as the rollout itself says.
fn width(rollout: &Rollout) -> usize {
    match rollout.options.max_unavailable {
        0 => usize::MAX,
        most => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_wire::rollout::Options;

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).unwrap()
    }

    fn node(step: NodeStep, begun: Option<i64>, finished: Option<i64>) -> RolloutNode {
        let (begun, finished) = (begun.map(second), finished.map(second));
        RolloutNode { step, begun, finished, ..RolloutNode::pending("n", "rebuild", second(0)) }
    }

    fn rollout(max_unavailable: usize, nodes: Vec<RolloutNode>) -> Rollout {
        let options = Options { max_unavailable, ..Options::default() };
        Rollout { id: 1, created: second(0), finished: None, state: RolloutState::Running, options, nodes }
    }

    fn done(took: i64) -> RolloutNode {
        node(NodeStep::Done, Some(0), Some(took))
    }

    fn booting(begun: i64) -> RolloutNode {
        node(NodeStep::Booting { job: Some(1) }, Some(begun), None)
    }

    fn pending() -> RolloutNode {
        node(NodeStep::Pending, None, None)
    }

    /// Seconds from now.
    fn left(rollout: &Rollout) -> Option<i64> {
        let now = second(100);
        estimate(rollout, now).map(|end| end.duration_since(now).as_secs())
    }

    #[test]
    fn nothing_is_known_before_the_first_node_is_done() {
        assert_eq!(left(&rollout(0, vec![booting(90), pending()])), None);
    }

    #[test]
    fn nodes_in_flight_take_their_usual_time() {
        // 40 s on average; the younger one has 30 to go.
        assert_eq!(left(&rollout(0, vec![done(30), done(50), booting(70), booting(90)])), Some(30));
        assert_eq!(left(&rollout(0, vec![done(40), booting(10)])), Some(0), "overdue: any moment");
    }

    #[test]
    fn pending_nodes_take_the_places_of_those_in_flight() {
        let nodes = vec![done(40), booting(90), booting(70), pending(), pending(), pending()];
        // Places free at 30 and 10: 10+40=50, 30+40=70, 50+40=90.
        assert_eq!(left(&rollout(2, nodes)), Some(90));
    }

    #[test]
    fn between_two_nodes_the_limit_counts() {
        assert_eq!(left(&rollout(1, vec![done(40), pending(), pending()])), Some(80));
        assert_eq!(left(&rollout(0, vec![done(40), pending(), pending()])), Some(40));
    }

    #[test]
    fn what_stands_still_has_no_end() {
        let paused = Rollout { state: RolloutState::Paused, ..rollout(0, vec![done(40), pending()]) };
        assert_eq!(left(&paused), None);
    }
}
