//! From what slurmdbd has to what the file wants, as commands of `sacctmgr` in an order that Slurm accepts: what is added before what is
//! changed, defaults before removals, users before their accounts, children before their parents.

use std::collections::BTreeSet;

use super::present::Present;
use super::settings::{Assignment, Settings, assignments, of_association, of_qos};
use super::wanted::{Account, Member, Qos, Wanted};
use super::{OWN_USERS, ROOT};

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// For a person: `~ qos long: MaxJobsPerUser 4 -> 2`.
    pub text: String,
    pub command: Vec<String>,
    /// Slurm refuses to remove what running jobs use.
    pub removes: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    pub changes: Vec<Change>,
    /// Differences that stay, because Kiln is only to add.
    pub kept: Vec<String>,
}

pub fn difference(wanted: &Wanted, present: &Present) -> Difference {
    let mut compare = Compare { wanted, present, found: Difference::default() };
    compare.cluster();
    compare.qos();
    compare.accounts();
    compare.members();
    compare.defaults();
    if wanted.manage {
        compare.remove_members();
        compare.remove_accounts();
        compare.remove_qos();
    }
    compare.found
}

struct Compare<'a> {
    wanted: &'a Wanted,
    present: &'a Present,
    found: Difference,
}

impl Compare<'_> {
    fn change(&mut self, text: String, words: Vec<String>) {
        self.push(text, words, false);
    }

    fn push(&mut self, text: String, words: Vec<String>, removes: bool) {
        // Not asked whether it is meant, and no word about progress.
        let command = ["sacctmgr", "--immediate", "--quiet"].map(String::from).into_iter().chain(words);
        self.found.changes.push(Change { text, command: command.collect(), removes });
    }

    /// What exists is changed only where Kiln manages it.
    fn modify(&mut self, what: &str, assignments: Vec<Assignment>, selected: &[&str]) {
        if assignments.is_empty() {
            return;
        }
        let shown: Vec<&str> = assignments.iter().map(|assignment| assignment.shown.as_str()).collect();
        let text = format!("{what}: {}", shown.join(", "));
        if !self.wanted.manage {
            self.found.kept.push(text);
            return;
        }
        let mut words: Vec<String> = vec!["modify".into()];
        words.extend(selected.iter().map(ToString::to_string));
        words.push("set".into());
        words.extend(assignments.into_iter().map(|assignment| assignment.word));
        self.change(format!("~ {text}"), words);
    }

    fn of_cluster(&self) -> String {
        format!("cluster={}", self.wanted.cluster)
    }

    /// slurmctld adds its cluster when it first starts, which is too late for a QOS that a partition has.
    fn cluster(&mut self) {
        if !self.present.clusters.contains(&self.wanted.cluster) {
            let name = format!("name={}", self.wanted.cluster);
            let text = format!("+ cluster {}", self.wanted.cluster);
            self.change(text, vec!["add".into(), "cluster".into(), name]);
        }
    }

    fn qos(&mut self) {
        let (wanted, present) = (self.wanted, self.present);
        let is_new = |qos: &&Qos| !present.qos.contains_key(&qos.name);
        // All of them first: one may name another.
        for qos in wanted.qos.iter().filter(is_new) {
            let text = format!("+ qos {}", qos.name);
            self.change(text, vec!["add".into(), "qos".into(), format!("name={}", qos.name)]);
        }
        for qos in &wanted.qos {
            let new = Settings::from([("Description".to_string(), qos.name.clone())]);
            let found = present.qos.get(&qos.name);
            let assignments = assignments(of_qos(), found.unwrap_or(&new), &qos.settings);
            let (what, name) = (format!("qos {}", qos.name), format!("name={}", qos.name));
            match found {
                Some(_) => self.modify(&what, assignments, &["qos", "where", &name]),
                None => self.set_new(&what, assignments, &["modify", "qos", "where", &name, "set"]),
            }
        }
    }

    /// Settings of what has just been added.
    fn set_new(&mut self, what: &str, assignments: Vec<Assignment>, before: &[&str]) {
        if assignments.is_empty() {
            return;
        }
        let words: Vec<String> = assignments.into_iter().map(|assignment| assignment.word).collect();
        let text = format!("+ {what}: {}", words.join(" "));
        self.change(text, before.iter().map(ToString::to_string).chain(words).collect());
    }

    fn accounts(&mut self) {
        for account in &self.wanted.accounts {
            match self.present.account(&account.name) {
                None => self.add_account(account),
                Some(found) => {
                    let mut changes = Vec::new();
                    if found.parent != account.parent {
                        changes.push(Assignment {
                            word: format!("parent={}", account.parent),
                            shown: format!("parent {} -> {}", found.parent, account.parent),
                        });
                    }
                    changes.extend(assignments(of_association(), &found.settings, &account.settings));
                    let name = format!("name={}", account.name);
                    let what = format!("account {}", account.name);
                    self.modify(&what, changes, &["account", "where", &name, &self.of_cluster()]);
                }
            }
            self.describe(account);
        }
    }

    fn add_account(&mut self, account: &Account) {
        let mut words: Vec<String> = vec!["add".into(), "account".into(), format!("name={}", account.name)];
        words.extend([
            self.of_cluster(),
            format!("parent={}", account.parent),
            format!("description={}", account.description),
            format!("organization={}", account.organisation),
        ]);
        let settings = assignments(of_association(), &Settings::new(), &account.settings);
        let settings: Vec<String> = settings.into_iter().map(|assignment| assignment.word).collect();
        let text = format!("+ account {} in {}{}", account.name, account.parent, listed(&settings));
        words.extend(settings);
        self.change(text, words);
    }

    /// They are the same for all clusters.
    fn describe(&mut self, account: &Account) {
        let Some((organisation, description)) = self.present.accounts.get(&account.name) else { return };
        let mut changes = Vec::new();
        let pairs = [
            ("organization", organisation, &account.organisation),
            ("description", description, &account.description),
        ];
        for (name, from, to) in pairs.into_iter().filter(|(_, from, to)| !from.eq_ignore_ascii_case(to)) {
            changes.push(Assignment {
                word: format!("{name}={to}"),
                shown: format!("{name} \"{from}\" -> \"{to}\""),
            });
        }
        let name = format!("name={}", account.name);
        self.modify(&format!("account {}", account.name), changes, &["account", "where", &name]);
    }

    fn members(&mut self) {
        let (wanted, present) = (self.wanted, self.present);
        let is_new = |member: &&Member| present.member(&member.user, &member.account).is_none();
        // The first account of a user becomes the default one.
        for default in [true, false] {
            let mut left: Vec<&Member> =
                wanted.members.iter().filter(is_new).filter(|member| member.default == default).collect();
            while let Some(first) = left.first().copied() {
                let (alike, others) = left
                    .into_iter()
                    .partition(|member| member.account == first.account && member.settings == first.settings);
                left = others;
                self.add_members(first, &alike);
            }
        }
        for member in &wanted.members {
            let Some(found) = present.member(&member.user, &member.account) else { continue };
            if OWN_USERS.contains(&member.user.as_str()) {
                continue;
            }
            let changes = assignments(of_association(), &found.settings, &member.settings);
            let what = format!("member {} of {}", member.user, member.account);
            let (name, account) = (format!("name={}", member.user), format!("account={}", member.account));
            // Without a partition, those of partitions would be changed, too.
            let selected = ["user", "where", &name, &account, &self.of_cluster(), "partition="];
            self.modify(&what, changes, &selected);
        }
    }

    fn add_members(&mut self, first: &Member, alike: &[&Member]) {
        let names: Vec<&str> = alike.iter().map(|member| member.user.as_str()).collect();
        let names = names.join(",");
        let mut words: Vec<String> = vec!["add".into(), "user".into(), format!("name={names}")];
        words.extend([format!("account={}", first.account), self.of_cluster()]);
        let settings = assignments(of_association(), &Settings::new(), &first.settings);
        let settings: Vec<String> = settings.into_iter().map(|assignment| assignment.word).collect();
        let noun = if alike.len() == 1 { "member" } else { "members" };
        let text = format!("+ {noun} {names} of {}{}", first.account, listed(&settings));
        words.extend(settings);
        self.change(text, words);
    }

    fn defaults(&mut self) {
        let wanted = self.wanted;
        for member in wanted.members.iter().filter(|member| member.default) {
            let Some(found) = self.present.defaults.get(&member.user) else { continue };
            if *found == member.account || OWN_USERS.contains(&member.user.as_str()) {
                continue;
            }
            let change = Assignment {
                word: format!("DefaultAccount={}", member.account),
                shown: format!("default account {found} -> {}", member.account),
            };
            let name = format!("name={}", member.user);
            self.modify(
                &format!("user {}", member.user),
                vec![change],
                &["user", "where", &name, &self.of_cluster()],
            );
        }
    }

    fn is_wanted(&self, user: &str, account: &str) -> bool {
        account == ROOT
            || OWN_USERS.contains(&user)
            || self.wanted.members.iter().any(|member| member.user == user && member.account == account)
    }

    /// A file without accounts says nothing of them.
    fn remove_members(&mut self) {
        if self.wanted.accounts.is_empty() {
            return;
        }
        let present = self.present;
        let of_users = present.associations.iter().filter(|of| !of.user.is_empty());
        let rows: BTreeSet<(&str, &str)> =
            of_users.map(|of| (of.user.as_str(), of.account.as_str())).collect();
        let users: BTreeSet<&str> = rows.iter().map(|(user, _)| *user).collect();
        for user in users {
            let accounts = rows.iter().filter(|(of, _)| *of == user).map(|(_, account)| *account);
            let (stay, go): (Vec<&str>, Vec<&str>) = accounts.partition(|a| self.is_wanted(user, a));
            let is_member = self.wanted.members.iter().any(|member| member.user == user);
            if go.is_empty() {
                continue;
            }
            let name = format!("name={user}");
            if stay.is_empty() && !is_member {
                // At once, or the default account would be in the way.
                let words = ["delete", "user", "where", &name, &self.of_cluster()].map(String::from).to_vec();
                self.push(format!("- user {user} with {}", go.join(", ")), words, true);
                continue;
            }
            // Somebody whom the file does not have, but whom the account `root` has.
            let default = present.defaults.get(user).map(String::as_str);
            if !is_member && default.is_some_and(|default| go.contains(&default)) {
                let set = format!("DefaultAccount={}", stay[0]);
                let words = ["modify", "user", "where", &name, &self.of_cluster(), "set", &set];
                let text = format!("~ user {user}: default account {} -> {}", default.unwrap_or(""), stay[0]);
                self.change(text, words.map(String::from).to_vec());
            }
            for account in go {
                let of = format!("account={account}");
                let words = ["delete", "user", "where", &name, &of, &self.of_cluster()];
                self.push(format!("- member {user} of {account}"), words.map(String::from).to_vec(), true);
            }
        }
    }

    fn remove_accounts(&mut self) {
        if self.wanted.accounts.is_empty() {
            return;
        }
        let present = self.present;
        let own = present.associations.iter().filter(|of| of.user.is_empty() && of.account != ROOT);
        let is_wanted = |name: &str| self.wanted.accounts.iter().any(|account| account.name == name);
        let mut go: Vec<&str> =
            own.map(|of| of.account.as_str()).filter(|account| !is_wanted(account)).collect();
        go.sort_by_key(|account| std::cmp::Reverse(present.depth(account)));
        for account in go {
            let mut words = ["delete", "account", "where"].map(String::from).to_vec();
            words.push(format!("name={account}"));
            let others = present.elsewhere.contains(account);
            if others {
                words.push(self.of_cluster());
            }
            let rest = if others { " from this cluster, others use it" } else { "" };
            self.push(format!("- account {account}{rest}"), words, true);
        }
    }

    /// Partitions of another cluster may have a QOS, of which slurmdbd knows nothing: a QOS that other clusters could use stays.
    fn remove_qos(&mut self) {
        let alone = self.present.clusters.iter().all(|cluster| *cluster == self.wanted.cluster);
        if self.wanted.qos.is_empty() || !alone {
            return;
        }
        let is_wanted =
            |name: &str| Qos::is_slurms_own(name) || self.wanted.qos.iter().any(|qos| qos.name == name);
        let go: Vec<&String> = self.present.qos.keys().filter(|name| !is_wanted(name)).collect();
        for name in go {
            let words = ["delete", "qos", "where", &format!("name={name}")].map(String::from).to_vec();
            self.push(format!("- qos {name}"), words, true);
        }
    }
}

fn listed(settings: &[String]) -> String {
    if settings.is_empty() { String::new() } else { format!(": {}", settings.join(" ")) }
}

#[cfg(test)]
#[path = "difference_tests.rs"]
mod tests;
