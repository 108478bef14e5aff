//! What is looked at, and what keys do. Nothing is asked or drawn here.

use std::collections::HashMap;

use jiff::Timestamp;
use kiln_web::Order;
use kiln_web::view::{NodeDetail, Session};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::model::Model;
use crate::words::Palette;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Page {
    Overview,
    Nodes,
    Jobs,
    Rollouts,
    Events,
}

impl Page {
    pub const ALL: [Page; 5] = [Page::Overview, Page::Nodes, Page::Jobs, Page::Rollouts, Page::Events];

    pub fn name(self) -> &'static str {
        match self {
            Page::Overview => "Overview",
            Page::Nodes => "Nodes",
            Page::Jobs => "Jobs",
            Page::Rollouts => "Rollouts",
            Page::Events => "Events",
        }
    }

    fn turned(self, by: usize) -> Page {
        let at = Page::ALL.iter().position(|page| *page == self).unwrap_or(0);
        Page::ALL[(at + by) % Page::ALL.len()]
    }
}

/// What somebody is asked before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    pub rollout: i64,
    pub order: Order,
}

impl Question {
    pub fn text(self) -> String {
        let rollout = self.rollout;
        match self.order {
            Order::Pause => format!("Pause rollout {rollout}? No further nodes begin until it is resumed."),
            Order::Resume => format!("Resume rollout {rollout}? Nodes begin again."),
            Order::Abort => {
                format!(
                    "Abort rollout {rollout}? It ends; nodes that are being rebuilt are followed to their end."
                )
            }
        }
    }
}

/// What lies over a page.
#[derive(Debug)]
pub enum Over {
    Help,
    Question(Question),
    /// A node whose dossier has been asked for.
    Node {
        name: String,
        detail: Option<Box<NodeDetail>>,
        scroll: u16,
    },
    Job(String),
}

/// What a key asks for beyond the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    Quit,
    Steer(Question),
    AskNode(String),
}

pub struct App {
    pub model: Model,
    pub session: Session,
    pub palette: Palette,
    pub page: Page,
    pub over: Option<Over>,
    /// Words that rows have to have, by page.
    filters: HashMap<Page, String>,
    pub is_typing: bool,
    /// The row that is picked, by page: its key, and where it was last.
    picked: HashMap<Page, (String, usize)>,
    /// How many rows the page shows at once.
    pub height: usize,
    /// What came of the last order.
    pub message: Option<String>,
    /// Since when nothing is heard of kilnd, and why.
    pub lost: Option<(Timestamp, String)>,
}

impl App {
    pub fn new(session: Session, palette: Palette) -> App {
        App {
            model: Model::default(),
            session,
            palette,
            page: Page::Overview,
            over: None,
            filters: HashMap::new(),
            is_typing: false,
            picked: HashMap::new(),
            height: 10,
            message: None,
            lost: None,
        }
    }

    pub fn filter(&self) -> &str {
        self.filters.get(&self.page).map_or("", String::as_str)
    }

    /// The keys of the rows of this page.
    fn rows(&self) -> Vec<String> {
        let filter = self.filter();
        match self.page {
            Page::Overview => Vec::new(),
            Page::Nodes => self.model.nodes(filter).iter().map(|node| node.name.clone()).collect(),
            Page::Jobs => self.model.jobs(filter).iter().map(|job| job.id.clone()).collect(),
            Page::Rollouts => self.model.rollouts().iter().map(|rollout| rollout.id.to_string()).collect(),
            Page::Events => self.model.events(filter).iter().map(|event| event.id.to_string()).collect(),
        }
    }

