//! What the administrators of a cloud have to make so that control nodes can use it.

use serde::Serialize;

/// One thing that has to be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Right {
    /// `policy kiln-demo`
    pub name: String,
    /// What it is for.
    pub purpose: &'static str,
    /// What it says, in the cloud's own language.
    pub text: Vec<String>,
    pub state: RightState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum RightState {
    There,
    /// Just now.
    Made,
    Missing,
    /// In the cloud's words. It may be there all the same.
    NotSeen {
        why: String,
    },
    /// It is not there, in the cloud's words.
    NotMade {
        why: String,
    },
}

impl Right {
    pub fn is_there(&self) -> bool {
        matches!(self.state, RightState::There | RightState::Made)
    }

    /// Why it is not known to be there.
    pub fn why(&self) -> Option<&str> {
        match &self.state {
            RightState::There | RightState::Made => None,
            RightState::Missing => Some("it is missing"),
            RightState::NotSeen { why } | RightState::NotMade { why } => Some(why),
        }
    }
}
