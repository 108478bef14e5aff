//! Mounts: a line in Kiln's block of the mount table, so that they are there at boot, and the mount itself.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use kiln_wire::bundle::{Mount, MountSource};

use super::ApplyError;
use super::growth::Growth;
use super::quota::{self, Kept};
use super::session::Session;
use super::site_mount;
use crate::managed;
use crate::mounts::{self, Mounted, NfsVersion, Source};
use crate::process;
use crate::state::process_owner;
use crate::verdict::Verdict;

const FSTAB: &str = "/etc/fstab";
const FORMAT_LIMIT: Duration = Duration::from_secs(1800);

pub(super) fn check(mount: &Mount) -> Result<(), ApplyError> {
    if mount.target == "/" || mount.target.contains(char::is_whitespace) {
        return Err(ApplyError::Refused(format!("`{}` cannot be a mount point", mount.target)));
    }
    Ok(())
}

pub(super) fn apply(session: &mut Session, mount: &Mount, id: &str) -> Result<Verdict, ApplyError> {
    let MountSource::Site(site) = &mount.source else { return apply_volume(session, mount, id) };
    site_mount::apply(session, &mount.target, site)
}

fn apply_volume(session: &mut Session, mount: &Mount, id: &str) -> Result<Verdict, ApplyError> {
    let source = mounts::find(&mount.source)?;
    let mut changes = Vec::new();
    let mut is_formatted = false;
    if let (Source::Device(device), MountSource::Volume(name)) = (&source, &mount.source)
        && must_format(mount.format, name, examine(device)?)?
    {
        is_formatted = true;
        changes.push("formatted".to_owned());
        if !session.dry_run {
            format(device, name)?;
        }
    }

    let mut now = mounts::mounted_at(&mount.target).map_err(reading_mounts)?;
    if let Some(now) = &now
        && !is_same(now, &source, &mount.target)
    {
        return Err(ApplyError::Refused(format!("`{}` is mounted there already", now.source)));
    }
    if let Source::Directory(directory) = &source
        && close_parent(directory, session.dry_run)?
    {
        changes.push("closed the volumes' directory".to_owned());
    }
    let mut mount = mount.clone();
    mount.quota &= begin_quotas(session, &mount, &source, &mut now, &mut changes)?;
    let mount = &mount;
    // A dry run cannot know the identity of a file system that is yet to be made.
    let blank = session.dry_run && is_formatted;
    let line = if blank { String::new() } else { fstab_line(&source, mount)? };
    if blank || set_line(session, &mount.target, &line)? {
        changes.push("mount table".to_owned());
    }
    match now {
        None => {
            for unit in stop_residents(session, id)? {
                changes.push(format!("stopped {unit}"));
            }
            changes.push("mounted".to_owned());
            if !session.dry_run {
                make_target(session, &mount.target)?;
                if let Source::Device(device) = &source {
                    quota::check(device)?;
                }
                attach(&source, mount)?;
            }
        }
        Some(now) if now.read_only != mount.read_only || !now.inert => {
            changes.push(format!("remounted {}", access(mount)));
            if !session.dry_run {
                let bind = if matches!(source, Source::Directory(_)) { "bind," } else { "" };
                let how = format!("remount,{bind}{}", access(mount));
                process::call(&["mount", "--options", &how, "--", &mount.target])?;
            }
        }
        Some(_) => {}
    }
    if let Source::Device(device) = &source
        && mount.format
        && !mount.read_only
        && !blank
        && let Some(growth) = Growth::of(device)?
    {
        changes.push("file system grown to the size of its volume".to_owned());
        if !session.dry_run {
            growth.carry_out(device, &mount.target)?;
        }
    }
    if changes.is_empty() { Ok(Verdict::unchanged()) } else { Ok(Verdict::changed(changes.join(", "))) }
}

