//! How long work reports its progress. Printing is the binary's business.

/// A change of state of one item: a node, an image, a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub item: String,
    pub state: State,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Working,
    Done,
    Failed,
}

/// Receives events, from any task and at any time.
pub type Progress<'a> = &'a (dyn Fn(Event) + Send + Sync);

impl Event {
    pub fn working(item: impl Into<String>, text: impl Into<String>) -> Self {
        Event { item: item.into(), state: State::Working, text: text.into() }
    }

    pub fn done(item: impl Into<String>, text: impl Into<String>) -> Self {
        Event { item: item.into(), state: State::Done, text: text.into() }
    }

    pub fn failed(item: impl Into<String>, text: impl Into<String>) -> Self {
        Event { item: item.into(), state: State::Failed, text: text.into() }
    }
}
