//! What Kiln did, newest first.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Span;
use ratatui::widgets::Row;

use super::{list, nothing};
use crate::app::App;
use crate::words::clock;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, now: Timestamp) {
    let events = app.model.events(app.filter());
    if events.is_empty() {
        return nothing(frame, area, app, "There are no such events.");
    }
    let keys: Vec<String> = events.iter().map(|event| event.id.to_string()).collect();
    let picked = app.picked_among(keys.iter().map(String::as_str));
    let rows = events.iter().map(|event| {
        Row::new([
            Span::raw(clock(event.time, now)),
            Span::raw(event.node.clone()),
            Span::raw(event.what.clone()),
            Span::raw(event.outcome.clone()),
            Span::styled(event.why.clone(), app.palette.faint()),
        ])
    });
    let widths = [
        Constraint::Length(11),
        Constraint::Length(14),
        Constraint::Length(14),
        Constraint::Percentage(35),
        Constraint::Min(10),
    ];
    list(frame, area, app, &["time", "node", "what", "outcome", "why"], &widths, rows.collect(), picked);
}
