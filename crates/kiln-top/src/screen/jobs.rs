//! The queue, with why each job waits.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Span;
use ratatui::widgets::Row;

use super::{in_full, list, nothing, with_line};
use crate::app::App;
use crate::words::since;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, now: Timestamp) {
    let jobs = app.model.jobs(app.filter());
    if jobs.is_empty() {
        return nothing(frame, area, app, "There are no such jobs.");
    }
    let (area, below) = with_line(area);
    let picked = app.picked_among(jobs.iter().map(|job| job.id.as_str()));
    let rows = jobs.iter().map(|job| {
        let (from, place) = match &job.waiting {
            Some(waiting) => (job.submitted, waiting.text.clone()),
            None => (job.start, job.nodelist.clone()),
        };
        let state =
            if job.waiting.is_some() { Span::raw("waits") } else { Span::raw(job.state.to_lowercase()) };
        let style = if job.waiting.is_some() { app.palette.faint() } else { app.palette.good() };
        Row::new([
            Span::raw(job.id.clone()),
            Span::raw(job.user.clone()),
            Span::raw(job.name.clone()),
            Span::raw(job.partition.clone()),
            state.style(style),
            Span::raw(format!("{:>5}", job.nodes)),
            Span::raw(from.map(|from| format!("{:>7}", since(from, now))).unwrap_or_default()),
            Span::raw(place),
        ])
    });
    let widths = [
        Constraint::Length(11),
        Constraint::Length(9),
        Constraint::Length(14),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(5),
        Constraint::Length(7),
        Constraint::Min(10),
    ];
    let headings = ["job", "user", "name", "partition", "state", "nodes", "for", "why, or where"];
    let full = picked.and_then(|at| jobs.get(at)).map(|job| match &job.waiting {
        Some(waiting) => format!("{}: {}", job.id, waiting.text),
        None => format!("{}: it runs on {}", job.id, job.nodelist),
    });
    in_full(frame, below, app, full.unwrap_or_default());
    list(frame, area, app, &headings, &widths, rows.collect(), picked);
}
