//! `[account.NAME]`: a bank account of Slurm's accounting, and who is in it.

use std::collections::BTreeMap;

use super::qos::{NORMAL, check_accounting_name, check_limits, check_text};
use super::{QosTable, UserTable};
use crate::diagnostic::Findings;
use crate::nearest::did_you_mean;
use crate::slurm_limits::ASSOCIATION_LIMITS;
use crate::validate::names::is_unix_name;
use crate::validate::unknown;
use crate::written::table::table;
use crate::written::{List, Named, Scalar, Text};
use crate::{Account, AssociationSettings, Member};

table! {
    /// An account of Slurm's accounting: who is in it, what they may use, and their share.
    AccountTable {
        /// The account that it belongs to.
        "parent" => parent: Text, otherwise "Slurm's account `root`";
        /// What it is for, in words. Slurm turns them into lower case.
        "description" => description: Text, otherwise "its name";
        /// Whom it belongs to, in words. Slurm turns them into lower case.
        "organisation" => organisation: Text, otherwise "that of its parent, or its name";
        /// Users who may submit jobs to it.
        "members" => members: List<Text>, empty;
        /// Settings of single members, who need not be in `members` too.
        "member" => member: Named<MemberTable>, empty;
        /// Its share beside its siblings, a number, or `"parent"`: its members count as its parent's.
        "fairshare" => fairshare: Scalar, otherwise "1";
        /// Limits in Slurm's own words. Those that begin with `Grp` are for all its members together, others for each of them: `{ GrpTRES = "cpu=64", MaxJobs = 10 }`.
        "limits" => limits: Named<Scalar>, empty;
        /// QOS that its jobs may have.
        "qos" => qos: List<Text>, otherwise "those of its parent";
        /// The QOS of jobs that name none.
        "default_qos" => default_qos: Text, otherwise "that of its parent";
    }
}

table! {
    /// What is different for one member of an account.
    MemberTable {
        /// The member's share beside the other members, a number, or `"parent"`.
        "fairshare" => fairshare: Scalar, otherwise "1";
        /// Limits in Slurm's own words.
        "limits" => limits: Named<Scalar>, empty;
        /// QOS that the member's jobs may have.
        "qos" => qos: List<Text>, otherwise "those of the account";
        /// The QOS of jobs that name none.
        "default_qos" => default_qos: Text, otherwise "that of the account";
    }
}

/// The account that Slurm makes for every cluster.
const ROOT: &str = "root";

pub(crate) fn validate(
    written: &Named<AccountTable>,
    qos: &Named<QosTable>,
    users: &Named<UserTable>,
    findings: &mut Findings<'_>,
) -> Vec<Account> {
    let names: Vec<&str> = written.iter().map(|(name, _)| name.value.as_str()).collect();
    let mut accounts = Vec::new();
    for (name, table) in written {
        check_accounting_name("an account", name, findings);
        if name.value == ROOT {
            let message = "an account cannot be named `root`: it is Slurm's own, above all others";
            findings.error("reserved-name", name.span.clone(), message).expected("another name");
        }
        check_parent(name, table, written, &names, findings);
        for text in [&table.description, &table.organisation].into_iter().flatten() {
            check_text(text, findings);
        }
        let fields = Fields {
            fairshare: table.fairshare.as_ref(),
            limits: &table.limits,
            qos: table.qos.as_ref(),
            default_qos: table.default_qos.as_ref(),
        };
        accounts.push(Account {
            name: name.value.clone(),
            parent: table.parent.as_ref().map_or(ROOT, |parent| &parent.value).to_owned(),
            description: table.description.as_ref().map_or(&name.value, |text| &text.value).to_owned(),
            organisation: organisation(name, written, &mut Vec::new()),
            settings: settings(&fields, qos, findings),
            members: members(name, table, qos, users, findings),
        });
    }
    warn_of_parents_share(written, findings);
    accounts
}

/// A share that is the parent's says nothing where there is no account above but Slurm's own.
fn warn_of_parents_share(written: &Named<AccountTable>, findings: &mut Findings<'_>) {
    for (name, table) in written {
        let parents = table.fairshare.as_ref().filter(|share| share.0.value == "parent");
        if let (Some(share), None) = (parents, &table.parent) {
            let message =
                format!("with this fairshare the members of `{}` share as members of `root`", name.value);
            (findings.warning("parents-share", share.0.span.clone(), message))
                .hint("name a `parent`, or give the account a number");
        }
    }
}

