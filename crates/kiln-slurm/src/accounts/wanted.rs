//! What the cluster file says of accounts, as plain data.

use std::collections::BTreeSet;

use kiln_spec::slurm_limits::LimitKind;
use kiln_spec::{AccountsMode, AssociationSettings, Spec};
use serde::{Deserialize, Serialize};

use super::settings::{Kind, Settings, of_association, of_qos};
use super::{NORMAL, ROOT};
use crate::node::SLURM_USER;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub cluster: String,
    /// Change what differs, and remove what is not wanted; else only add what is missing.
    pub manage: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qos: Vec<Qos>,
    /// Parents first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<Account>,
    pub members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qos {
    pub name: String,
    pub settings: Settings,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub name: String,
    pub parent: String,
    pub description: String,
    pub organisation: String,
    pub settings: Settings,
}

/// A user in an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub user: String,
    pub account: String,
    /// The account of the user's jobs that name none.
    pub default: bool,
    pub settings: Settings,
}

impl Wanted {
    /// `None`: there is nothing to look after. `enforced`: Slurm refuses jobs of users without an account; Slurm's own user, who submits the jobs
    /// that rebuild nodes, is no exception.
    pub fn of(spec: &Spec, enforced: bool) -> Option<Wanted> {
        let accounts = &spec.accounts;
        let has_some = !accounts.accounts.is_empty() || !accounts.qos.is_empty();
        let has_tables = has_some && accounts.mode != AccountsMode::Off;
        let needs_slurm = enforced && !spec.rebuild.is_empty();
        if !has_tables && !needs_slurm {
            return None;
        }
        let mut wanted = Wanted {
            cluster: spec.name.clone(),
            manage: accounts.mode == AccountsMode::Manage,
            qos: Vec::new(),
            accounts: Vec::new(),
            members: Vec::new(),
        };
        if needs_slurm {
            wanted.members.push(Member {
                user: SLURM_USER.into(),
                account: ROOT.into(),
                default: true,
                settings: Settings::new(),
            });
        }
        if has_tables {
            wanted.qos = accounts.qos.iter().map(qos).collect();
            wanted.accounts = parents_first(&accounts.accounts).into_iter().map(account).collect();
            for account in &accounts.accounts {
                let member = |member: &kiln_spec::Member| Member {
                    user: member.user.clone(),
                    account: account.name.clone(),
                    default: accounts.default_of(&member.user, &spec.users) == Some(&account.name),
                    settings: settings(&member.settings),
                };
                wanted.members.extend(account.members.iter().map(member));
            }
        }
        Some(wanted)
    }

    /// Without limits of resources that slurmdbd does not know, and the names of those.
    pub fn without_unknown(mut self, known: &BTreeSet<String>) -> (Wanted, BTreeSet<String>) {
        let mut unknown = BTreeSet::new();
        let qos = self.qos.iter_mut().map(|qos| &mut qos.settings);
        let accounts = self.accounts.iter_mut().map(|account| &mut account.settings);
        let all = qos.chain(accounts).chain(self.members.iter_mut().map(|member| &mut member.settings));
        for settings in all {
            settings.retain(|name, value| {
                if !is_resources(name) {
                    return true;
                }
                let (stay, go): (Vec<&str>, Vec<&str>) =
                    value.split(',').partition(|part| known.contains(resource_of(part)));
                unknown.extend(go.into_iter().map(|part| resource_of(part).to_string()));
                *value = stay.join(",");
                !value.is_empty()
            });
        }
        (self, unknown)
    }
}

/// Resources beside those that slurmdbd knows by itself, which limits of the file are about.
pub fn tracked_resources(spec: &Spec) -> BTreeSet<String> {
    const BUILT_IN: [&str; 8] = ["cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages"];
    let accounts = spec.accounts.accounts.iter();
    let of_accounts = accounts.clone().map(|account| &account.settings.limits);
    let of_members =
        accounts.flat_map(|account| account.members.iter().map(|member| &member.settings.limits));
    let of_qos = spec.accounts.qos.iter().map(|qos| &qos.limits);
    let limits = of_accounts.chain(of_members).chain(of_qos).flatten();
    let resources = limits.filter(|(name, _)| is_resources(name)).flat_map(|(_, value)| value.split(','));
    resources.map(resource_of).filter(|name| !BUILT_IN.contains(name)).map(String::from).collect()
}

fn is_resources(limit: &str) -> bool {
    let mut kinds = of_association().chain(of_qos());
    kinds.any(|(name, kind)| name == limit && kind == Kind::Limit(LimitKind::Resources))
}

/// `cpu` of `cpu=4`.
fn resource_of(part: &str) -> &str {
    part.split('=').next().unwrap_or(part)
}

fn parents_first(accounts: &[kiln_spec::Account]) -> Vec<&kiln_spec::Account> {
    let depth = |account: &kiln_spec::Account| {
        let mut above = account;
        // A file with a circle is refused.
        (0..accounts.len())
            .take_while(|_| match accounts.iter().find(|other| other.name == above.parent) {
                Some(parent) => {
                    above = parent;
                    true
                }
                None => false,
            })
            .count()
    };
    let mut sorted: Vec<&kiln_spec::Account> = accounts.iter().collect();
    sorted.sort_by_key(|account| depth(account));
    sorted
}

fn account(account: &kiln_spec::Account) -> Account {
    Account {
        name: account.name.clone(),
        parent: account.parent.clone(),
        description: account.description.to_lowercase(),
        organisation: account.organisation.to_lowercase(),
        settings: settings(&account.settings),
    }
}

