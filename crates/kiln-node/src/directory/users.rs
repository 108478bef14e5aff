//! What is in the directory, and the changes that a request makes. Nothing is run here.

use std::collections::BTreeSet;

use kiln_wire::directory::{ADMINS, DirectoryUser, FIRST_NUMBER, LAST_NUMBER, NewUser};

use super::Refusal;
use super::ldif::{Changes, Entry};

/// All users and groups.
#[derive(Debug)]
pub(super) struct Content {
    base: String,
    users: Vec<Entry>,
    groups: Vec<Entry>,
    /// The next number to give. Those of removed users are not given again: their files are still there.
    next: u32,
}

impl Content {
    pub fn new(base: &str, entries: &[Entry]) -> Content {
        let is = |entry: &Entry, place: &str| {
            let below = format!(",{place},{base}").to_ascii_lowercase();
            entry.dn.to_ascii_lowercase().ends_with(&below)
        };
        let next = entries.iter().find(|entry| entry.dn.starts_with("cn=numbers,"));
        let next = next.and_then(|entry| entry.number("uidnumber")).unwrap_or(FIRST_NUMBER);
        let users =
            entries.iter().filter(|entry| is(entry, "ou=people") && entry.number("uidnumber").is_some());
        let groups =
            entries.iter().filter(|entry| is(entry, "ou=groups") && entry.number("gidnumber").is_some());
        Content {
            base: base.to_string(),
            users: users.cloned().collect(),
            groups: groups.cloned().collect(),
            next,
        }
    }

    pub fn all(&self) -> Vec<DirectoryUser> {
        let mut users: Vec<DirectoryUser> = self.users.iter().map(|entry| self.user(entry)).collect();
        users.sort_by(|a, b| a.name.cmp(&b.name));
        users
    }

    pub fn find(&self, name: &str) -> Result<DirectoryUser, Refusal> {
        let found = self.users.iter().find(|entry| entry.value("uid") == name);
        found.map(|entry| self.user(entry)).ok_or_else(|| Refusal::Unknown(name.to_string()))
    }

    fn user(&self, entry: &Entry) -> DirectoryUser {
        let name = entry.value("uid").to_string();
        let is_in =
            |group: &&Entry| group.values("member").iter().any(|dn| dn.eq_ignore_ascii_case(&entry.dn));
        let groups = self.groups.iter().filter(is_in).map(|group| group.value("cn").to_string());
        let (admins, mut groups): (Vec<String>, Vec<String>) = groups.partition(|group| group == ADMINS);
        groups.sort();
        DirectoryUser {
            full_name: entry.value("displayname").to_string(),
            uid: entry.number("uidnumber").unwrap_or_default(),
            shell: entry.value("loginshell").to_string(),
            groups,
            sudo: !admins.is_empty(),
            keys: entry.values("nssshpublickey").to_vec(),
            account: None,
            name,
        }
    }

    fn user_dn(&self, name: &str) -> String {
        format!("uid={name},ou=people,{}", self.base)
    }

    fn group_dn(&self, name: &str) -> String {
        format!("cn={name},ou=groups,{}", self.base)
    }

    fn has_group(&self, name: &str) -> bool {
        self.groups.iter().any(|group| group.value("cn") == name)
    }

    fn taken(&self) -> BTreeSet<u32> {
        let users = self.users.iter().filter_map(|user| user.number("uidnumber"));
        users.chain(self.groups.iter().filter_map(|group| group.number("gidnumber"))).collect()
    }

    /// The user's entry comes before her own group: what a cut leaves can be removed, and added again.
    pub fn add(&self, new: &NewUser) -> Result<Changes, Refusal> {
        if self.find(&new.name).is_ok() {
            return Err(Refusal::Exists(new.name.clone()));
        }
        if self.has_group(&new.name) {
            return Err(Refusal::GroupExists(new.name.clone()));
        }
        let mut taken = self.taken();
        if let Some(uid) = new.uid.filter(|uid| taken.contains(uid)) {
            return Err(Refusal::NumberTaken(uid));
        }
        let mut next = self.next;
        let mut give = |wanted: Option<u32>| {
            while wanted.is_none() && taken.contains(&next) {
                next += 1;
            }
            let number = wanted.unwrap_or(next);
            if wanted.is_none() && number > LAST_NUMBER {
                return Err(Refusal::NoNumber);
            }
            taken.insert(number);
            Ok(number)
        };
        let uid = give(new.uid)?.to_string();
        let mut groups: Vec<&str> = new.groups.iter().map(String::as_str).collect();
        groups.extend(new.sudo.then_some(ADMINS));
        groups.sort_unstable();
        groups.dedup();
        let mut fresh = Vec::new();
        for group in groups.iter().filter(|group| !self.has_group(group)) {
            fresh.push((*group, give(None)?.to_string()));
        }
        while taken.contains(&next) {
            next += 1;
        }
        let mut changes = Changes::default();
        // First: a number is lost rather than given twice.
        self.set_next(next, &mut changes);
        for (group, gid) in &fresh {
            self.add_group(group, gid, &mut changes);
        }
        let dn = self.user_dn(&new.name);
        let home = format!("/home/{}", new.name);
        let mut attributes = vec![
            ("objectClass", "nsPerson"),
            ("objectClass", "nsOrgPerson"),
            ("objectClass", "nsAccount"),
            ("objectClass", "posixAccount"),
            ("uid", &new.name),
            ("cn", &new.full_name),
            ("displayName", &new.full_name),
            ("uidNumber", &uid),
            ("gidNumber", &uid),
            ("homeDirectory", &home),
            ("loginShell", &new.shell),
        ];
        attributes.extend(new.keys.iter().map(|key| ("nsSshPublicKey", key.as_str())));
        changes.add(&dn, &attributes);
        self.add_group(&new.name, &uid, &mut changes);
        for group in groups {
            changes.modify(&self.group_dn(group), "add", "member", &[&dn]);
        }
        Ok(changes)
    }