fn check_parent(
    name: &Text,
    table: &AccountTable,
    written: &Named<AccountTable>,
    names: &[&str],
    findings: &mut Findings<'_>,
) {
    let Some(parent) = table.parent.as_ref().filter(|parent| parent.value != ROOT) else { return };
    if !names.contains(&parent.value.as_str()) {
        unknown("account", parent, names, findings);
        return;
    }
    // Upwards, until the top or an account that was passed already.
    let mut passed = vec![name.value.as_str()];
    let mut above = Some(parent.value.as_str());
    while let Some(at) = above {
        if at == name.value {
            let message = format!("account `{at}` belongs to itself: {}", passed.join(" in ") + " in " + at);
            findings.error("circular-account", parent.span.clone(), message).expected("another parent");
            return;
        }
        if passed.contains(&at) {
            return;
        }
        passed.push(at);
        let table = written.iter().find(|(name, _)| name.value == at).map(|(_, table)| table);
        above = table.and_then(|table| table.parent.as_ref()).map(|parent| parent.value.as_str());
    }
}

fn organisation(name: &Text, written: &Named<AccountTable>, passed: &mut Vec<String>) -> String {
    let table = written.iter().find(|(other, _)| other.value == name.value).map(|(_, table)| table);
    let own = table.and_then(|table| table.organisation.as_ref());
    let parent = table.and_then(|table| table.parent.as_ref());
    match (own, parent) {
        (Some(own), _) => own.value.clone(),
        (None, Some(parent)) if parent.value != ROOT && !passed.contains(&parent.value) => {
            passed.push(name.value.clone());
            organisation(parent, written, passed)
        }
        _ => name.value.clone(),
    }
}

fn members(
    account: &Text,
    table: &AccountTable,
    qos: &Named<QosTable>,
    users: &Named<UserTable>,
    findings: &mut Findings<'_>,
) -> Vec<Member> {
    let mut members: BTreeMap<&str, Member> = BTreeMap::new();
    for user in &table.members.value {
        check_member(user, users, findings);
        let member = Member { user: user.value.clone(), settings: AssociationSettings::default() };
        if members.insert(&user.value, member).is_some() {
            let message = format!("`{}` is in `members` of account `{}` twice", user.value, account.value);
            findings.error("duplicate-member", user.span.clone(), message).expected("each member once");
        }
    }
    for (user, own) in &table.member {
        check_member(user, users, findings);
        let fields = Fields {
            fairshare: own.fairshare.as_ref(),
            limits: &own.limits,
            qos: own.qos.as_ref(),
            default_qos: own.default_qos.as_ref(),
        };
        let member = Member { user: user.value.clone(), settings: settings(&fields, qos, findings) };
        members.insert(&user.value, member);
    }
    members.into_values().collect()
}

/// Members may be users of a directory, of whom the file knows nothing.
fn check_member(user: &Text, users: &Named<UserTable>, findings: &mut Findings<'_>) {
    if matches!(user.value.as_str(), "root" | "slurm") {
        let message = format!("`{}` is in Slurm's account `root` by itself", user.value);
        findings.error("reserved-name", user.span.clone(), message).expected("users of the cluster");
    } else if !is_unix_name(&user.value) {
        let message = format!("`{}` cannot be the name of a user", user.value);
        (findings.error("bad-name", user.span.clone(), message))
            .expected("lower-case letters, digits, `_` and `-`");
    } else {
        let known: Vec<&str> = users.iter().map(|(name, _)| name.value.as_str()).collect();
        let meant = did_you_mean(&user.value, known.iter().copied());
        if let Some(meant) = meant.filter(|_| !known.contains(&user.value.as_str())) {
            let message = format!("the file has no user `{}`", user.value);
            findings.warning("unknown-member", user.span.clone(), message).hint(meant);
        }
    }
}

/// What an account and a member of it have alike.
struct Fields<'a> {
    fairshare: Option<&'a Scalar>,
    limits: &'a Named<Scalar>,
    qos: Option<&'a List<Text>>,
    default_qos: Option<&'a Text>,
}

