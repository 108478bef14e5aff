//! What `usermod` has to be told, worked out from the account tables alone.

use kiln_wire::bundle::User;

use crate::accounts::{Accounts, ShadowEntry, UserEntry};

const USERMOD: &str = "/usr/sbin/usermod";
const NO_SHELL: &str = "/usr/sbin/nologin";
/// The second day of 1970: some programs take day 0 for "never".
const EXPIRED: i64 = 1;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Empty when there is nothing to do.
    pub argv: Vec<String>,
    /// In words, for the report.
    pub changes: Vec<String>,
}

/// Makes the account useless to its owner. With PAM, sshd accepts keys even if the password is locked: it is
/// the expiry date that keeps them out. `None` when all of it is so already.
pub(super) fn lock(
    accounts: &Accounts,
    shadow: Option<&ShadowEntry>,
    found: &UserEntry,
) -> Option<Vec<String>> {
    let locked = shadow.is_some_and(|shadow| shadow.password_locked && shadow.expires == Some(EXPIRED))
        && found.shell == NO_SHELL
        && accounts.memberships(&found.name, found.gid).is_empty();
    if locked {
        return None;
    }
    let day = EXPIRED.to_string();
    let options = ["--lock", "--expiredate", &day, "--shell", NO_SHELL, "--groups", ""];
    Some(argv(&options, &found.name))
}

/// Makes the account what the bundle says. `locked` is its shadow entry if Kiln locked it: a lock that an
/// administrator put on a listed user is not Kiln's to lift.
pub(super) fn change(
    accounts: &Accounts,
    locked: Option<&ShadowEntry>,
    found: &UserEntry,
    user: &User,
) -> Plan {
    let gid = user.gid.to_string();
    let mut options: Vec<&str> = Vec::new();
    let mut changes = Vec::new();
    if let Some(shadow) = locked {
        if shadow.expires == Some(EXPIRED) {
            options.extend(["--expiredate", ""]);
        }
        // Without a password there is nothing to unlock, and `usermod` would complain.
        if shadow.password_locked && shadow.has_password {
            options.push("--unlock");
        }
        if !options.is_empty() {
            changes.push("unlocked".into());
        }
    }
    if found.gid != user.gid {
        options.extend(["--gid", &gid]);
        changes.push(format!("gid: {} -> {gid}", found.gid));
    }
    if found.home != user.home {
        options.extend(["--home", &user.home]);
        changes.push(format!("home: {} -> {}", found.home, user.home));
    }
    if found.shell != user.shell {
        options.extend(["--shell", &user.shell]);
        changes.push(format!("shell: {} -> {}", found.shell, user.shell));
    }
    let current = accounts.memberships(&user.name, user.gid);
    let is_primary = |name: &str| accounts.group(name).is_some_and(|group| group.gid == user.gid);
    let wanted: Vec<&str> = user.groups.iter().map(String::as_str).filter(|name| !is_primary(name)).collect();
    let joined = wanted.join(",");
    let added = wanted.iter().filter(|name| !current.contains(name)).map(|name| format!("+{name}"));
    let dropped = current.iter().filter(|name| !wanted.contains(name)).map(|name| format!("-{name}"));
    let difference: Vec<String> = added.chain(dropped).collect();
    if !difference.is_empty() {
        options.extend(["--groups", &joined]);
        changes.push(format!("groups: {}", difference.join(" ")));
    }
    if changes.is_empty() { Plan::default() } else { Plan { argv: argv(&options, &user.name), changes } }
}