    pub fn next(&self) -> u32 {
        self.next
    }

    pub fn with_next(&self, next: u32) -> Changes {
        let mut changes = Changes::default();
        self.set_next(next, &mut changes);
        changes
    }

    fn set_next(&self, next: u32, changes: &mut Changes) {
        let numbers = format!("cn=numbers,{}", self.base);
        changes.modify(&numbers, "replace", "uidNumber", &[&next.to_string()]);
    }

    fn add_group(&self, name: &str, gid: &str, changes: &mut Changes) {
        let attributes = [
            ("objectClass", "groupOfNames"),
            ("objectClass", "posixGroup"),
            ("cn", name),
            ("gidNumber", gid),
        ];
        changes.add(&self.group_dn(name), &attributes);
    }

    pub fn remove(&self, user: &DirectoryUser) -> Changes {
        let dn = self.user_dn(&user.name);
        let mut changes = Changes::default();
        changes.delete(&dn);
        if self.has_group(&user.name) {
            changes.delete(&self.group_dn(&user.name));
        }
        let admins = user.sudo.then_some(ADMINS);
        for group in user.groups.iter().map(String::as_str).chain(admins) {
            changes.modify(&self.group_dn(group), "delete", "member", &[&dn]);
        }
        changes
    }

    /// Keys to be removed are named by themselves or by their comments.
    pub fn keys(&self, user: &DirectoryUser, add: &[String], remove: &[String]) -> Result<Changes, Refusal> {
        let mut keys: Vec<&str> = user.keys.iter().map(String::as_str).collect();
        for named in remove {
            let is_named = |key: &&str| {
                *key == named
                    || data_of(key) == data_of(named)
                    || key.splitn(3, ' ').nth(2) == Some(named.as_str())
            };
            let before = keys.len();
            keys.retain(|key| !is_named(key));
            if keys.len() == before {
                return Err(Refusal::NoKey(user.name.clone()));
            }
        }
        for key in add {
            if !keys.iter().any(|known| data_of(known) == data_of(key)) {
                keys.push(key);
            }
        }
        let mut changes = Changes::default();
        changes.modify(&self.user_dn(&user.name), "replace", "nsSshPublicKey", &keys);
        Ok(changes)
    }
}