fn settings(written: &Fields<'_>, qos: &Named<QosTable>, findings: &mut Findings<'_>) -> AssociationSettings {
    let allowed = written.qos.map(|list| {
        list.value.iter().for_each(|name| check_qos(name, qos, findings));
        list.value.iter().map(|name| name.value.clone()).collect::<Vec<_>>()
    });
    if let Some(list) = written.qos.filter(|list| list.value.is_empty()) {
        (findings.error("no-qos", list.span.clone(), "without any QOS no job could run"))
            .expected("one or more QOS, or no `qos` at all");
    }
    // The only one is the default.
    let lacks_normal =
        |list: &&List<Text>| list.value.len() > 1 && !list.value.iter().any(|qos| qos.value == NORMAL);
    if let (Some(list), None) = (written.qos.filter(lacks_normal), written.default_qos) {
        let message = "Slurm refuses jobs that name no QOS: `normal` is not among the `qos`";
        (findings.warning("no-default-qos", list.span.clone(), message))
            .hint("add `normal`, or name the `default_qos`");
    }
    if let Some(default) = written.default_qos {
        check_qos(default, qos, findings);
        let lacks = allowed.as_ref().is_some_and(|allowed| !allowed.contains(&default.value));
        if lacks {
            let message = format!("the default QOS `{}` is not among the `qos`", default.value);
            findings.error("default-qos", default.span.clone(), message).expected("one of the `qos`");
        }
    }
    AssociationSettings {
        fairshare: written.fairshare.and_then(|share| fairshare(share, findings)),
        qos: allowed,
        default_qos: written.default_qos.map(|name| name.value.clone()),
        limits: check_limits(written.limits, ASSOCIATION_LIMITS, findings),
    }
}

fn fairshare(Scalar(text): &Scalar, findings: &mut Findings<'_>) -> Option<String> {
    let number = text.value.parse::<u32>().ok().filter(|number| *number < i32::MAX as u32);
    match number {
        Some(number) => Some(number.to_string()),
        None if text.value == "parent" => Some("parent".to_owned()),
        None => {
            let message = format!("`{}` is not a share", text.value);
            (findings.error("bad-value", text.span.clone(), message))
                .expected("a whole number or \"parent\"");
            None
        }
    }
}

/// QOS that a table names: one of the file, or the one that Slurm always has.
pub(crate) fn check_qos(name: &Text, qos: &Named<QosTable>, findings: &mut Findings<'_>) {
    let mut known: Vec<&str> = qos.iter().map(|(name, _)| name.value.as_str()).collect();
    if !known.contains(&NORMAL) {
        known.push(NORMAL);
    }
    if !known.contains(&name.value.as_str()) {
        unknown("QOS", name, &known, findings);
    }
}

/// The account of a user's jobs that name none: what the file says, or the first account that has the user.
pub(crate) fn check_default(
    written: &Named<UserTable>,
    accounts: &Named<AccountTable>,
    findings: &mut Findings<'_>,
) {
    for (name, table) in written {
        let Some(wanted) = &table.account else { continue };
        let known: Vec<&str> = accounts.iter().map(|(name, _)| name.value.as_str()).collect();
        let Some((_, account)) = accounts.iter().find(|(account, _)| account.value == wanted.value) else {
            unknown("account", wanted, &known, findings);
            continue;
        };
        let listed = account.members.value.iter().any(|member| member.value == name.value);
        if !listed && !account.member.iter().any(|(member, _)| member.value == name.value) {
            let message = format!("`{}` is not a member of account `{}`", name.value, wanted.value);
            (findings.error("not-a-member", wanted.span.clone(), message))
                .expected("an account that the user is in")
                .hint(format!("add the user to `members` in [account.{}]", wanted.value));
        }
    }
}

/// A partition's list of accounts.
pub(crate) fn check_accounts(
    list: Option<&List<Text>>,
    accounts: &Named<AccountTable>,
    findings: &mut Findings<'_>,
) {
    let mut known: Vec<&str> = accounts.iter().map(|(name, _)| name.value.as_str()).collect();
    known.push(ROOT);
    for name in list.iter().flat_map(|list| &list.value) {
        if !known.contains(&name.value.as_str()) {
            unknown("account", name, &known, findings);
        }
    }
}
