//! Slurm's accounting: slurmdbd, accounts, limits, QOS.

use std::collections::BTreeMap;

use serde::Serialize;

use super::User;

/// A slurmdbd that the site runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalSlurmdbd {
    pub host: String,
    pub port: u16,
    pub backup_host: Option<String>,
}

impl ExternalSlurmdbd {
    /// `dbd.example.org:6819`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Slurm's accounts, limits and QOS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Accounts {
    pub mode: AccountsMode,
    /// In the order of the file. With at least one, only members may submit jobs.
    pub accounts: Vec<Account>,
    pub qos: Vec<Qos>,
}

/// What becomes of accounts and QOS that are not as the file says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountsMode {
    /// They are made so, and what the file does not have is removed.
    Manage,
    /// What is missing is added; nothing else is changed.
    #[default]
    Add,
    /// Nothing is done.
    Off,
}

impl Accounts {
    /// Slurm refuses jobs of users without an account.
    pub fn enforced(&self) -> bool {
        self.mode != AccountsMode::Off && !self.accounts.is_empty()
    }

    /// Of a user's jobs that name none.
    pub fn default_of<'a>(&'a self, user: &str, users: &'a [User]) -> Option<&'a str> {
        let named = users.iter().find(|known| known.name == user).and_then(|user| user.account.as_deref());
        let has = |account: &&Account| account.members.iter().any(|member| member.user == user);
        named.or_else(|| self.accounts.iter().find(has).map(|account| account.name.as_str()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    pub name: String,
    /// Another account, or Slurm's `root`.
    pub parent: String,
    pub description: String,
    pub organisation: String,
    #[serde(flatten)]
    pub settings: AssociationSettings,
    /// By name.
    pub members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Member {
    pub user: String,
    #[serde(flatten)]
    pub settings: AssociationSettings,
}

/// What Slurm keeps for an account or for a user in it. `None`: the account above decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AssociationSettings {
    /// A number or `parent`; `None`: 1.
    pub fairshare: Option<String>,
    pub qos: Option<Vec<String>>,
    pub default_qos: Option<String>,
    /// By names of [`crate::slurm_limits`], in their canonical form.
    pub limits: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Qos {
    pub name: String,
    /// `None`: left as it is.
    pub description: Option<String>,
    pub priority: u32,
    pub flags: Vec<String>,
    pub preempt: Vec<String>,
    /// `None`: slurm.conf decides.
    pub preempt_mode: Option<String>,
    /// Seconds.
    pub grace_time: u32,
    /// With six decimals; `None`: 1.
    pub usage_factor: Option<String>,
    /// By names of [`crate::slurm_limits`], in their canonical form.
    pub limits: BTreeMap<String, String>,
}
