//! The cluster at a glance: a letter for each node, what is not as it should be, why jobs wait.

use jiff::Timestamp;
use kiln_web::view::{Group, Node};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

use super::rollouts::bar;
use crate::app::App;
use crate::words::{KINDS, Palette, clock, letter, natural, severity_word};

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, now: Timestamp) {
    let Some(seen) = &app.model.overview else { return };
    let open = app.model.rollouts().into_iter().filter(|rollout| rollout.is_open).take(3);
    let rollouts: Vec<Line<'_>> = open
        .map(|rollout| {
            let mut line = Line::raw(format!("Rollout {} ", rollout.id));
            line.spans.extend(bar(rollout, 20, app.palette).spans);
            line.push_span(Span::raw(format!(" {}/{}  {}", rollout.done, rollout.total, rollout.message)));
            line
        })
        .collect();
    let mut map = Vec::new();
    for group in &seen.groups {
        map.push(summary(group, app.palette));
        map.extend(cells(app, &group.name, usize::from(area.width)));
    }
    // Findings and reasons get a third at least, and what the map leaves.
    let given = area.height.saturating_sub(u16::try_from(rollouts.len()).unwrap_or(0));
    let wanted = u16::try_from(map.len()).unwrap_or(u16::MAX);
    let least = (given / 3).max(4);
    let shown = wanted.min(given.saturating_sub(least));
    if wanted > shown && shown > 0 {
        let left_out = map.len() + 1 - usize::from(shown);
        map.truncate(usize::from(shown) - 1);
        let words = format!("… {left_out} more lines: 2 shows all nodes");
        map.push(Line::styled(words, app.palette.faint()));
    }
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(shown),
        Constraint::Length(u16::try_from(rollouts.len()).unwrap_or(0)),
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(map), top);
    frame.render_widget(Paragraph::new(rollouts), middle);
    let [left, right] = Layout::horizontal([Constraint::Percentage(60), Constraint::Min(20)]).areas(bottom);
    section(frame, left, app, " Findings, worst first ", findings(app, now));
    section(frame, right, app, " Why jobs wait ", reasons(app));
}

fn section(frame: &mut Frame<'_>, area: Rect, app: &App, title: &str, lines: Vec<Line<'_>>) {
    let block = Block::new().borders(Borders::TOP).title(Span::styled(title, app.palette.title()));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}

/// `standard  900 nodes: X 3 down, A 612 allocated, ...`
fn summary(group: &Group, palette: Palette) -> Line<'_> {
    let total: usize = group.nodes.values().sum();
    let elastic = if group.elastic { ", elastic" } else { "" };
    let mut line = Line::from(vec![
        Span::styled(group.name.as_str(), palette.title()),
        Span::raw(format!("  {total} nodes{elastic}:")),
    ]);
    for kind in KINDS {
        if let Some(count) = group.nodes.get(kind.word()).filter(|count| **count > 0) {
            line.push_span(Span::raw("  "));
            line.push_span(Span::styled(
                format!("{} {count} {}", letter(kind), kind.word()),
                palette.node(kind),
            ));
        }
    }
    line
}

/// A letter for each node, in the order of their names.
fn cells<'a>(app: &'a App, group: &str, width: usize) -> Vec<Line<'a>> {
    let mut nodes: Vec<&Node> = app.model.nodes.values().filter(|node| node.group == group).collect();
    nodes.sort_by(|a, b| natural(&a.name, &b.name));
    let line = |nodes: &[&Node]| {
        let mut line = Line::default();
        // Neighbours that do the same are one span: fewer changes of colour to send.
        for run in nodes.chunk_by(|a, b| a.kind == b.kind) {
            let text = String::from(letter(run[0].kind)).repeat(run.len());
            line.push_span(Span::styled(text, app.palette.node(run[0].kind)));
        }
        line
    };
    nodes.chunks(width.max(1)).map(line).collect()
}

fn findings(app: &App, now: Timestamp) -> Vec<Line<'_>> {
    let all = app.model.overview.as_ref().map_or(&[][..], |seen| &seen.findings);
    if all.is_empty() {
        return vec![Line::styled("Nothing: all is as it should be.", app.palette.good())];
    }
    let line = |finding: &kiln_web::view::Finding| {
        let due = finding.due.map(|due| format!(" ({})", clock(due, now))).unwrap_or_default();
        Line::from(vec![
            Span::styled(
                format!("{} {}", severity_word(finding.severity), finding.subject),
                app.palette.severity(finding.severity),
            ),
            Span::raw(format!(": {}. {}{due}", finding.text, finding.next)),
        ])
    };
    all.iter().take(50).map(line).collect()
}

fn reasons(app: &App) -> Vec<Line<'_>> {
    let reasons = app.model.reasons();
    if reasons.is_empty() {
        return vec![Line::styled("No job waits.", app.palette.faint())];
    }
    reasons.into_iter().map(|(text, count)| Line::raw(format!("{count:>4}  {text}"))).collect()
}
