//! What the deploy host asks the control node to do with the cluster's own directory of users, and what it answers.

use serde::{Deserialize, Serialize};

use crate::format::{Format, Version};

/// Numbers of users and groups of the directory are given from here upwards: behind those of the file, of services and of systemd, and before
/// those that systems give to containers.
pub const FIRST_NUMBER: u32 = 70_000;
pub const LAST_NUMBER: u32 = 99_999;

/// Members may become root on every node.
pub const ADMINS: &str = "admins";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryRequest {
    #[serde(default)]
    pub format: Version<1>,
    /// The entry that everything is below.
    pub base: String,
    pub deed: Deed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    List,
    Add(NewUser),
    Remove { user: String, cancel_jobs: bool },
    Keys { user: String, add: Vec<String>, remove: Vec<String> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewUser {
    pub name: String,
    pub full_name: String,
    /// `None`: the next that is free.
    pub uid: Option<u32>,
    pub shell: String,
    pub keys: Vec<String>,
    /// Those that the directory does not have are made.
    pub groups: Vec<String>,
    pub sudo: bool,
    /// Of Slurm.
    pub account: Option<String>,
}

/// Whom the request was about, as the directory has them now, or had them before they were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryAnswer {
    #[serde(default)]
    pub format: Version<1>,
    /// By name.
    pub users: Vec<DirectoryUser>,
    /// What did not go as it should, although the request was carried out.
    #[serde(default)]
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryUser {
    pub name: String,
    pub full_name: String,
    pub uid: u32,
    pub shell: String,
    /// Without the user's own.
    pub groups: Vec<String>,
    pub sudo: bool,
    pub keys: Vec<String>,
    /// Slurm's default account of the user, if it has one.
    #[serde(default)]
    pub account: Option<String>,
}

impl Format for DirectoryRequest {
    const NAME: &'static str = "request to the directory";
    const VERSION: u32 = 1;
}

impl Format for DirectoryAnswer {
    const NAME: &'static str = "answer of the directory";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let new = NewUser {
            name: "ada".into(),
            full_name: "Ada".into(),
            uid: None,
            shell: "/bin/bash".into(),
            keys: vec!["ssh-ed25519 AAAA".into()],
            groups: vec!["physics".into()],
            sudo: true,
            account: Some("astro".into()),
        };
        let remove = Deed::Remove { user: "ada".into(), cancel_jobs: true };
        for deed in [Deed::List, Deed::Add(new), remove] {
            let request = DirectoryRequest { format: Version, base: "dc=demo".into(), deed };
            assert_eq!(DirectoryRequest::from_json(&request.to_json().unwrap()), Ok(request));
        }
        let user = DirectoryUser {
            name: "ada".into(),
            full_name: "Ada".into(),
            uid: 70_000,
            shell: "/bin/bash".into(),
            groups: Vec::new(),
            sudo: false,
            keys: Vec::new(),
            account: None,
        };
        let answer =
            DirectoryAnswer { format: Version, users: vec![user], warnings: vec!["a warning".into()] };
        assert_eq!(DirectoryAnswer::from_json(&answer.to_json().unwrap()), Ok(answer));
    }
}
