//! Faults on order.

use super::answer::{Answer, refuse};

/// What happens to a request, once.
#[derive(Debug, Clone)]
pub struct Fault {
    /// What the request begins with: `POST /20160918/instances`.
    pub to: String,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub enum Kind {
    /// Refused.
    Answer(Answer),
    /// Carried out, but the connection ends before the answer.
    LoseAnswer,
    /// Not even read.
    Cut,
}

impl Fault {
    pub fn refuse(to: &str, status: u16, code: &str, message: &str) -> Fault {
        Fault { to: to.into(), kind: Kind::Answer(refuse(status, code, message)) }
    }

    pub fn throttle(to: &str) -> Fault {
        Fault::refuse(to, 429, "TooManyRequests", "Too many requests for the tenant")
    }

    pub fn lose_answer(to: &str) -> Fault {
        Fault { to: to.into(), kind: Kind::LoseAnswer }
    }

    pub fn cut(to: &str) -> Fault {
        Fault { to: to.into(), kind: Kind::Cut }
    }
}
