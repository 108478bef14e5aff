//! The users and groups of the tree's own `/etc/passwd` and `/etc/group`.

use crate::tree::{Tree, TreeError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserEntry {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub home: String,
    pub shell: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupEntry {
    pub name: String,
    pub gid: u32,
    pub members: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub users: Vec<UserEntry>,
    pub groups: Vec<GroupEntry>,
}

impl Accounts {
    pub fn read(tree: &Tree) -> Result<Self, TreeError> {
        let text = |path| {
            tree.read(path).map(|bytes| String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
        };
        Ok(Accounts {
            users: text("/etc/passwd")?.lines().filter_map(user_entry).collect(),
            groups: text("/etc/group")?.lines().filter_map(group_entry).collect(),
        })
    }

    pub fn user(&self, name: &str) -> Option<&UserEntry> {
        self.users.iter().find(|user| user.name == name)
    }

    pub fn group(&self, name: &str) -> Option<&GroupEntry> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// By name or by number. `root` is 0 even where no table says so.
    pub fn uid(&self, name: &str) -> Option<u32> {
        self.user(name).map(|user| user.uid).or_else(|| number(name))
    }

    pub fn gid(&self, name: &str) -> Option<u32> {
        self.group(name).map(|group| group.gid).or_else(|| number(name))
    }

    /// For reports: the name of a number, or the number.
    pub fn user_name(&self, uid: u32) -> String {
        self.users
            .iter()
            .find(|user| user.uid == uid)
            .map_or_else(|| uid.to_string(), |user| user.name.clone())
    }

    pub fn group_name(&self, gid: u32) -> String {
        self.groups
            .iter()
            .find(|group| group.gid == gid)
            .map_or_else(|| gid.to_string(), |group| group.name.clone())
    }
}

/// Safe to hand to the account tools: no option, no separator, nothing a table could stumble on.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 32
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

fn number(name: &str) -> Option<u32> {
    if name == "root" { Some(0) } else { name.parse().ok() }
}

fn user_entry(line: &str) -> Option<UserEntry> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, shell] = fields[..] else {
        return None;
    };
    Some(UserEntry {
        name: name.to_owned(),
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        home: home.to_owned(),
        shell: shell.to_owned(),
    })
}

fn group_entry(line: &str) -> Option<GroupEntry> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, gid, members] = fields[..] else {
        return None;
    };
    Some(GroupEntry {
        name: name.to_owned(),
        gid: gid.parse().ok()?,
        members: members.split(',').filter(|member| !member.is_empty()).map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_and_bad_lines_passed_over() {
        let user = user_entry("slurm:x:64030:64030:Slurm,,,:/nonexistent:/usr/sbin/nologin").unwrap();
        assert_eq!((user.uid, user.shell.as_str()), (64030, "/usr/sbin/nologin"));
        assert_eq!(group_entry("video:x:44:ann,bob").unwrap().members, ["ann", "bob"]);
        assert!(group_entry("empty:x:1:").unwrap().members.is_empty());
        assert_eq!(user_entry("+::::::"), None);
    }

    #[test]
    fn names_that_look_like_options_are_refused() {
        for good in ["slurm", "_apt", "a.b-c"] {
            assert!(is_valid_name(good), "{good}");
        }
        for bad in ["", "-r", "a:b", "a b", "a\n", "1000"] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