fn settings(of: &AssociationSettings) -> Settings {
    let own = [
        ("Fairshare", of.fairshare.clone()),
        ("QOS", of.qos.as_ref().map(|names| names.join(","))),
        ("DefaultQOS", of.default_qos.clone()),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
    canonical(of_association(), own.chain(of.limits.clone()))
}

fn qos(qos: &kiln_spec::Qos) -> Qos {
    let own = [
        ("Description", qos.description.clone().unwrap_or_default()),
        ("Priority", qos.priority.to_string()),
        ("Flags", qos.flags.join(",")),
        ("Preempt", qos.preempt.join(",")),
        ("PreemptMode", qos.preempt_mode.clone().unwrap_or_default()),
        ("GraceTime", qos.grace_time.to_string()),
        ("UsageFactor", qos.usage_factor.clone().unwrap_or_default()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_string(), value));
    Qos { name: qos.name.clone(), settings: canonical(of_qos(), own.chain(qos.limits.clone())) }
}

fn canonical(
    kinds: impl Iterator<Item = (&'static str, Kind)>,
    written: impl Iterator<Item = (String, String)>,
) -> Settings {
    let written: Settings = written.collect();
    let value =
        |(name, kind): (&'static str, Kind)| Some((name.to_string(), kind.canonical(written.get(name)?)?));
    kinds.filter_map(value).collect()
}

impl Qos {
    pub(super) fn is_slurms_own(name: &str) -> bool {
        name == NORMAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.e]\nnodes = \"e-0\"\n[user.ada]\nuid = 2001\naccount = \"b\"\n";

    fn wanted(tables: &str, enforced: bool) -> Option<Wanted> {
        let spec = kiln_spec::parse(&format!("{HEAD}{tables}"), "f").unwrap_or_else(|e| panic!("{e}"));
        Wanted::of(&spec, enforced)
    }

    const TABLES: &str = "[account.c]\nparent = \"b\"\nmembers = [\"ben\"]\n[account.a]\nmembers = [\"ada\"]\n\
        [account.b]\nmembers = [\"ada\", \"ben\"]\nlimits = { maxjobs = 3, GrpTRES = \"mem=2048,cpu=4\" }\n\
        [account.b.member.ben]\nfairshare = 5\nqos = [\"normal\", \"long\"]\n[qos.long]\ndescription = \"Long ones\"\ngrace_time = 90\n";

    #[test]
    fn the_files_accounts() {
        let wanted = wanted(TABLES, true).unwrap();
        assert!(!wanted.manage);
        let names: Vec<&str> = wanted.accounts.iter().map(|account| account.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"], "parents first");
        assert_eq!(wanted.accounts[2].organisation, "b");
        assert_eq!(wanted.accounts[1].settings["GrpTRES"], "cpu=4,mem=2G");
        assert_eq!(wanted.accounts[1].settings["MaxJobs"], "3");
        let members: Vec<(&str, &str, bool)> =
            wanted.members.iter().map(|m| (m.user.as_str(), m.account.as_str(), m.default)).collect();
        let expected = [
            ("slurm", "root", true),
            ("ben", "c", true),
            ("ada", "a", false),
            ("ada", "b", true),
            ("ben", "b", false),
        ];
        assert_eq!(members, expected);
        assert_eq!(wanted.members[4].settings["QOS"], "long,normal");
        assert_eq!(wanted.members[4].settings["Fairshare"], "5");
        let long = &wanted.qos[0].settings;
        assert_eq!((long["Description"].as_str(), long["GraceTime"].as_str()), ("long ones", "90"));
        assert_eq!(long.len(), 2, "what is as in every QOS is not set: {long:?}");
    }

    #[test]
    fn limits_of_resources_that_slurmdbd_does_not_know_wait() {
        let tables = "[qos.gpu]\nlimits = { MaxTRESPerUser = \"gres/gpu=2,cpu=8\", GrpTRES = \"gres/gpu=4\", GrpJobs = 3 }\n";
        let text = format!("{}{tables}", HEAD.replace("account = \"b\"\n", ""));
        let spec = kiln_spec::parse(&text, "f").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(tracked_resources(&spec), BTreeSet::from(["gres/gpu".to_string()]));
        let wanted = Wanted::of(&spec, false).unwrap();
        let known = BTreeSet::from(["cpu".to_string()]);
        let (without, unknown) = wanted.clone().without_unknown(&known);
        assert_eq!(unknown, BTreeSet::from(["gres/gpu".to_string()]));
        let settings = &without.qos[0].settings;
        assert_eq!(settings["MaxTRESPerUser"], "cpu=8");
        assert!(!settings.contains_key("GrpTRES") && settings["GrpJobs"] == "3");
        let known = BTreeSet::from(["cpu".to_string(), "gres/gpu".into()]);
        assert_eq!(wanted.clone().without_unknown(&known), (wanted, BTreeSet::new()));
    }

    #[test]
    fn slurms_own_user_is_looked_after_without_tables() {
        let none = "[account.b]\nmembers = [\"ada\"]\n[accounting]\nmode = \"off\"\n";
        assert_eq!(wanted(none, false), None);
        let wanted = wanted(none, true).unwrap();
        assert_eq!((wanted.members.len(), wanted.accounts.len()), (1, 0));
        assert!(!wanted.manage);
    }
}
