//! What the deploy host asks the control node about users' quotas, and what it answers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::format::{Format, Version};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRequest {
    #[serde(default)]
    pub format: Version<1>,
    pub deed: QuotaDeed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaDeed {
    /// All that have files or limits.
    List,
    Show {
        user: String,
    },
    Set {
        user: String,
        change: LimitChange,
    },
}

/// What is `None` stays as it is; 0 is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitChange {
    pub soft_bytes: Option<u64>,
    pub hard_bytes: Option<u64>,
    pub soft_files: Option<u64>,
    pub hard_files: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaAnswer {
    #[serde(default)]
    pub format: Version<1>,
    /// By name.
    pub users: Vec<UserQuota>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserQuota {
    /// The user's name, or `#` and the number of one who is known no more.
    pub user: String,
    pub bytes: Amount,
    pub files: Amount,
}

/// What a user has of something, and may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    pub used: u64,
    /// May be exceeded for a while. `None`: there is no limit.
    pub soft: Option<u64>,
    pub hard: Option<u64>,
    /// The soft limit is exceeded, and is a hard one from then on.
    pub grace_ends: Option<Timestamp>,
}

impl Format for QuotaRequest {
    const NAME: &'static str = "request about quotas";
    const VERSION: u32 = 1;
}

impl Format for QuotaAnswer {
    const NAME: &'static str = "answer about quotas";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let change = LimitChange { soft_bytes: Some(0), hard_bytes: Some(5 << 30), ..LimitChange::default() };
        for deed in [
            QuotaDeed::List,
            QuotaDeed::Show { user: "ada".into() },
            QuotaDeed::Set { user: "ada".into(), change },
        ] {
            let request = QuotaRequest { format: Version, deed };
            assert_eq!(QuotaRequest::from_json(&request.to_json().unwrap()), Ok(request));
        }
        let bytes =
            Amount { used: 9, soft: Some(8), hard: Some(10), grace_ends: Some(Timestamp::UNIX_EPOCH) };
        let user = UserQuota { user: "ada".into(), bytes, files: Amount::default() };
        let answer = QuotaAnswer { format: Version, users: vec![user] };
        assert_eq!(QuotaAnswer::from_json(&answer.to_json().unwrap()), Ok(answer));
    }
}