    /// Which of these rows is picked. One that has gone leaves its place to its neighbour.
    pub fn picked_among<'k>(&self, keys: impl ExactSizeIterator<Item = &'k str>) -> Option<usize> {
        let count = keys.len();
        let (key, last) = self.picked.get(&self.page).map_or(("", 0), |(key, at)| (key.as_str(), *at));
        let mut keys = keys;
        keys.position(|found| found == key).or_else(|| count.checked_sub(1).map(|end| last.min(end)))
    }

    fn picked(&self) -> Option<String> {
        let mut rows = self.rows();
        let at = self.picked_among(rows.iter().map(String::as_str))?;
        Some(rows.swap_remove(at))
    }

    fn go(&mut self, by: isize) {
        let rows = self.rows();
        let Some(at) = self.picked_among(rows.iter().map(String::as_str)) else { return };
        let to = at.saturating_add_signed(by).min(rows.len() - 1);
        self.picked.insert(self.page, (rows[to].clone(), to));
    }

    pub fn press(&mut self, key: KeyEvent) -> Option<Deed> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Deed::Quit);
        }
        // Esc and a key that arrive together, as over a slow line, look like one key with Alt. No key of ours has Alt.
        if key.modifiers.contains(KeyModifiers::ALT) {
            let deed = self.press(KeyCode::Esc.into());
            return deed.or_else(|| self.press(key.code.into()));
        }
        if self.over.is_some() {
            return self.press_over(key.code);
        }
        if self.is_typing {
            self.press_typing(key.code);
            return None;
        }
        self.message = None;
        let page = isize::try_from(self.height.max(2) - 1).unwrap_or(1);
        match key.code {
            KeyCode::Char('q') => return Some(Deed::Quit),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.over = Some(Over::Help),
            KeyCode::Char(digit @ '1'..='5') => {
                self.page = Page::ALL[digit as usize - '1' as usize];
            }
            KeyCode::Tab | KeyCode::Right => self.page = self.page.turned(1),
            KeyCode::BackTab | KeyCode::Left => self.page = self.page.turned(Page::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.go(page),
            KeyCode::PageUp => self.go(-page),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            KeyCode::Char('/') if matches!(self.page, Page::Nodes | Page::Jobs | Page::Events) => {
                self.is_typing = true;
            }
            KeyCode::Esc => _ = self.filters.remove(&self.page),
            KeyCode::Enter => return self.open(),
            KeyCode::Char('p') => self.ask(Order::Pause),
            KeyCode::Char('r') => self.ask(Order::Resume),
            KeyCode::Char('a') => self.ask(Order::Abort),
            _ => {}
        }
        None
    }

    fn press_over(&mut self, code: KeyCode) -> Option<Deed> {
        match self.over.as_mut()? {
            // Nothing but a plain yes is one.
            Over::Question(question) => {
                let question = *question;
                self.over = None;
                if matches!(code, KeyCode::Char('y' | 'Y')) {
                    return Some(Deed::Steer(question));
                }
                self.message = Some("nothing was changed".into());
            }
            Over::Node { scroll, .. } => match code {
                KeyCode::Down | KeyCode::Char('j') => *scroll = scroll.saturating_add(1),
                KeyCode::Up | KeyCode::Char('k') => *scroll = scroll.saturating_sub(1),
                KeyCode::PageDown | KeyCode::Char(' ') => *scroll = scroll.saturating_add(10),
                KeyCode::PageUp => *scroll = scroll.saturating_sub(10),
                KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => self.over = None,
                _ => {}
            },
            Over::Help | Over::Job(_) => self.over = None,
        }
        None
    }

    fn press_typing(&mut self, code: KeyCode) {
        let filter = self.filters.entry(self.page).or_default();
        match code {
            KeyCode::Char(c) => filter.push(c),
            KeyCode::Backspace => _ = filter.pop(),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
    }

    fn open(&mut self) -> Option<Deed> {
        let key = self.picked()?;
        match self.page {
            Page::Nodes => return Some(self.open_node(key)),
            Page::Jobs => self.over = Some(Over::Job(key)),
            Page::Events => {
                let node = self.model.events.get(&key.parse().ok()?)?.node.clone();
                if self.model.nodes.contains_key(&node) {
                    return Some(self.open_node(node));
                }
            }
            Page::Overview | Page::Rollouts => {}
        }
        None
    }

    fn open_node(&mut self, name: String) -> Deed {
        self.over = Some(Over::Node { name: name.clone(), detail: None, scroll: 0 });
        Deed::AskNode(name)
    }

    /// The dossier of a node, if that is still what is looked at.
    pub fn told(&mut self, answer: NodeDetail) {
        if let Some(Over::Node { name, detail, .. }) = &mut self.over
            && *name == answer.node.name
        {
            *detail = Some(Box::new(answer));
        }
    }

    /// The rollout that keys are about: the picked one, or elsewhere the newest that is not over.
    fn ask(&mut self, order: Order) {
        let picked = if self.page == Page::Rollouts {
            self.picked().and_then(|key| key.parse().ok())
        } else {
            self.model.rollouts().iter().find(|rollout| rollout.is_open).map(|rollout| rollout.id)
        };
        let rollout = picked.and_then(|id: i64| self.model.rollouts.get(&id));
        self.message = Some(match rollout {
            _ if self.session.role != "operator" => "this takes the role operator: you are a viewer".into(),
            None => "there is no rollout that goes on".into(),
            Some(rollout) if !rollout.is_open => {
                format!("rollout {} is over: {}", rollout.id, rollout.message)
            }
            Some(rollout) => {
                self.over = Some(Over::Question(Question { rollout: rollout.id, order }));
                return;
            }
        });
    }
}
