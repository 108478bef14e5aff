//! Rollouts, and the nodes of the picked one at their steps.

use jiff::Timestamp;
use kiln_web::view::Rollout;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Row};

use super::{list, nothing};
use crate::app::App;
use crate::words::{Palette, clock, since};

/// So many rollouts are shown above the nodes.
const ROLLOUTS: u16 = 6;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, now: Timestamp) {
    let rollouts = app.model.rollouts();
    let Ok(count) = u16::try_from(rollouts.len()) else { return };
    if rollouts.is_empty() {
        return nothing(frame, area, app, "There was no rollout yet: `kiln rebuild` starts one.");
    }
    let keys: Vec<String> = rollouts.iter().map(|rollout| rollout.id.to_string()).collect();
    let picked = app.picked_among(keys.iter().map(String::as_str));
    let [above, below] =
        Layout::vertical([Constraint::Length(count.min(ROLLOUTS) + 1), Constraint::Min(0)]).areas(area);
    let rows = rollouts.iter().map(|rollout| {
        Row::new([
            Line::raw(format!("{:>4}", rollout.id)),
            Line::raw(clock(rollout.created, now)),
            bar(rollout, 16, app.palette),
            Line::raw(format!("{}/{}", rollout.done, rollout.total)),
            Line::raw(rollout.message.clone()),
        ])
    });
    let widths = [
        Constraint::Length(4),
        Constraint::Length(11),
        Constraint::Length(16),
        Constraint::Length(9),
        Constraint::Min(10),
    ];
    list(frame, above, app, &["  id", "begun", "", "done", "state"], &widths, rows.collect(), picked);
    if let Some(rollout) = picked.and_then(|at| rollouts.get(at)) {
        nodes(frame, below, app, rollout, now);
    }
}

/// How far it is: done, failed, in work, to come.
pub fn bar(rollout: &Rollout, width: usize, palette: Palette) -> Line<'static> {
    let total = rollout.total.max(1);
    let part = |count: usize| count * width / total;
    let done = part(rollout.done + rollout.skipped);
    let failed = part(rollout.failed).max(usize::from(rollout.failed > 0));
    let busy = part(rollout.in_flight).max(usize::from(rollout.in_flight > 0));
    let left = width.saturating_sub(done + failed + busy);
    Line::from(vec![
        Span::styled("=".repeat(done), palette.step("done")),
        Span::styled("X".repeat(failed), palette.step("failed")),
        Span::styled(">".repeat(busy), palette.step("rebuilding")),
        Span::styled(".".repeat(left), palette.step("pending")),
    ])
}

fn nodes(frame: &mut Frame<'_>, area: Rect, app: &App, rollout: &Rollout, now: Timestamp) {
    let limits = match (rollout.canary, rollout.max_unavailable) {
        (0, 0) => String::new(),
        (0, most) => format!(", at most {most} at a time"),
        (canary, 0) => format!(", {canary} first"),
        (canary, most) => format!(", {canary} first, then at most {most} at a time"),
    };
    let title = format!(
        " {} done, {} in work, {} to come, {} failed, {} skipped{limits} ",
        rollout.done, rollout.in_flight, rollout.pending, rollout.failed, rollout.skipped
    );
    let block = Block::new().borders(Borders::TOP).title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let mut nodes = app.model.nodes_of(rollout.id);
    if nodes.is_empty() {
        return nothing(frame, inner, app, "Its nodes are in `kiln rebuild status`.");
    }
    // What goes on is of more interest than what is done or to come.
    nodes.sort_by_key(|node| match node.step.as_str() {
        "failed" => 0,
        "pending" => 2,
        "done" | "skipped" => 3,
        _ => 1,
    });
    let rows = nodes.iter().map(|node| {
        let image = |name: &Option<String>| name.clone().unwrap_or_else(|| "?".into());
        Row::new([
            Span::raw(node.node.clone()),
            Span::styled(node.step.clone(), app.palette.step(&node.step)),
            Span::raw(format!("{:>7}", since(node.since, now))),
            Span::raw(node.text.clone()),
            Span::styled(
                format!("{} -> {}", image(&node.previous), image(&node.target)),
                app.palette.faint(),
            ),
        ])
    });
    let widths = [
        Constraint::Length(16),
        Constraint::Length(10),
        Constraint::Length(7),
        Constraint::Min(20),
        Constraint::Percentage(35),
    ];
    list(frame, inner, app, &["node", "step", "for", "", "image"], &widths, rows.collect(), None);
}