/// Whether users have quotas on a volume when it is mounted. What stands in the way costs the quotas, not the volume: `kiln status` tells.
fn begin_quotas(
    session: &mut Session,
    mount: &Mount,
    source: &Source,
    now: &mut Option<Mounted>,
    changes: &mut Vec<String>,
) -> Result<bool, ApplyError> {
    let Source::Device(device) = source else { return Ok(false) };
    if !mount.quota || now.as_ref().is_some_and(|now| now.quota) {
        return Ok(mount.quota);
    }
    if !quota::kernel_has() {
        return Ok(false);
    }
    if session.dry_run {
        changes.push("user quotas".to_owned());
        return Ok(true);
    }
    let kept = quota::kept(device)?;
    if kept == Kept::Never {
        return Ok(false);
    }
    if now.is_some() && !quota::release(session, &mount.target)? {
        changes.push("in use, so there are no user quotas yet".to_owned());
        return Ok(false);
    }
    *now = None;
    if kept == Kept::No
        && let Err(error) = quota::begin(device)
    {
        changes.push(format!("no user quotas: {}", crate::explain(&error)));
        return Ok(false);
    }
    changes.push("user quotas".to_owned());
    Ok(true)
}

/// Users reach a volume where it is mounted, with the options of that mount, and in no other way. Whether the directory of
/// all volumes had to be closed to them.
fn close_parent(volume: &Path, dry_run: bool) -> Result<bool, ApplyError> {
    let parent = volume.parent().unwrap_or(volume);
    let failed = |source| ApplyError::Io { doing: format!("close `{}`", parent.display()), source };
    let mode = std::fs::metadata(parent).map_err(failed)?.mode() & 0o7777;
    if mode != 0o700 && !dry_run {
        std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(mode != 0o700)
}

/// Drops the lines of mounts that are no longer wanted, and names their targets.
pub(super) fn forget_others(
    session: &mut Session,
    wanted: &BTreeSet<String>,
) -> Result<Vec<String>, ApplyError> {
    let text = read_fstab(session)?;
    let (keep, gone): (Vec<&str>, Vec<&str>) = managed::lines(&text)
        .into_iter()
        .partition(|line| target_of(line).is_some_and(|target| wanted.contains(target)));
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    write_fstab(session, &managed::replace(&text, &keep))?;
    Ok(gone.iter().filter_map(|line| target_of(line)).map(str::to_owned).collect())
}

/// A service that keeps its data on this mount and runs without it has them in the directory below. Stopped only after
/// the mount, it would write those over the real ones. It is started again in its turn.
fn stop_residents(session: &mut Session, id: &str) -> Result<Vec<String>, ApplyError> {
    let mut stopped = Vec::new();
    for unit in session.residents(id) {
        if session.units.is_running(&unit)? {
            if !session.dry_run {
                session.units.change_state("stop", &unit)?;
            }
            stopped.push(unit);
        }
    }
    if !stopped.is_empty() && !session.dry_run {
        session.units.forget();
    }
    Ok(stopped)
}

pub(super) fn make_target(session: &Session, target: &str) -> Result<(), ApplyError> {
    let entry = session.tree.make_entry(target)?;
    if entry.stat()?.is_none() {
        entry.make_directory(0o755, process_owner())?;
    }
    Ok(())
}

fn is_same(now: &Mounted, source: &Source, target: &str) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    match source {
        // The root of a bind mount is the directory it was made from.
        Source::Directory(directory) => {
            let directory = identity(directory);
            directory.is_some() && directory == identity(Path::new(target))
        }
        Source::Device(device) => std::fs::metadata(device).is_ok_and(|data| {
            let (major, minor) = (rustix::fs::major(data.rdev()), rustix::fs::minor(data.rdev()));
            now.device == format!("{major}:{minor}")
        }),
        Source::Nfs { export, .. } => now.source.trim_end_matches('/') == export.trim_end_matches('/'),
    }
}

/// How much of a device is read before it is taken for empty.
const START: u64 = 16 << 20;

/// What is on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Something that `blkid` knows: a file system, a partition table.
    Known,
    /// Zeroes, as far as it was read.
    Zeroes,
    /// Bytes that nobody knows: a damaged file system, or one that is encrypted.
    Unknown,
}

