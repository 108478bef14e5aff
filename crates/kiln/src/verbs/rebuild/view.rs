//! The live view of a rollout, as lines of text. Pure.

use std::time::Duration;

use super::estimate::estimate;
use jiff::Timestamp;
use kiln_wire::rollout::{NodeStep, RolloutNode, RolloutReport};

/// Width of the progress bar.
const BAR: usize = 40;

/// At most `rows` lines of at most `columns` characters.
pub fn view(report: &RolloutReport, now: Timestamp, rows: usize, columns: usize) -> Vec<String> {
    let mut lines = vec![title(report), bar(report, now)];
    let room = rows.saturating_sub(lines.len() + 1);
    let mut nodes: Vec<&RolloutNode> = report.rollout.nodes.iter().collect();
    let all = nodes.len();
    if all > room {
        // What moves and what went wrong first; the sort keeps the order within.
        nodes.sort_by_key(|node| importance(&node.step));
        nodes.truncate(room.saturating_sub(1));
    }
    let widest = nodes.iter().map(|node| node.node.len()).max().unwrap_or(0);
    lines.push(format!("{:widest$}  {:10} {:>7} {:>7}", "node", "step", "for", "in all"));
    lines.extend(nodes.iter().map(|node| row(node, now, widest)));
    if nodes.len() < all {
        lines.push(format!("... and {} more", all - nodes.len()));
    }
    lines.into_iter().map(|line| line.chars().take(columns).collect()).collect()
}

fn title(report: &RolloutReport) -> String {
    format!("rollout {}: {}", report.rollout.id, report.message)
}

/// Skipped nodes do not count.
fn bar(report: &RolloutReport, now: Timestamp) -> String {
    let all = report.rollout.nodes.len() - report.skipped;
    let over = report.done + report.failed;
    let full = (BAR * over).checked_div(all).unwrap_or(BAR);
    let failed = if report.failed > 0 { format!(", {} failed", report.failed) } else { String::new() };
    let skipped = if report.skipped > 0 { format!(", {} skipped", report.skipped) } else { String::new() };
    let end = match estimate(&report.rollout, now) {
        Some(end) if end > now => format!(", about {} left", clock(end.duration_since(now).unsigned_abs())),
        Some(_) => ", about to end".into(),
        None => String::new(),
    };
    format!(
        "[{}{}] {} of {all} done{failed}{skipped}{end}",
        "#".repeat(full),
        ".".repeat(BAR - full),
        report.done
    )
}

fn importance(step: &NodeStep) -> u8 {
    match step {
        NodeStep::Failed { .. } => 0,
        NodeStep::Rebuilding { .. } | NodeStep::Booting { .. } | NodeStep::Checking { .. } => 1,
        NodeStep::Draining | NodeStep::Submitted { .. } => 2,
        NodeStep::Pending => 3,
        NodeStep::Done => 4,
        NodeStep::Skipped { .. } => 5,
    }
}

fn row(node: &RolloutNode, now: Timestamp, widest: usize) -> String {
    let since = |start: Timestamp, end: Timestamp| clock(end.duration_since(start).unsigned_abs());
    let step = if node.step.is_in_flight() { since(node.since, now) } else { String::new() };
    let skipped = matches!(node.step, NodeStep::Skipped { .. });
    let all = node.begun.filter(|_| !skipped).map(|begun| since(begun, node.finished.unwrap_or(now)));
    let more = match &node.step {
        NodeStep::Failed { reason } | NodeStep::Skipped { reason } => reason.clone(),
        step => step.job().map(|job| format!("job {job}")).unwrap_or_default(),
    };
    let back = if node.rolling_back { "going back" } else { "" };
    let words: Vec<&str> = [back, &more, node.remark.as_deref().unwrap_or_default()]
        .into_iter()
        .filter(|w| !w.is_empty())
        .collect();
    let line = format!(
        "{:widest$}  {:10} {step:>7} {:>7}  {}",
        node.node,
        node.step.word(),
        all.unwrap_or_default(),
        words.join("; ")
    );
    line.trim_end().to_string()
}

/// `0:07`, `12:30`, `1:02:03`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_wire::rollout::{Options, Rollout, RolloutState};

    fn second(n: i64) -> Timestamp {
        Timestamp::from_second(n).expect("a time")
    }

    fn node(name: &str, step: NodeStep, begun: Option<i64>, finished: Option<i64>) -> RolloutNode {
        let (begun, finished) = (begun.map(second), finished.map(second));
        RolloutNode { step, begun, finished, ..RolloutNode::pending(name, "rebuild", second(80)) }
    }

    fn report(nodes: Vec<RolloutNode>) -> RolloutReport {
        let state = RolloutState::Running;
        let options = Options::default();
        Rollout { id: 3, created: second(0), finished: None, state, options, nodes }.into()
    }

    fn some() -> RolloutReport {
        let failed = NodeStep::Failed { reason: "job 6 ran out of time (TIMEOUT)".into() };
        report(vec![
            node("a-0", NodeStep::Done, Some(10), Some(50)),
            node("a-1", failed, Some(10), Some(60)),
            node("a-10", NodeStep::Booting { job: Some(7) }, Some(70), None),
            node("b", NodeStep::Pending, None, None),
            node("c", NodeStep::Skipped { reason: "has its image already".into() }, None, Some(0)),
        ])
    }

    #[test]
    fn everything_is_shown_where_there_is_room() {
        let lines = view(&some(), second(100), 24, 80);
        let expected = "\
rollout 3: running
[####################....................] 1 of 4 done, 1 failed, 1 skipped, abo
node  step           for  in all
a-0   done                  0:40
a-1   failed                0:50  job 6 ran out of time (TIMEOUT)
a-10  booting       0:20    0:30  job 7
b     pending
c     skipped                     has its image already";
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn a_small_terminal_gets_what_matters() {
        let lines = view(&some(), second(100), 6, 200);
        assert_eq!(lines.len(), 6, "{lines:#?}");
        assert!(lines[1].ends_with(", about 0:50 left"), "{}", lines[1]);
        assert!(lines[3].starts_with("a-1 ") && lines[4].starts_with("a-10"), "{lines:#?}");
        assert_eq!(lines[5], "... and 3 more");
    }

    #[test]
    fn times_read_like_a_clock() {
        let clocks = [0, 67, 754, 3723].map(|s| clock(Duration::from_secs(s)));
        assert_eq!(clocks, ["0:00", "1:07", "12:34", "1:02:03"]);
    }
}
