//! Who may look, and who may change something.
//!
//! Three kinds of keys, of which only hashes are kept: a token, for programs; the word of a one-time login, which `kiln dashboard`
//! gives a browser; and the session that a login begins. All of them end. [`oidc`] lets in whom a provider of the site knows.

mod attempts;
mod caller;
mod oidc;
mod secret;

use std::time::Duration;

use jiff::Timestamp;
use kiln_wire::dashboard::Role;

pub use attempts::Attempts;
pub use caller::{Caller, cookie, cookie_name, end_cookie, session_cookie, session_secret};
pub use oidc::{BACK as OIDC_BACK, BEGIN as OIDC_BEGIN, Back, Fault, Oidc, Person};
pub use secret::{csrf, hash, mint};

/// How long a one-time login may wait for its browser.
pub const LOGIN_LIFE: Duration = Duration::from_secs(2 * 60);
/// How long a session lasts, whatever happens in it.
pub const SESSION_LIFE: Duration = Duration::from_secs(8 * 3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Token,
    Login,
    Session,
}

impl KeyKind {
    /// As it is kept.
    pub fn word(self) -> &'static str {
        match self {
            KeyKind::Token => "token",
            KeyKind::Login => "login",
            KeyKind::Session => "session",
        }
    }
}

/// What a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub kind: KeyKind,
    /// Of whoever has it.
    pub name: String,
    pub role: Role,
    pub created: Timestamp,
    pub expires: Timestamp,
}

impl Key {
    /// One that begins now.
    pub fn new(kind: KeyKind, name: &str, role: Role, life: Duration) -> Key {
        let created = Timestamp::now();
        Key { kind, name: name.into(), role, created, expires: created.checked_add(life).unwrap_or(created) }
    }
}
