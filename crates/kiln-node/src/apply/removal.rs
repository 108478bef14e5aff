//! Takes away what an earlier bundle put here and this one no longer has: files, links, and lines of the
//! mount table. Services that Kiln had arranged are stopped, and users that it made are locked. Other users, directories and services
//! are left alone.

use std::collections::BTreeSet;
use std::time::Instant;

use kiln_wire::bundle::{Bundle, Resource};
use rustix::fs::FileType;

use super::session::{Session, owned_paths};
use super::{ApplyError, Reports, account, failure, mount};
use crate::process;
use crate::systemd;
use crate::tree::kind;
use crate::verdict::Verdict;

pub(super) fn apply(session: &mut Session, bundle: &Bundle, reports: &mut Reports) {
    // A path that is now a directory or a mount is still the bundle's.
    let mut wanted = owned_paths(bundle);
    let mut targets = BTreeSet::new();
    for resource in &bundle.resources {
        match resource {
            Resource::Directory(directory) => {
                wanted.insert(directory.path.clone());
            }
            Resource::Mount(mount) => {
                wanted.insert(mount.target.clone());
                targets.insert(mount.target.clone());
            }
            _ => {}
        }
    }
    let gone: Vec<String> = session.manifest.paths.difference(&wanted).cloned().collect();
    if session.live {
        stop_units(session, bundle, &gone, reports);
    }
    for path in gone {
        let start = Instant::now();
        match remove(session, &path) {
            Ok(removed) => {
                session.manifest.paths.remove(&path);
                if removed {
                    session.path_changed(&path);
                    // A service that reads a whole directory can name it to hear of removals in it.
                    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    session.owe(bundle, &format!("directory:{parent}"));
                    reports.add(format!("file:{path}"), start, Verdict::changed("removed"));
                }
            }
            Err(error) => reports.add(format!("file:{path}"), start, failure(&error)),
        }
    }
    if session.live {
        lock_users(session, bundle, reports);
        forget_mounts(session, &targets, reports);
    }
}

/// Before its file goes: systemd would start it at the next boot in the way of its package.
fn stop_units(session: &mut Session, bundle: &Bundle, gone: &[String], reports: &mut Reports) {
    let is_listed =
        |unit: &str| bundle.resources.iter().any(|r| matches!(r, Resource::Service(s) if s.unit == unit));
    for unit in gone.iter().filter_map(|path| own_unit(path)).filter(|unit| !is_listed(unit)) {
        let start = Instant::now();
        let stop = || process::call(&["systemctl", "disable", "--now", unit]).map(drop);
        let verdict = match if session.dry_run { Ok(()) } else { stop() } {
            Ok(()) => Verdict::changed("stopped, disabled"),
            Err(error) => failure(&error.into()),
        };
        session.units.forget();
        reports.add(format!("service:{unit}"), start, verdict);
    }
}

/// The unit that a file of Kiln's own is, or changes. Files of the site's have other names.
fn own_unit(path: &str) -> Option<&str> {
    let name = path.strip_prefix("/etc/systemd/system/")?;
    let unit = match name.split_once('/') {
        Some((folder, "kiln.conf")) => folder.strip_suffix(".d")?,
        Some(_) => return None,
        None => Some(name).filter(|name| name.starts_with("kiln"))?,
    };
    systemd::is_valid_unit(unit).then_some(unit)
}

fn remove(session: &Session, path: &str) -> Result<bool, ApplyError> {
    let Some(entry) = session.tree.entry(path)? else {
        return Ok(false);
    };
    match entry.stat()?.map(|stat| kind(&stat)) {
        Some(FileType::RegularFile | FileType::Symlink) => {}
        // Somebody put something else there: it is not ours.
        _ => return Ok(false),
    }
    if !session.dry_run {
        entry.remove()?;
    }
    Ok(true)
}

fn lock_users(session: &mut Session, bundle: &Bundle, reports: &mut Reports) {
    let listed: BTreeSet<&str> = bundle
        .resources
        .iter()
        .filter_map(|resource| match resource {
            Resource::User(user) => Some(user.name.as_str()),
            _ => None,
        })
        .collect();
    let gone: Vec<String> =
        session.manifest.users.keys().filter(|name| !listed.contains(name.as_str())).cloned().collect();
    for name in gone {
        let start = Instant::now();
        let verdict = match account::lock_user(session, &name) {
            Ok(false) => continue,
            Ok(true) => Verdict::changed("locked; the home directory is kept"),
            Err(error) => failure(&error),
        };
        reports.add(format!("user:{name}"), start, verdict);
    }
}

fn forget_mounts(session: &mut Session, targets: &BTreeSet<String>, reports: &mut Reports) {
    let start = Instant::now();
    match mount::forget_others(session, targets) {
        Ok(gone) => {
            for target in gone {
                let verdict = Verdict::changed("removed from the mount table; unmounted at the next boot");
                reports.add(format!("mount:{target}"), start, verdict);
            }
        }
        Err(error) => reports.add("file:/etc/fstab".into(), start, failure(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_known_by_kilns_files() {
        let rows = [
            ("/etc/systemd/system/prometheus.service.d/kiln.conf", Some("prometheus.service")),
            ("/etc/systemd/system/kiln-rest.service", Some("kiln-rest.service")),
            ("/etc/systemd/system/kilnd.service", Some("kilnd.service")),
            // The site's.
            ("/etc/systemd/system/prometheus.service.d/site.conf", None),
            ("/etc/systemd/system/site.service", None),
            ("/etc/systemd/journald.conf.d/kiln.conf", None),
            ("/etc/kiln/fleet.json", None),
        ];
        for (path, unit) in rows {
            assert_eq!(own_unit(path), unit, "{path}");
        }
    }
}