/// `blkid` says the same of a device it cannot read as of an empty one, so all is read first.
fn examine(device: &Path) -> Result<Content, ApplyError> {
    let failed = |source| ApplyError::Io { doing: format!("read `{}`", device.display()), source };
    let mut start = std::fs::File::open(device).map_err(failed)?.take(START);
    let (mut block, mut read, mut zeroes) = (vec![0; 1 << 20], 0, true);
    loop {
        let length = start.read(&mut block).map_err(failed)?;
        if length == 0 {
            break;
        }
        read += length;
        zeroes &= block[..length].iter().all(|byte| *byte == 0);
    }
    let probe =
        process::run(&["blkid", "--probe", "--", &device.to_string_lossy()], None, Duration::from_secs(60))?;
    match probe.code {
        Some(0) => Ok(Content::Known),
        Some(2) if zeroes && read > 0 => Ok(Content::Zeroes),
        Some(2) => Ok(Content::Unknown),
        _ => Err(ApplyError::Refused(format!(
            "cannot tell what `{}` holds; it is left alone",
            device.display()
        ))),
    }
}

/// Only an empty volume that Kiln created gets a file system.
fn must_format(own: bool, volume: &str, content: Content) -> Result<bool, ApplyError> {
    match (content, own) {
        (Content::Known, _) => Ok(false),
        (Content::Zeroes, true) => Ok(true),
        (Content::Zeroes, false) => Err(ApplyError::Refused(format!(
            "volume {volume} has no file system, and Kiln formats only volumes that it created; make a file system on it"
        ))),
        (Content::Unknown, _) => Err(ApplyError::Refused(format!(
            "volume {volume} has no readable file system, but is not empty; it is left alone"
        ))),
    }
}

fn format(device: &Path, name: &str) -> Result<(), ApplyError> {
    let argv = ["mkfs.ext4", "-q", "-L", mounts::label(name), "--", &device.to_string_lossy()];
    process::run(&argv, None, FORMAT_LIMIT)?.checked()?;
    Ok(())
}

/// Volumes hold data. A program or device that root of one node has put there gives nobody rights on another.
fn access(mount: &Mount) -> &'static str {
    if mount.read_only { "ro,nosuid,nodev" } else { "rw,nosuid,nodev" }
}

/// Type, options and source, as `mount` takes them.
fn arguments(source: &Source, mount: &Mount) -> (&'static str, String, String) {
    let access = access(mount);
    match source {
        Source::Directory(path) => ("none", format!("bind,{access}"), path.display().to_string()),
        Source::Device(path) => {
            let quota = if mount.quota { ",usrquota" } else { "" };
            ("auto", format!("{access}{quota}"), path.display().to_string())
        }
        Source::Nfs { export, version } => {
            let version = match version {
                NfsVersion::Four => "vers=4",
                // Over TCP from the start, for what comes before the mount as well.
                NfsVersion::Three => "vers=3,proto=tcp,mountproto=tcp",
            };
            ("nfs", format!("{access},{version},hard"), export.clone())
        }
    }
}

/// Not by way of the mount table: `mount` calls it a success when the device of a `nofail` line is missing, and
/// the identity of a file system just made may not be known to the system yet.
fn attach(source: &Source, mount: &Mount) -> Result<(), ApplyError> {
    let (kind, options, from) = arguments(source, mount);
    let target = &mount.target;
    process::call(&["mount", "--types", kind, "--options", &options, "--", &from, target])?;
    match mounts::mounted_at(target).map_err(reading_mounts)? {
        Some(now) if is_same(&now, source, target) => Ok(()),
        _ => Err(ApplyError::Refused("mounted, but the mount is not listed".into())),
    }
}

/// With `nofail` a volume that is missing costs a service, not the whole boot and with it SSH. A volume may come late, as a cloud
/// attaches it or a slow machine finds it: it is waited for as long as it takes, and so the services start that need it.
fn fstab_line(source: &Source, mount: &Mount) -> Result<String, ApplyError> {
    let (kind, options, from) = arguments(source, mount);
    let (from, extra) = match source {
        Source::Directory(_) => (from, "nofail 0 0"),
        Source::Device(_) => {
            (format!("UUID={}", uuid(&from)?), "nofail,x-systemd.device-timeout=infinity 0 2")
        }
        Source::Nfs { .. } => (from, "_netdev,nofail 0 0"),
    };
    Ok(format!("{from} {} {kind} {options},{extra}", mount.target))
}

/// Device names change from boot to boot.
fn uuid(device: &str) -> Result<String, ApplyError> {
    let argv = ["blkid", "--probe", "--match-tag", "UUID", "--output", "value", "--", device];
    Ok(process::call(&argv)?.stdout.trim().to_owned())
}

