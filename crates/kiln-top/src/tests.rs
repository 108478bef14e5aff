//! What is drawn, and what keys do, without a terminal and without kilnd.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_web::Order;
use kiln_web::view::{
    Change, Event, Finding, Group, Job, Needs, Node, NodeKind, Overview, Rollout, Session, Severity, Waiting,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::app::{App, Deed, Page, Question};
use crate::screen;
use crate::sse::Message;
use crate::words::Palette;

fn at() -> Timestamp {
    "2026-01-31T09:00:00Z".parse().unwrap()
}

fn node(name: &str, kind: NodeKind) -> Node {
    Node {
        name: name.into(),
        group: "main".into(),
        elastic: false,
        kind,
        state: Some("IDLE".into()),
        partitions: vec!["short".into()],
        cpus: 4,
        cpus_allocated: 1,
        memory_mib: 0,
        reason: (kind == NodeKind::Drained).then(|| "bad fan".into()),
        reason_by: None,
        booted: None,
        slurmd_started: None,
        address: None,
        image: Some("base".into()),
        instance: None,
        finding: None,
    }
}

fn job(id: &str, name: &str) -> Job {
    Job {
        id: id.into(),
        name: name.into(),
        user: "ann".into(),
        account: "physics".into(),
        partition: "short".into(),
        qos: "normal".into(),
        state: "PENDING".into(),
        priority: 1,
        nodes: 1,
        cpus: 1,
        submitted: Some(at()),
        start: None,
        time_limit: "1:00:00".into(),
        nodelist: String::new(),
        waiting: Some(Waiting {
            reason: "Priority".into(),
            text: "Other jobs come first.".into(),
            needs: Needs::Time,
        }),
    }
}

fn rollout(state: &str) -> Rollout {
    Rollout {
        id: 7,
        created: at(),
        finished: None,
        state: state.into(),
        message: state.into(),
        is_open: state != "done",
        total: 4,
        pending: 2,
        in_flight: 1,
        done: 1,
        failed: 0,
        skipped: 0,
        strategy: "job".into(),
        canary: 0,
        max_unavailable: 0,
        halt_after: 0,
    }
}

fn picture() -> Change {
    let count = |kind: &str, count| (kind.to_string(), count);
    let kinds = BTreeMap::from([count("idle", 2), count("drained", 1)]);
    let finding = Finding {
        severity: Severity::Broken,
        subject: "node-10".into(),
        text: "it has no instance".into(),
        next: "Kiln does nothing about it by itself.".into(),
        due: None,
        since: None,
    };
    Change {
        overview: Some(Overview {
            cluster: "demo".into(),
            version: "0".into(),
            observed: at(),
            last_check: None,
            nodes: kinds.clone(),
            groups: vec![Group { name: "main".into(), elastic: false, nodes: kinds }],
            cpus: 12,
            cpus_allocated: 3,
            jobs_running: 0,
            jobs_waiting: 2,
            jobs_listed: 2,
            findings: vec![finding],
        }),
        nodes: vec![
            node("node-10", NodeKind::Drained),
            node("node-2", NodeKind::Idle),
            node("node-1", NodeKind::Idle),
        ],
        nodes_gone: Vec::new(),
        jobs: vec![job("11", "relax"), job("12", "\u{1b}]0;title\u{7}evil")],
        jobs_gone: Vec::new(),
        rollouts: vec![rollout("running")],
        rollout_nodes: Vec::new(),
        events: vec![Event {
            id: 1,
            time: at(),
            node: "node-2".into(),
            what: "reboot".into(),
            why: "asked by Slurm".into(),
            outcome: "rebuilt".into(),
        }],
    }
}

fn app(role: &str) -> App {
    let session =
        Session { cluster: "demo".into(), name: "olga".into(), role: role.into(), expires: at(), csrf: None };
    let mut app = App::new(session, Palette { has_colour: false });
    app.model.take(Message::Picture(Box::new(picture())));
    app
}

fn press(app: &mut App, code: KeyCode) -> Option<Deed> {
    app.press(KeyEvent::from(code))
}

fn type_in(app: &mut App, text: &str) -> Option<Deed> {
    text.chars().fold(None, |_, c| press(app, KeyCode::Char(c)))
}

fn drawn(app: &mut App) -> String {
    let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
    terminal.draw(|frame| screen::draw(frame, app, at())).unwrap();
    let buffer = terminal.backend().buffer();
    let cells: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
    cells.chunks(100).map(|row| row.concat().trim_end().to_string() + "\n").collect()
}

/// Of the rows of the list; what stands below it in full has a colon.
fn names_in_order(text: &str) -> Vec<&str> {
    let first = text.lines().filter_map(|line| line.split(' ').next());
    first.filter(|word| word.starts_with("node-") && !word.ends_with(':')).collect()
}

#[test]
fn pages_show_what_they_are_for() {
    let mut app = app("viewer");
    let overview = drawn(&mut app);
    for text in
        ["demo  3 nodes  3/12 cores", "1 broken", "IID", "Other jobs come first.", "Rollout 7", "no instance"]
    {
        assert!(overview.contains(text), "{text}\n{overview}");
    }
    type_in(&mut app, "2");
    assert_eq!(names_in_order(&drawn(&mut app)), ["node-1", "node-2", "node-10"]);
    type_in(&mut app, "4");
    let rollouts = drawn(&mut app);
    assert!(rollouts.contains("====>>>>........"), "{rollouts}");
    type_in(&mut app, "5");
    assert!(drawn(&mut app).contains("asked by Slurm"));
}

#[test]
fn a_users_text_does_nothing_to_the_terminal() {
    let mut app = app("viewer");
    type_in(&mut app, "3");
    let jobs = drawn(&mut app);
    assert!(jobs.contains("evil") && !jobs.contains(['\u{1b}', '\u{7}']), "{jobs:?}");
}

#[test]
fn an_order_is_asked_about_and_only_yes_is_yes() {
    let mut app = app("operator");
    let question = Question { rollout: 7, order: Order::Abort };
    for other in ['n', 'a', ' '] {
        assert_eq!(type_in(&mut app, "a"), None);
        assert!(drawn(&mut app).contains("Abort rollout 7?"));
        assert_eq!(press(&mut app, KeyCode::Char(other)), None);
        assert!(drawn(&mut app).contains("nothing was changed"));
    }
    assert_eq!(type_in(&mut app, "ay"), Some(Deed::Steer(question)));
}

#[test]
fn a_viewer_and_a_rollout_that_is_over_get_no_question() {
    let mut viewer = app("viewer");
    assert_eq!(type_in(&mut viewer, "py"), None);
    type_in(&mut viewer, "p");
    assert!(drawn(&mut viewer).contains("this takes the role operator"));
    let mut operator = app("operator");
    operator.model.rollouts.insert(7, rollout("done"));
    type_in(&mut operator, "4p");
    assert!(operator.over.is_none());
    assert!(drawn(&mut operator).contains("rollout 7 is over"));
}

#[test]
fn words_leave_only_rows_that_have_them() {
    let mut app = app("viewer");
    type_in(&mut app, "2/FAN");
    press(&mut app, KeyCode::Enter);
    assert_eq!(names_in_order(&drawn(&mut app)), ["node-10"]);
    // Other pages have their own.
    type_in(&mut app, "3");
    assert_eq!(app.filter(), "");
    type_in(&mut app, "2");
    press(&mut app, KeyCode::Esc);
    assert_eq!(names_in_order(&drawn(&mut app)).len(), 3);
}

#[test]
fn escape_and_a_key_that_arrive_together_are_both_taken() {
    let mut app = app("operator");
    type_in(&mut app, "2");
    press(&mut app, KeyCode::Enter);
    assert!(app.over.is_some());
    app.press(KeyEvent::new(KeyCode::Char('4'), KeyModifiers::ALT));
    assert!(app.over.is_none());
    assert_eq!(app.page, Page::Rollouts);
    // A question is answered with no.
    type_in(&mut app, "p");
    assert!(app.over.is_some());
    assert_eq!(app.press(KeyEvent::new(KeyCode::Char('y'), KeyModifiers::ALT)), None);
    assert!(app.over.is_none());
}

#[test]
fn the_picked_row_stays_picked_when_others_go() {
    let mut app = app("viewer");
    type_in(&mut app, "2j");
    assert_eq!(press(&mut app, KeyCode::Enter), Some(Deed::AskNode("node-2".into())));
    press(&mut app, KeyCode::Esc);
    let gone = Change { nodes_gone: vec!["node-1".into()], nodes: Vec::new(), ..picture() };
    app.model.take(Message::Change(Box::new(gone)));
    assert_eq!(press(&mut app, KeyCode::Enter), Some(Deed::AskNode("node-2".into())));
    press(&mut app, KeyCode::Esc);
    let gone = Change { nodes_gone: vec!["node-2".into()], nodes: Vec::new(), ..picture() };
    app.model.take(Message::Change(Box::new(gone)));
    assert_eq!(press(&mut app, KeyCode::Enter), Some(Deed::AskNode("node-10".into())));
}

#[test]
fn what_cannot_be_seen_is_told() {
    let mut app = app("viewer");
    app.model.take(Message::Problem("Slurm is away".into()));
    assert!(drawn(&mut app).contains("Nothing new: Slurm is away"));
    app.lost = Some((at(), "connection refused".into()));
    assert!(drawn(&mut app).contains("Nothing new since 09:00:00: connection refused"));
    app.page = Page::Jobs;
    app.lost = None;
    app.model.take(Message::Change(Box::new(picture())));
    assert!(!drawn(&mut app).contains("Nothing new"));
}

#[test]
fn any_size_can_be_drawn() {
    for role in ["viewer", "operator"] {
        for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 90)] {
            let mut app = app(role);
            for key in "1a?2 \n3\n4p".chars() {
                press(&mut app, if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) });
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                terminal.draw(|frame| screen::draw(frame, &mut app, at())).unwrap();
            }
        }
    }
}
