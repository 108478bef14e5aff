//! All compute nodes.

use kiln_web::view::Node;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Span;
use ratatui::widgets::Row;

use super::{in_full, list, nothing, with_line};
use crate::app::App;
use crate::words::letter;

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let nodes = app.model.nodes(app.filter());
    if nodes.is_empty() {
        return nothing(frame, area, app, "There are no such nodes.");
    }
    let (area, below) = with_line(area);
    let picked = app.picked_among(nodes.iter().map(|node| node.name.as_str()));
    let rows = nodes.iter().map(|node| {
        Row::new([
            Span::raw(node.name.clone()),
            Span::styled(format!("{} {}", letter(node.kind), node.kind.word()), app.palette.node(node.kind)),
            Span::raw(node.group.clone()),
            Span::raw(format!("{:>4}/{:<4}", node.cpus_allocated, node.cpus)),
            Span::raw(node.image.clone().unwrap_or_else(|| "-".into())),
            Span::raw(why(node)),
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
    let full = picked.and_then(|at| nodes.get(at)).map(|node| {
        let state = node.state.as_deref().unwrap_or("unknown to Slurm");
        format!("{}: {state}. {}", node.name, why(node))
    });
    in_full(frame, below, app, full.unwrap_or_default());
    list(frame, area, app, &headings, &widths, rows.collect(), picked);
}

fn why(node: &Node) -> String {
    match (&node.finding, &node.reason) {
        (Some(finding), _) => format!("{}. {}", finding.text, finding.next),
        (None, Some(reason)) => reason.clone(),
        (None, None) => String::new(),
    }
}
