//! All compute nodes.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Span;
use ratatui::widgets::Row;

use super::{list, nothing};
use crate::app::App;
use crate::words::letter;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let nodes = app.model.nodes(app.filter());
    if nodes.is_empty() {
        return nothing(frame, area, app, "There are no such nodes.");
    }
    let picked = app.picked_among(nodes.iter().map(|node| node.name.as_str()));
    let rows = nodes.iter().map(|node| {
        let why = match (&node.finding, &node.reason) {
            (Some(finding), _) => format!("{}. {}", finding.text, finding.next),
            (None, Some(reason)) => reason.clone(),
            (None, None) => String::new(),
        };
        Row::new([
            Span::raw(node.name.clone()),
            Span::styled(
                format!("{} {}", letter(node.kind), node.kind.word()),
                app.palette.node(node.kind),
            ),
            Span::raw(node.group.clone()),
            Span::raw(format!("{:>4}/{:<4}", node.cpus_allocated, node.cpus)),
            Span::raw(node.image.clone().unwrap_or_else(|| "-".into())),
            Span::raw(why),
        ])
    });
    let widths = [
        Constraint::Length(16),
        Constraint::Length(14),
        Constraint::Length(12),
        Constraint::Length(9),
        Constraint::Length(22),
        Constraint::Min(10),
    ];
    let headings = ["node", "state", "group", "cores", "image", "why"];
    list(frame, area, app, &headings, &widths, rows.collect(), picked);
}