/// Of a public key: what is not its comment. `None`: it is none.
fn data_of(key: &str) -> Option<&str> {
    key.split_whitespace().find(|word| word.starts_with("AAAA"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::ldif;

    const BASE: &str = "dc=demo,dc=internal";

    fn new(name: &str) -> NewUser {
        NewUser {
            name: name.into(),
            full_name: "Ada L".into(),
            uid: None,
            shell: "/bin/bash".into(),
            keys: vec!["ssh-ed25519 AAAA1 laptop".into()],
            groups: vec!["physics".into()],
            sudo: true,
            account: None,
        }
    }

    /// What the directory has after these changes, as far as they only add.
    fn after(changes: &[&Changes]) -> Content {
        let mut entries: Vec<Entry> = Vec::new();
        for change in changes.iter().flat_map(|changes| ldif::parse(changes.text())) {
            match entries.iter_mut().find(|entry| entry.dn == change.dn) {
                Some(known) => known.merge(&change),
                None => entries.push(change),
            }
        }
        Content::new(BASE, &entries)
    }

    impl Entry {
        fn merge(&mut self, other: &Entry) {
            let text = format!("dn: {}\n", self.dn);
            let mut lines = text;
            for entry in [&*self, other] {
                for attribute in ["cn", "gidnumber", "member", "uid", "uidnumber"] {
                    // A replaced value counts alone.
                    let is_number =
                        attribute == "uidnumber" && !other.values("uidnumber").is_empty() && entry != other;
                    let values = if is_number { &[][..] } else { entry.values(attribute) };
                    lines.extend(values.iter().map(|value| format!("{attribute}: {value}\n")));
                }
            }
            *self = ldif::parse(&lines).remove(0);
        }
    }

    fn empty() -> Content {
        Content::new(BASE, &ldif::parse(&format!("dn: cn=numbers,{BASE}\nuidNumber: 70000\n")))
    }

    #[test]
    fn a_user_has_a_group_of_her_own_and_those_that_she_is_put_into() {
        let changes = empty().add(&new("ada")).unwrap();
        let content = after(&[&changes]);
        let ada = content.find("ada").unwrap();
        assert_eq!((ada.uid, ada.sudo, ada.groups), (70_000, true, vec!["physics".to_string()]));
        let gids: Vec<_> = content.groups.iter().map(|g| (g.value("cn"), g.number("gidnumber"))).collect();
        assert_eq!(
            gids,
            [("admins", Some(70_001)), ("physics", Some(70_002)), ("ada", Some(70_000))],
            "her group has her number"
        );
        assert_eq!(content.next, 70_003);
        assert_eq!(content.all()[0].name, "ada");
    }

    #[test]
    fn numbers_are_given_once() {
        let first = empty().add(&new("ada")).unwrap();
        let content = after(&[&first]);
        let second = content.add(&NewUser { uid: Some(70_003), ..new("ben") }).unwrap();
        let content = after(&[&first, &second]);
        assert_eq!((content.find("ben").unwrap().uid, content.next), (70_003, 70_004));
        // Ada is removed; what was hers stays hers.
        let left: Vec<Entry> = ldif::parse(&format!("dn: cn=numbers,{BASE}\nuidNumber: {}\n", content.next));
        let third = Content::new(BASE, &left).add(&new("carl")).unwrap();
        assert_eq!(after(&[&third]).find("carl").unwrap().uid, 70_004);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let changes = empty().add(&new("ada")).unwrap();
        let content = after(&[&changes]);
        let refused = |new: NewUser| content.add(&new).unwrap_err().to_string();
        assert_eq!(refused(new("ada")), "the directory has a user ada already");
        assert_eq!(refused(new("physics")), "the directory has a group physics already");
        assert_eq!(
            refused(NewUser { uid: Some(70_001), ..new("ben") }),
            "the number 70001 is taken in the directory"
        );
        let full = ldif::parse(&format!("dn: cn=numbers,{BASE}\nuidNumber: 100000\n"));
        assert!(matches!(Content::new(BASE, &full).add(&new("ada")), Err(Refusal::NoNumber)));
        assert!(matches!(content.find("eve"), Err(Refusal::Unknown(_))));
    }

    #[test]
    fn who_is_removed_is_in_no_group() {
        let changes = empty().add(&new("ada")).unwrap();
        let content = after(&[&changes]);
        let removed = content.remove(&content.find("ada").unwrap());
        let dn = format!("uid=ada,ou=people,{BASE}");
        assert!(removed.text().starts_with(&format!("dn: {dn}\nchangetype: delete\n")), "{}", removed.text());
        for group in ["physics", "admins"] {
            let part = format!(
                "dn: cn={group},ou=groups,{BASE}\nchangetype: modify\ndelete: member\nmember: {dn}\n"
            );
            assert!(removed.text().contains(&part), "{group}: {}", removed.text());
        }
    }

    #[test]
    fn keys_are_added_once_and_removed_by_name() {
        let content = empty();
        let mut user = DirectoryUser {
            name: "ada".into(),
            full_name: String::new(),
            uid: 1,
            shell: String::new(),
            groups: Vec::new(),
            sudo: false,
            keys: vec!["ssh-ed25519 AAAA1 laptop".into(), "ssh-rsa AAAA2 at home".into()],
            account: None,
        };
        let left = |user: &DirectoryUser, add: &[&str], remove: &[&str]| {
            let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
            let changes =
                content.keys(user, &texts(add), &texts(remove)).map_err(|refusal| refusal.to_string())?;
            Ok::<_, String>(ldif::parse(changes.text())[0].values("nssshpublickey").to_vec())
        };
        assert_eq!(
            left(&user, &["ssh-ed25519 AAAA1 again"], &["at home"]).unwrap(),
            ["ssh-ed25519 AAAA1 laptop"]
        );
        assert_eq!(left(&user, &[], &["ssh-ed25519 AAAA1"]).unwrap(), ["ssh-rsa AAAA2 at home"]);
        assert_eq!(left(&user, &[], &["desk"]).unwrap_err(), "ada has no such key");
        user.keys.clear();
        assert_eq!(left(&user, &["ssh-rsa AAAA3 new"], &[]).unwrap(), ["ssh-rsa AAAA3 new"]);
    }
}
