//! Drawing: one file per page, and what lies over them.

mod events;
mod jobs;
mod nodes;
mod over;
mod overview;
mod rollouts;

use jiff::Timestamp;
use kiln_web::view::Severity;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table, TableState, Wrap};

use crate::app::{App, Page};
use crate::words::clock;

pub fn draw(frame: &mut Frame<'_>, app: &mut App, now: Timestamp) {
    let [head, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    // Without the headings of its table, and the lines below it.
    app.height = usize::from(body.height.saturating_sub(4));
    frame.render_widget(heading(app, now), head);
    frame.render_widget(pages(app), tabs);
    if app.model.overview.is_none() {
        let words = app.model.problem.as_deref().unwrap_or("Slurm and the cloud are being asked …");
        frame.render_widget(Paragraph::new(words), body);
    } else {
        match app.page {
            Page::Overview => overview::draw(frame, body, app, now),
            Page::Nodes => nodes::draw(frame, body, app),
            Page::Jobs => jobs::draw(frame, body, app, now),
            Page::Rollouts => rollouts::draw(frame, body, app, now),
            Page::Events => events::draw(frame, body, app, now),
        }
    }
    frame.render_widget(footing(app, now), foot);
    over::draw(frame, body, app, now);
}

fn heading(app: &App, now: Timestamp) -> Line<'_> {
    let palette = app.palette;
    let mut spans = vec![Span::styled(format!("{} ", app.session.cluster), palette.title())];
    if let Some(seen) = &app.model.overview {
        let nodes: usize = seen.nodes.values().sum();
        let count = |severity| seen.findings.iter().filter(|finding| finding.severity == severity).count();
        spans.push(Span::raw(format!(
            " {nodes} nodes  {}/{} cores  {} running  {} waiting  ",
            seen.cpus_allocated, seen.cpus, seen.jobs_running, seen.jobs_waiting
        )));
        for (severity, word) in [(Severity::Broken, "broken"), (Severity::Warning, "warnings")] {
            if count(severity) > 0 {
                spans.push(Span::styled(format!("{} {word}  ", count(severity)), palette.severity(severity)));
            }
        }
        spans.push(Span::styled(format!("seen {} UTC", clock(seen.observed, now)), palette.faint()));
    }
    Line::from(spans)
}

fn pages(app: &App) -> Line<'_> {
    let tabs = Page::ALL.iter().enumerate().map(|(number, page)| {
        let style = if *page == app.page { app.palette.picked() } else { app.palette.faint() };
        Span::styled(format!(" {} {} ", number + 1, page.name()), style)
    });
    Line::from(tabs.collect::<Vec<_>>())
}

/// What is wrong with the connection, else what came of the last order, else what can be pressed.
fn footing(app: &App, now: Timestamp) -> Line<'_> {
    let palette = app.palette;
    if let Some((since, why)) = &app.lost {
        let words = format!("Nothing new since {}: {why}. Trying again.", clock(*since, now));
        return Line::styled(words, palette.bad());
    }
    if app.is_typing {
        return Line::raw(format!("/{}_   Enter: keep   Esc: show all", app.filter()));
    }
    if let Some(message) = &app.message {
        return Line::styled(message.as_str(), palette.title());
    }
    if let Some(problem) = app.model.problem.as_ref().filter(|_| app.model.overview.is_some()) {
        return Line::styled(format!("Nothing new: {problem}"), palette.bad());
    }
    let mut keys = vec!["q quit", "? keys"];
    match app.page {
        Page::Overview => {}
        Page::Nodes | Page::Jobs => keys.extend(["/ find", "Enter more"]),
        Page::Rollouts => keys.extend(["p pause", "r resume", "a abort"]),
        Page::Events => keys.extend(["/ find", "Enter its node"]),
    }
    let mut line = keys.join("   ");
    if !app.filter().is_empty() {
        line = format!("only with {:?}: Esc shows all   {line}", app.filter());
    }
    Line::styled(line, palette.faint())
}

/// Rows with one of them picked, from which on the others are shown.
fn list<'r>(
    frame: &mut Frame<'_>,
    area: Rect,
    app: &App,
    headings: &'r [&'r str],
    widths: &[Constraint],
    rows: Vec<Row<'r>>,
    picked: Option<usize>,
) {
    let heads = Row::new(headings.iter().copied()).style(app.palette.title());
    let table = Table::new(rows, widths.to_vec())
        .header(heads)
        .column_spacing(1)
        .row_highlight_style(app.palette.picked());
    let mut state = TableState::new().with_selected(picked);
    // As many above the picked one as there is room for, so that the screen does not jump.
    let height = usize::from(area.height.saturating_sub(1)).max(1);
    *state.offset_mut() = picked.map_or(0, |at| at - at % height);
    frame.render_stateful_widget(table, area, &mut state);
}

/// The lines below a list, where what its columns cut off stands in full.
fn with_line(area: Rect) -> (Rect, Option<Rect>) {
    if area.height < 10 {
        return (area, None);
    }
    let [list, line] = Layout::vertical([Constraint::Min(0), Constraint::Length(3)]).areas(area);
    (list, Some(line))
}

fn in_full(frame: &mut Frame<'_>, area: Option<Rect>, app: &App, text: String) {
    let Some(area) = area else { return };
    let block = Block::new().borders(Borders::TOP).border_style(app.palette.faint());
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }).block(block), area);
}

fn nothing(frame: &mut Frame<'_>, area: Rect, app: &App, words: &str) {
    frame.render_widget(Line::styled(words.to_string(), app.palette.faint()), area);
}
