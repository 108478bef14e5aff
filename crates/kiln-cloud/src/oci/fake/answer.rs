//! Answers and refusals.

use serde_json::{Value, json};

#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub body: Option<Content>,
    pub headers: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone)]
pub enum Content {
    Json(Value),
    Bytes(Vec<u8>),
}

/// An answer, or a refusal, which is one as well.
pub type Outcome = Result<Answer, Answer>;

impl Answer {
    pub fn json(value: Value) -> Answer {
        Answer { status: 200, body: Some(Content::Json(value)), headers: vec![] }
    }

    pub fn empty() -> Answer {
        Answer { status: 204, body: None, headers: vec![] }
    }

    pub fn bytes(bytes: Vec<u8>) -> Answer {
        Answer { status: 200, body: Some(Content::Bytes(bytes)), headers: vec![] }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }
}

pub fn refuse(status: u16, code: &str, message: impl Into<String>) -> Answer {
    Answer {
        status,
        body: Some(Content::Json(json!({ "code": code, "message": message.into() }))),
        headers: vec![],
    }
}

/// Also for what the caller may not see.
pub fn not_found() -> Answer {
    refuse(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
}

pub fn invalid(message: impl Into<String>) -> Answer {
    refuse(400, "InvalidParameter", message)
}

pub fn lacks(what: &str) -> Answer {
    refuse(400, "MissingParameter", format!("Missing parameter: {what}"))
}

pub fn busy(message: impl Into<String>) -> Answer {
    refuse(409, "IncorrectState", message)
}
