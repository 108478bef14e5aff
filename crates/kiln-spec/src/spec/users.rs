//! Users and groups of users that the file names.

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct User {
    pub name: String,
    pub uid: u32,
    /// Supplementary groups; one that the nodes do not have is made.
    pub groups: Vec<String>,
    /// Lines for `authorized_keys`.
    pub ssh_keys: Vec<String>,
    pub shell: String,
    /// May become root with sudo on every node.
    pub sudo: bool,
    /// Of jobs that name none.
    pub account: Option<String>,
}

/// A group that users are in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserGroup {
    pub name: String,
    pub gid: u32,
    /// The gid stands in the file. One that does not is for groups that the nodes' system does not have.
    pub given: bool,
}
