//! What lies over a page: a question, a node, a job, the keys.

use jiff::Timestamp;
use kiln_web::view::{Job, NodeDetail};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use crate::app::{App, Over};
use crate::words::{clock, since};

const KEYS: &[(&str, &str)] = &[
    ("1 to 5, Tab", "pages"),
    ("arrows, j, k, PgUp, PgDn, Home, End", "move"),
    ("/", "only rows with a word; Esc: all again"),
    ("Enter", "more about a node or a job"),
    ("p, r, a", "pause, resume, abort a rollout; you are asked first"),
    ("q, Ctrl-C", "quit"),
];

pub fn draw(frame: &mut Frame<'_>, body: Rect, app: &App, now: Timestamp) {
    match &app.over {
        None => {}
        Some(Over::Help) => {
            let line = |(keys, what): &(&'static str, &'static str)| {
                Line::from(vec![Span::styled(format!("{keys:>36}  "), app.palette.title()), Span::raw(*what)])
            };
            frame_of(frame, body, " Keys ", KEYS.iter().map(line).collect(), (76, 8), 0);
        }
        Some(Over::Question(question)) => {
            let lines = vec![
                Line::raw(question.text()),
                Line::default(),
                Line::styled("y: yes    any other key: no", app.palette.title()),
            ];
            frame_of(frame, body, " Are you sure? ", lines, (64, 6), 0);
        }
        Some(Over::Node { name, detail, scroll }) => {
            let lines = match detail {
                None => vec![Line::styled("Slurm and the cloud are being asked …", app.palette.faint())],
                Some(detail) => node(app, detail, now),
            };
            let size = (body.width.saturating_sub(4), body.height);
            frame_of(frame, body, &format!(" {name} (Esc closes) "), lines, size, *scroll);
        }
        Some(Over::Job(id)) => {
            let lines = match app.model.jobs.get(id) {
                None => vec![Line::raw("It is no longer in the queue: `sacct` has its history.")],
                Some(found) => job(app, found, now),
            };
            frame_of(frame, body, &format!(" Job {id} "), lines, (84, 15), 0);
        }
    }
}

fn frame_of(
    frame: &mut Frame<'_>,
    body: Rect,
    title: &str,
    lines: Vec<Line<'_>>,
    size: (u16, u16),
    scroll: u16,
) {
    let (width, height) = (size.0.min(body.width), size.1.min(body.height));
    let area =
        Rect { x: body.x + (body.width - width) / 2, y: body.y + (body.height - height) / 2, width, height };
    let text = Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((scroll, 0));
    frame.render_widget(Clear, area);
    frame.render_widget(text.block(Block::bordered().title(title)), area);
}

fn fields<'a>(app: &App, fields: &[(&'static str, String)]) -> Vec<Line<'a>> {
    let shown = fields.iter().filter(|(_, value)| !value.is_empty());
    shown
        .map(|(name, value)| {
            Line::from(vec![
                Span::styled(format!("{name:>10}  "), app.palette.faint()),
                Span::raw(value.clone()),
            ])
        })
        .collect()
}

fn node<'a>(app: &App, detail: &'a NodeDetail, now: Timestamp) -> Vec<Line<'a>> {
    let node = &detail.node;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let by = node.reason_by.as_ref().map(|by| format!(" (by {by})")).unwrap_or_default();
    let mut lines = fields(
        app,
        &[
            ("Slurm", text(&node.state)),
            ("verdict", detail.verdict.clone()),
            ("next", detail.next.clone()),
            ("reason", node.reason.as_ref().map(|reason| format!("{reason}{by}")).unwrap_or_default()),
            ("instance", text(&node.instance)),
            ("image", text(&node.image)),
            ("address", text(&node.address)),
            ("up for", node.booted.map(|booted| since(booted, now)).unwrap_or_default()),
            ("cores", format!("{} of {} in use", node.cpus_allocated, node.cpus)),
        ],
    );
    for request in &detail.requests {
        let error = request.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        lines.push(Line::raw(format!("   request  {} {}{error}", request.kind, request.state)));
    }
    lines.push(Line::styled("Its life, newest first", app.palette.title()));
    for event in &detail.timeline {
        lines.push(Line::raw(format!(
            "{}  {}: {} ({})",
            clock(event.time, now),
            event.what,
            event.outcome,
            event.why
        )));
    }
    for console in &detail.consoles {
        lines.push(Line::styled("The end of its console", app.palette.title()));
        let end = console.lines.len().saturating_sub(20);
        lines.extend(console.lines[end..].iter().map(|line| Line::raw(line.as_str())));
    }
    lines
}

fn job<'a>(app: &App, job: &Job, now: Timestamp) -> Vec<Line<'a>> {
    let time = |time: Option<Timestamp>| time.map(|time| clock(time, now)).unwrap_or_default();
    let (why, needs) = match &job.waiting {
        None => (String::new(), ""),
        Some(waiting) => (
            format!("{} (Slurm says: {})", waiting.text, waiting.reason),
            match waiting.needs {
                kiln_web::view::Needs::Time => "it starts by itself",
                kiln_web::view::Needs::Owner => "its owner has to act",
                kiln_web::view::Needs::Administrator => "an administrator has to act",
                kiln_web::view::Needs::Unknown => "not known to Kiln",
            },
        ),
    };
    fields(
        app,
        &[
            ("name", job.name.clone()),
            ("user", format!("{} ({})", job.user, job.account)),
            ("partition", job.partition.clone()),
            ("QOS", job.qos.clone()),
            ("state", job.state.clone()),
            ("asked for", format!("{} nodes, {} cores, {}", job.nodes, job.cpus, job.time_limit)),
            ("priority", job.priority.to_string()),
            ("submitted", time(job.submitted)),
            (if job.waiting.is_some() { "expected" } else { "begun" }, time(job.start)),
            ("runs on", job.nodelist.clone()),
            ("waits", why),
            ("who acts", needs.into()),
        ],
    )
}
