//! `[user_group.NAME]`: a group that users are in. Its gid comes from this table or from its name alone, so that it stays the
//! same whoever else comes or goes: files on volumes know their group by number.

use std::collections::BTreeMap;
use std::ops::Range;

use super::UserTable;
use super::user::{SYSTEM_USERS, check_group, id};
use crate::UserGroup;
use crate::diagnostic::Findings;
use crate::written::table::table;
use crate::written::{At, Named, Text};

table! {
    /// A group that users are in.
    UserGroupTable {
        /// Numeric id, 1000 to 60000.
        "gid" => gid: At<i64>, required;
    }
}

/// Where a group or a user is that has this number, in words and in the file.
struct Holder {
    what: String,
    at: Range<usize>,
}

pub(crate) fn validate(
    written: &Named<UserGroupTable>,
    users: &Named<UserTable>,
    findings: &mut Findings<'_>,
) -> Vec<UserGroup> {
    let mut given: BTreeMap<&str, (u32, Range<usize>)> = BTreeMap::new();
    for (name, table) in written {
        check_name(name, findings);
        let Some(gid) = &table.gid else { continue };
        let Some(number) = id("gid", gid, findings) else { continue };
        given.insert(&name.value, (number, gid.span.clone()));
    }
    let own: BTreeMap<&str, (i64, &Text)> = (users.iter())
        .filter_map(|(name, table)| Some((name.value.as_str(), (table.uid.as_ref()?.value, name))))
        .collect();
    let mut taken: BTreeMap<i64, Holder> = (own.values())
        .map(|(uid, name)| {
            let what = format!("user `{}`'s own group", name.value);
            (*uid, Holder { what, at: name.span.clone() })
        })
        .collect();
    // First the numbers of the file: a derived one that meets them is what has to give way.
    for (name, (gid, at)) in &given {
        match own.get(name) {
            // The own group of a user, which others are in as well.
            Some((uid, _)) if *uid == i64::from(*gid) => {}
            Some((uid, user)) => {
                let message = format!("the own group of user `{name}` has gid {uid}, not {gid}");
                (findings.error("wrong-gid", at.clone(), message))
                    .expected(uid.to_string())
                    .related(user.span.clone(), "the user");
            }
            None => take(name, *gid, at, &mut taken, true, findings),
        }
    }
    let mut groups: BTreeMap<&str, UserGroup> = (given.iter())
        .map(|(name, (gid, _))| (*name, UserGroup { name: (*name).to_owned(), gid: *gid, given: true }))
        .collect();
    for group in users.iter().flat_map(|(_, table)| &table.groups.value) {
        let name = group.value.trim();
        if groups.contains_key(name) || written.iter().any(|(key, _)| key.value == name) {
            continue;
        }
        let gid = derived_gid(name);
        match own.get(name) {
            Some((uid, user)) => {
                let message = format!("`{name}` is the own group of user `{name}`");
                (findings.error("own-group", group.span.clone(), message))
                    .expected("another group")
                    .related(user.span.clone(), "the user")
                    .hint(format!("to share it, write [user_group.{name}] with gid = {uid}"));
            }
            None => take(name, gid, &group.span, &mut taken, false, findings),
        }
        groups.insert(name, UserGroup { name: name.to_owned(), gid, given: false });
    }
    groups.into_values().collect()
}

/// Notes whose the number is, or reports who has it already.
fn take(
    name: &str,
    gid: u32,
    at: &Range<usize>,
    taken: &mut BTreeMap<i64, Holder>,
    given: bool,
    findings: &mut Findings<'_>,
) {
    if let Some(holder) = taken.get(&gid.into()) {
        let has = if given { "has" } else { "would get" };
        let message = format!("group `{name}` {has} gid {gid}, which is that of {}", holder.what);
        let finding = findings.error("duplicate-gid", at.clone(), message);
        finding.expected("a gid of its own").related(holder.at.clone(), "first here");
        if !given {
            finding.hint(format!(
                "write [user_group.{name}] with a gid; if the group has files, take the number that `getent group {name}` shows on a node"
            ));
        }
        return;
    }
    taken.insert(gid.into(), Holder { what: format!("group `{name}`"), at: at.clone() });
}

fn is_system(name: &str) -> bool {
    SYSTEM_USERS.contains(&name)
}

fn check_name(name: &Text, findings: &mut Findings<'_>) {
    if is_system(&name.value) {
        let message = format!("`{}` is a group of the system, whose gid cannot be chosen", name.value);
        findings.error("reserved-name", name.span.clone(), message).expected("another name");
    } else {
        check_group(name, findings);
    }
}

/// A gid from 40000 to 58999 that depends on the name alone.
fn derived_gid(name: &str) -> u32 {
    let hash =
        name.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    40_000 + hash % 19_000
}
