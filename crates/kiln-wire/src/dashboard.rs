//! Who may look at the cluster through kilnd's window: what `kiln dashboard` and kilnd say to one another.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::SecretText;
use crate::format::{Format, Version};

/// Where kilnd listens, on control's loopback address.
pub const PORT: u16 = 6830;
/// Where it listens to other hosts, with TLS, if the cluster file says so.
pub const TLS_PORT: u16 = 6831;

/// What somebody may do there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees everything and changes nothing.
    Viewer,
    /// Pauses, resumes and aborts rollouts, too.
    Operator,
}

impl Role {
    pub const ALL: [Role; 2] = [Role::Viewer, Role::Operator];

    pub fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Role::ALL.into_iter().find(|role| role.word() == word).ok_or_else(|| {
            format!("{word:?} is not a role: there are {}", Role::ALL.map(Role::word).join(" and "))
        })
    }
}

/// Names stand in events, so they are one word that nobody takes for something else.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(format!("{name:?} is not a name: up to 64 letters, digits and any of . _ - @"));
    }
    Ok(())
}

/// What lets somebody in: a token, or the word for one login. Only its hash is kept on control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    #[serde(default)]
    pub format: Version<1>,
    pub secret: SecretText,
    /// On control's loopback address.
    pub port: u16,
    pub expires: Timestamp,
}

/// A token as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenReport {
    #[serde(default)]
    pub format: Version<1>,
    pub name: String,
    pub role: Role,
    pub created: Timestamp,
    pub expires: Timestamp,
}

impl Format for Admission {
    const NAME: &'static str = "admission to the dashboard";
    const VERSION: u32 = 1;
}

impl Format for TokenReport {
    const NAME: &'static str = "report on a token";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let expires = Timestamp::UNIX_EPOCH;
        let admission =
            Admission { format: Version, secret: "s3cret".to_string().into(), port: PORT, expires };
        assert_eq!(Admission::from_json(&admission.to_json().unwrap()), Ok(admission.clone()));
        assert!(!format!("{admission:?}").contains("s3cret"));
        let token = TokenReport {
            format: Version,
            name: "scraper".into(),
            role: Role::Viewer,
            created: expires,
            expires,
        };
        assert_eq!(TokenReport::from_json(&token.to_json().unwrap()), Ok(token));
    }

    #[test]
    fn roles_are_their_words() {
        for role in Role::ALL {
            assert_eq!(role.word().parse(), Ok(role));
        }
        assert!("admin".parse::<Role>().unwrap_err().contains("viewer and operator"));
        assert!(Role::Viewer < Role::Operator);
    }

    #[test]
    fn names_are_one_plain_word() {
        for name in ["ann", "ann.b@site-1", "A_1"] {
            assert_eq!(check_name(name), Ok(()));
        }
        for name in ["", "a b", "a\n", "ä", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