fn argv(options: &[&str], name: &str) -> Vec<String> {
    let words = std::iter::once(USERMOD).chain(options.iter().copied()).chain(["--", name]);
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
                          ann:x:5000:5000::/home/ann:/bin/bash\n\
                          bob:x:5001:5001::/home/bob:/usr/sbin/nologin\n";
    const GROUP: &str = "root:x:0:\nvideo:x:44:ann\nann:x:5000:ann\nbob:x:5001:\nproject:x:40001:ann\n";

    fn user(name: &str, uid: u32, groups: &[&str]) -> User {
        User {
            name: name.into(),
            uid,
            gid: uid,
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            home: format!("/home/{name}"),
            shell: "/bin/bash".into(),
            make_home: false,
            system: false,
        }
    }

    fn locking(passwd: &str, group: &str, shadow: &str, name: &str) -> Option<String> {
        let accounts = Accounts::parse(passwd, group);
        let shadow = ShadowEntry::parse(shadow, name);
        lock(&accounts, shadow.as_ref(), accounts.user(name).unwrap()).map(|argv| argv.join(" "))
    }

    fn changing(shadow: Option<&str>, user: &User) -> (String, String) {
        let accounts = Accounts::parse(PASSWD, GROUP);
        let shadow = shadow.and_then(|text| ShadowEntry::parse(text, &user.name));
        let plan = change(&accounts, shadow.as_ref(), accounts.user(&user.name).unwrap(), user);
        (plan.argv.join(" "), plan.changes.join(", "))
    }

    #[test]
    fn locking_takes_all_ways_in() {
        let accounts = Accounts::parse(PASSWD, GROUP);
        assert_eq!(
            lock(&accounts, None, accounts.user("ann").unwrap()).unwrap(),
            [
                "/usr/sbin/usermod",
                "--lock",
                "--expiredate",
                "1",
                "--shell",
                "/usr/sbin/nologin",
                "--groups",
                "",
                "--",
                "ann"
            ]
        );
    }

    #[test]
    fn only_a_complete_lock_is_left_alone() {
        let done = "ann:!x:20000:0:99999:7::1:\nbob:!:20000:0:99999:7::1:\n";
        assert_eq!(locking(PASSWD, GROUP, done, "bob"), None);
        assert!(locking(PASSWD, GROUP, done, "ann").is_some(), "shell and groups");
        assert!(locking(PASSWD, &format!("{GROUP}x:x:7:bob\n"), done, "bob").is_some(), "groups");
        assert!(locking(&PASSWD.replace("sbin/nologin", "bin/sh"), GROUP, done, "bob").is_some(), "shell");
        for open in ["", "bob:!:20000:0:99999:7:::\n", "bob:$y$:20000:0:99999:7::1:\n"] {
            assert!(locking(PASSWD, GROUP, open, "bob").is_some(), "{open}");
        }
    }

    #[test]
    fn who_comes_back_is_let_in_again() {
        let bob = user("bob", 5001, &["video"]);
        let tail = "--shell /bin/bash --groups video -- bob";
        let key_only = changing(Some("bob:!:20000:0:99999:7::1:\n"), &bob);
        assert_eq!(key_only.0, format!("/usr/sbin/usermod --expiredate  {tail}"));
        assert_eq!(key_only.1, "unlocked, shell: /usr/sbin/nologin -> /bin/bash, groups: +video");
        let password = changing(Some("bob:!$y$x:20000:0:99999:7::1:\n"), &bob);
        assert_eq!(password.0, format!("/usr/sbin/usermod --expiredate  --unlock {tail}"));
        let other_date = changing(Some("bob:!:20000:0:99999:7::30000:\n"), &bob);
        assert_eq!(other_date.0, format!("/usr/sbin/usermod {tail}"));
    }

    #[test]
    fn groups_become_those_of_the_bundle() {
        assert_eq!(changing(None, &user("ann", 5000, &["project", "video"])), Default::default());
        assert_eq!(changing(None, &user("ann", 5000, &["ann", "video", "project"])), Default::default());
        assert_eq!(
            changing(None, &user("ann", 5000, &["project", "root"])),
            ("/usr/sbin/usermod --groups project,root -- ann".into(), "groups: +root -video".into())
        );
        assert_eq!(
            changing(None, &user("ann", 5000, &[])),
            ("/usr/sbin/usermod --groups  -- ann".into(), "groups: -video -project".into())
        );
    }
}