/// Whether the line had to be set.
pub(super) fn set_line(session: &mut Session, target: &str, line: &str) -> Result<bool, ApplyError> {
    let text = read_fstab(session)?;
    let mut lines = managed::lines(&text);
    if lines.contains(&line) {
        return Ok(false);
    }
    lines.retain(|line| target_of(line) != Some(target));
    lines.push(line);
    write_fstab(session, &managed::replace(&text, &lines))?;
    Ok(true)
}

fn target_of(line: &str) -> Option<&str> {
    line.split_whitespace().nth(1)
}

fn read_fstab(session: &Session) -> Result<String, ApplyError> {
    Ok(String::from_utf8_lossy(&session.tree.read(FSTAB)?.unwrap_or_default()).into_owned())
}

fn write_fstab(session: &mut Session, text: &str) -> Result<(), ApplyError> {
    if session.dry_run {
        return Ok(());
    }
    // systemd makes mount units of the table.
    session.units.unit_files_changed();
    Ok(session.tree.make_entry(FSTAB)?.write(text.as_bytes(), 0o644, process_owner())?)
}

pub(super) fn reading_mounts(source: std::io::Error) -> ApplyError {
    ApplyError::Io { doing: "read the table of mounts".into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_the_volumes_is_closed_once() {
        let root = tempfile::tempdir().unwrap();
        let volume = root.path().join("volumes/home");
        std::fs::create_dir_all(&volume).unwrap();
        std::fs::set_permissions(root.path().join("volumes"), std::fs::Permissions::from_mode(0o755))
            .unwrap();
        assert!(close_parent(&volume, true).unwrap() && close_parent(&volume, false).unwrap());
        assert!(!close_parent(&volume, false).unwrap());
    }

    #[test]
    fn lines_of_the_mount_table() {
        let mount = |read_only| Mount {
            target: "/home".into(),
            source: MountSource::Nfs("c:/h".into()),
            read_only,
            format: false,
            quota: false,
        };
        let nfs = |version| Source::Nfs { export: "c:/h".into(), version };
        assert_eq!(
            fstab_line(&nfs(NfsVersion::Four), &mount(false)).unwrap(),
            "c:/h /home nfs rw,nosuid,nodev,vers=4,hard,_netdev,nofail 0 0"
        );
        assert_eq!(
            fstab_line(&nfs(NfsVersion::Three), &mount(false)).unwrap(),
            "c:/h /home nfs rw,nosuid,nodev,vers=3,proto=tcp,mountproto=tcp,hard,_netdev,nofail 0 0"
        );
        let line = fstab_line(&Source::Directory("/mnt/volumes/x".into()), &mount(true)).unwrap();
        assert_eq!(line, "/mnt/volumes/x /home none bind,ro,nosuid,nodev,nofail 0 0");
        assert_eq!(target_of(&line), Some("/home"));
    }

    /// Files stand in for devices.
    #[test]
    fn only_what_is_empty_and_kilns_own_is_formatted() {
        let dir = tempfile::tempdir().unwrap();
        let device = |name: &str, write: &dyn Fn(&std::fs::File)| {
            let path = dir.path().join(name);
            let file = std::fs::File::create(&path).unwrap();
            file.set_len(24 << 20).unwrap();
            write(&file);
            path
        };
        let empty = device("empty", &|_| {});
        assert_eq!(examine(&empty).unwrap(), Content::Zeroes);
        // A file system whose start is damaged.
        let damaged = device("damaged", &|file| {
            std::os::unix::fs::FileExt::write_at(file, b"data", 9 << 20).map(drop).unwrap();
        });
        assert_eq!(examine(&damaged).unwrap(), Content::Unknown);
        format(&empty, "demo-home").unwrap();
        assert_eq!(examine(&empty).unwrap(), Content::Known);
        assert!(examine(&dir.path().join("missing")).is_err());

        assert!(must_format(true, "v", Content::Zeroes).unwrap());
        assert!(!must_format(true, "v", Content::Known).unwrap());
        for (own, content) in [(true, Content::Unknown), (false, Content::Unknown), (false, Content::Zeroes)]
        {
            assert!(must_format(own, "v", content).is_err(), "{own} {content:?}");
        }
    }
}
