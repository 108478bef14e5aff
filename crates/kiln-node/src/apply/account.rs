//! Groups and users, through the system's own tools. Nobody is ever removed, and no number is changed: files
//! on volumes belong to numbers.
//!
//! The supplementary groups of a listed user are exactly those of the bundle, whoever made the user: one that
//! was given by hand or by a package is taken away again. A user that Kiln made and the bundle no longer has
//! is locked, and unlocked when it comes back; the home directory stays. Users that were there before Kiln
//! are never locked.

use std::io::ErrorKind;

use kiln_wire::Outcome;
use kiln_wire::bundle::{Group, User};

use super::ApplyError;
use super::session::Session;
use super::usermod;
use crate::accounts::{GroupEntry, ShadowEntry, UserEntry, is_valid_name};
use crate::process;
use crate::state::MadeUser;
use crate::tree::{Owner, TreeError};
use crate::verdict::Verdict;

const SKELETON: &str = "/etc/skel";

pub(super) fn apply_group(session: &mut Session, group: &Group) -> Result<Verdict, ApplyError> {
    check_name(&group.name)?;
    if let Some(found) = session.accounts.group(&group.name) {
        return match group.gid {
            Some(gid) if gid != found.gid && group.system => Err(wrong_number("gid", found.gid, gid)),
            Some(gid) if gid != found.gid => {
                Err(ApplyError::Refused(format!("the group exists with gid {}, not {gid}", found.gid)))
            }
            _ => Ok(Verdict::unchanged()),
        };
    }
    add_group(session, &group.name, group.gid, group.system)?;
    Ok(Verdict::changed("created"))
}

