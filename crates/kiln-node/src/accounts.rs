//! The users and groups of the tree's own `/etc/passwd`, `/etc/group` and `/etc/shadow`.

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

/// What `/etc/shadow` says about a user, without the password's hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShadowEntry {
    pub password_locked: bool,
    /// There is more to the password than its lock.
    pub has_password: bool,
    /// The day since 1970 from which the account is closed.
    pub expires: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub users: Vec<UserEntry>,
    pub groups: Vec<GroupEntry>,
}

impl Accounts {
    pub fn read(tree: &Tree) -> Result<Self, TreeError> {
        Ok(Accounts::parse(&text(tree, "/etc/passwd")?, &text(tree, "/etc/group")?))
    }

    pub fn parse(passwd: &str, group: &str) -> Self {
        Accounts {
            users: passwd.lines().filter_map(user_entry).collect(),
            groups: group.lines().filter_map(group_entry).collect(),
        }
    }

    pub fn user(&self, name: &str) -> Option<&UserEntry> {
        self.users.iter().find(|user| user.name == name)
    }

    pub fn group(&self, name: &str) -> Option<&GroupEntry> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The names of the groups that list the user, except those with the number of its own.
    pub fn memberships(&self, user: &str, gid: u32) -> Vec<&str> {
        let listed = |group: &&GroupEntry| group.gid != gid && group.members.iter().any(|name| name == user);
        self.groups.iter().filter(listed).map(|group| group.name.as_str()).collect()
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

impl ShadowEntry {
    /// Only root can read it, so it is read only when it matters.
    pub fn read(tree: &Tree, name: &str) -> Result<Option<Self>, TreeError> {
        Ok(Self::parse(&text(tree, "/etc/shadow")?, name))
    }

    pub fn parse(shadow: &str, name: &str) -> Option<Self> {
        shadow.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [found, password, _, _, _, _, _, expires, _] = fields[..] else {
                return None;
            };
            (found == name).then(|| ShadowEntry {
                password_locked: password.starts_with('!'),
                has_password: !password.trim_start_matches('!').is_empty(),
                expires: expires.parse().ok(),
            })
        })
    }
}

fn text(tree: &Tree, path: &str) -> Result<String, TreeError> {
    tree.read(path).map(|bytes| String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
}

/// Safe to hand to the account tools: no option, no separator, nothing that would break a table.
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
    fn shadow_entries_tell_locks_from_passwords() {
        let shadow = "key:!:1:0:9:7:::\nlocked:!$y$:1:0:9:7::1:\nopen:$y$:1:0:9:7::20000:\nbad:x\n";
        let entry =
            |name| ShadowEntry::parse(shadow, name).map(|e| (e.password_locked, e.has_password, e.expires));
        assert_eq!(entry("key"), Some((true, false, None)));
        assert_eq!(entry("locked"), Some((true, true, Some(1))));
        assert_eq!(entry("open"), Some((false, true, Some(20000))));
        assert_eq!((entry("bad"), entry("nobody")), (None, None));
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