pub(super) fn apply_user(session: &mut Session, user: &User) -> Result<Verdict, ApplyError> {
    check_name(&user.name)?;
    for field in [&user.home, &user.shell] {
        if !field.starts_with('/') || field.contains([':', '\n']) {
            return Err(ApplyError::Refused(format!("`{field}` cannot be a home or a shell")));
        }
    }
    if user.system {
        return apply_service_user(session, user);
    }
    let mut changes = Vec::new();
    if !session.accounts.groups.iter().any(|group| group.gid == user.gid) {
        add_group(session, &user.name, Some(user.gid), false)?;
        changes.push(format!("group {}", user.gid));
    }
    if let Some(missing) = user.groups.iter().find(|group| session.accounts.group(group).is_none()) {
        return Err(ApplyError::Refused(format!("there is no group `{missing}`")));
    }
    match session.accounts.user(&user.name).cloned() {
        None => {
            add_user(session, user)?;
            changes.push("created".into());
        }
        Some(found) => changes.extend(modify_user(session, user, &found)?),
    }
    let mut refused = None;
    if user.make_home {
        match make_home(session, user) {
            Ok(true) => changes.push("home".into()),
            Ok(false) => {}
            // Root may write everywhere but on a file server that takes root for nobody: its homes are the site's to make.
            Err(ApplyError::Tree(TreeError::Io { source, .. }))
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                refused = Some("the file server does not let root make the home".to_owned());
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(why) = refused.filter(|_| changes.is_empty()) {
        return Ok(Verdict::new(Outcome::Skipped, why));
    }
    if changes.is_empty() { Ok(Verdict::unchanged()) } else { Ok(Verdict::changed(changes.join(", "))) }
}

/// What a package or a person has made of it otherwise, such as its home, is left alone.
fn apply_service_user(session: &mut Session, user: &User) -> Result<Verdict, ApplyError> {
    match session.accounts.user(&user.name) {
        Some(found) if found.uid != user.uid => Err(wrong_number("uid", found.uid, user.uid)),
        Some(found) if found.gid != user.gid => Err(wrong_number("gid", found.gid, user.gid)),
        Some(_) => Ok(Verdict::unchanged()),
        None => {
            add_user(session, user)?;
            Ok(Verdict::changed("created"))
        }
    }
}

/// Its files would belong to another user on the next image, or belong to one already.
fn wrong_number(kind: &str, found: u32, wanted: u32) -> ApplyError {
    ApplyError::Refused(format!(
        "this image has it with {kind} {found}; Kiln's images have {wanted}. Build the image again and rebuild the node: \
         `kiln up` does it for control and login nodes, then `kiln rebuild` for compute nodes"
    ))
}

fn check_name(name: &str) -> Result<(), ApplyError> {
    if is_valid_name(name) {
        Ok(())
    } else {
        Err(ApplyError::Refused("not a name of a user or group".into()))
    }
}

fn add_group(session: &mut Session, name: &str, gid: Option<u32>, system: bool) -> Result<(), ApplyError> {
    if session.dry_run {
        // Later resources may be owned by it.
        session.accounts.groups.push(GroupEntry {
            name: name.to_owned(),
            gid: gid.unwrap_or(u32::MAX),
            members: Vec::new(),
        });
        return Ok(());
    }
    let gid = gid.map(|gid| gid.to_string());
    let mut argv = vec!["/usr/sbin/groupadd"];
    if let Some(gid) = &gid {
        argv.extend(["--gid", gid]);
    }
    if system || gid.is_none() {
        argv.push("--system");
    }
    argv.extend(["--", name]);
    process::call(&argv)?;
    session.reread_accounts()
}

fn add_user(session: &mut Session, user: &User) -> Result<(), ApplyError> {
    if session.dry_run {
        session.accounts.users.push(UserEntry {
            name: user.name.clone(),
            uid: user.uid,
            gid: user.gid,
            home: user.home.clone(),
            shell: user.shell.clone(),
        });
        return Ok(());
    }
    let (uid, gid, groups) = (user.uid.to_string(), user.gid.to_string(), user.groups.join(","));
    let mut argv =
        vec!["/usr/sbin/useradd", "--no-create-home", "--no-log-init", "--uid", &uid, "--gid", &gid];
    argv.extend(["--home-dir", &user.home, "--shell", &user.shell]);
    if !groups.is_empty() {
        argv.extend(["--groups", &groups]);
    }
    if user.system {
        argv.push("--system");
    }
    argv.extend(["--", &user.name]);
    if user.system {
        process::call(&argv)?;
        return session.reread_accounts();
    }
    // Recorded before it is done: an interrupted run must not leave a user that is never locked.
    session.manifest.users.insert(user.name.clone(), MadeUser { uid: user.uid, locked: false });
    session.save()?;
    let result = process::call(&argv);
    session.reread_accounts()?;
    if session.accounts.user(&user.name).is_none() {
        session.manifest.users.remove(&user.name);
    }
    result?;
    Ok(())
}

fn modify_user(session: &mut Session, user: &User, found: &UserEntry) -> Result<Vec<String>, ApplyError> {
    if found.uid != user.uid {
        return Err(ApplyError::Refused(format!("the user exists with uid {}, not {}", found.uid, user.uid)));
    }
    let made = session.manifest.users.get(&user.name);
    let locked = made.is_some_and(|made| made.locked && made.uid == user.uid);
    let shadow = if locked { ShadowEntry::read(&session.tree, &user.name)? } else { None };
    let plan = usermod::change(&session.accounts, shadow.as_ref(), found, user);
    if !plan.changes.is_empty() && !session.dry_run {
        call(&plan.argv)?;
        session.reread_accounts()?;
    }
    if let Some(made) = session.manifest.users.get_mut(&user.name) {
        made.locked = false;
    }
    Ok(plan.changes)
}

/// Locks a user that Kiln made and the bundle no longer has. `false` when there is nothing to do.
pub(super) fn lock_user(session: &mut Session, name: &str) -> Result<bool, ApplyError> {
    let found = session.accounts.user(name).cloned();
    let made = session.manifest.users.get_mut(name);
    let (Some(found), Some(made)) = (found, made) else {
        session.manifest.users.remove(name);
        return Ok(false);
    };
    if made.uid != found.uid {
        session.manifest.users.remove(name);
        return Ok(false);
    }
    let shadow = ShadowEntry::read(&session.tree, name)?;
    let Some(argv) = usermod::lock(&session.accounts, shadow.as_ref(), &found) else {
        return Ok(false);
    };
    // Recorded before it is done: an interrupted run must not leave a lock that is never lifted.
    made.locked = true;
    session.save()?;
    if !session.dry_run {
        call(&argv)?;
        session.reread_accounts()?;
    }
    Ok(true)
}

fn call(argv: &[String]) -> Result<(), ApplyError> {
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    process::call(&argv)?;
    Ok(())
}

/// Filled under another name first, so that a home is there complete or not at all.
fn make_home(session: &Session, user: &User) -> Result<bool, ApplyError> {
    if let Some(entry) = session.tree.entry(&user.home)?
        && entry.stat()?.is_some()
    {
        return Ok(false);
    }
    if session.dry_run {
        return Ok(true);
    }
    let owner = Owner { uid: user.uid, gid: user.gid };
    let home = session.tree.make_entry(&user.home)?;
    let (parent, name) = user.home.rsplit_once('/').unwrap_or_default();
    let draft = format!("{parent}/.{name}.kiln-{}", std::process::id());
    // Root's until it is complete: nobody can interfere with what is copied into it.
    let root = crate::state::process_owner();
    session.tree.make_entry(&draft)?.make_directory(0o700, root)?;
    copy_skeleton(session, SKELETON, &draft, owner)?;
    let draft = session.tree.make_entry(&draft)?;
    draft.set_attributes(0o700, owner)?;
    draft.rename_to(&home)?;
    Ok(true)
}

fn copy_skeleton(session: &Session, from: &str, to: &str, owner: Owner) -> Result<(), ApplyError> {
    let io = |source| ApplyError::Io { doing: format!("copy `{from}`"), source };
    let entries = match std::fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    for entry in entries {
        let entry = entry.map_err(io)?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let (source, target) = (format!("{from}/{name}"), format!("{to}/{name}"));
        let metadata = entry.metadata().map_err(io)?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        let entry = session.tree.make_entry(&target)?;
        if metadata.is_dir() {
            entry.make_directory(mode, owner)?;
            copy_skeleton(session, &source, &target, owner)?;
        } else if metadata.is_symlink() {
            let link = std::fs::read_link(&source).map_err(io)?;
            entry.link(&link.to_string_lossy(), owner)?;
        } else if metadata.is_file() {
            entry.write(&std::fs::read(&source).map_err(io)?, mode, owner)?;
        }
    }
    Ok(())
}
