//! Whether backups are made as they should be, for `kiln status` and `kiln doctor`.

use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use kiln_wire::{BackupList, BackupSettings, paths};

use super::{BackupError, check_whole, list, settings};
use crate::process;

/// Less than this does not even hold the backup of an empty cluster.
const LEAST: u64 = 16 << 20;

/// What the timer starts.
pub(super) const UNIT: &str = "kiln-backup.service";

/// What is wrong with the backups, the worst first.
pub fn problem() -> Option<String> {
    if let Err(error) = check_whole() {
        return Some(cut_off(&error));
    }
    let (settings, list) = match settings().and_then(|settings| Ok((settings, list()?))) {
        Ok(both) => both,
        Err(error) => return Some(crate::explain(&error)),
    };
    let told = fs::metadata(paths::BACKUP_SETTINGS).and_then(|file| file.modified()).ok();
    let since = told.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_else(Timestamp::now);
    let seen = Seen {
        since,
        now: Timestamp::now(),
        failed: process::call(&["systemctl", "is-failed", "--quiet", UNIT]).is_ok(),
        free: free(&settings.directory),
    };
    judge(&settings, &list, &seen)
}

/// With what is to be done: there is only one line.
fn cut_off(error: &BackupError) -> String {
    format!("{error}; {}", error.hint().unwrap_or_default())
}

struct Seen {
    /// Backups are made since then.
    since: Timestamp,
    now: Timestamp,
    /// The last one that the timer asked for.
    failed: bool,
    /// Bytes, where the backups are.
    free: Option<u64>,
}

fn judge(settings: &BackupSettings, list: &BackupList, seen: &Seen) -> Option<String> {
    if let Some(newest) = &list.left_behind {
        return Some(format!(
            "accounting and the queue started empty after the backup {newest}: `kiln restore` puts it back, \
             `kiln backup now` keeps what is there now"
        ));
    }
    if seen.failed {
        return Some(format!("the last backup failed: `journalctl -u {UNIT}` on control says why"));
    }
    let last = list.backups.first().map_or(seen.since, |newest| newest.time);
    let age = seen.now.duration_since(last);
    let limit = SignedDuration::try_from(std::time::Duration::from_secs(settings.interval.saturating_mul(2)));
    if limit.is_ok_and(|limit| age > limit) {
        let hours = age.as_hours();
        return Some(match list.backups.first() {
            Some(newest) => format!("the last backup, {}, is {hours} hours old", newest.name),
            None => format!("no backup was made for {hours} hours"),
        });
    }
    let needed = list.backups.first().map_or(0, |newest| newest.bytes() * 3 / 2).max(LEAST);
    seen.free.filter(|free| *free < needed).map(|free| {
        format!(
            "{} has no room for the next backup: {} MiB are left",
            settings.directory.display(),
            free >> 20
        )
    })
}

fn free(directory: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(directory).ok()?;
    Some(room.f_bavail * room.f_frsize)
}

#[cfg(test)]
mod tests {
    use kiln_wire::Version;

    use super::*;
    use crate::backup::shelf::tests::backup;

    #[test]
    fn a_restore_that_was_cut_off_is_said() {
        assert_eq!(
            cut_off(&BackupError::CutOff("b9".into())),
            "a restore of the backup b9 was cut off: accounting and the queue may be of different times; \
             Slurm stays off until `kiln restore` has put a backup back"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let settings = BackupSettings {
            format: Version,
            directory: "/b".into(),
            mount: None,
            keep: 2,
            interval: 3600,
            secrets: std::collections::BTreeMap::new(),
            accounting: None,
            directory_base: None,
        };
        let list = |backups: Vec<_>, left_behind: Option<&str>| BackupList {
            format: Version,
            directory: "/b".into(),
            backups,
            unreadable: Vec::new(),
            left_behind: left_behind.map(String::from),
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let seen = |now, failed, free| Seen { since: at(0), now: at(now), failed, free: Some(free) };
        let (much, little) = (1 << 30, 1 << 20);
        let none = list(Vec::new(), None);
        let one = list(vec![backup(9000, true)], None);
        assert_eq!(judge(&settings, &none, &seen(7000, false, much)), None, "the first is yet to come");
        assert_eq!(judge(&settings, &one, &seen(9001, false, much)), None);
        let said = |list: &BackupList, seen: &Seen| judge(&settings, list, seen).unwrap_or_default();
        assert_eq!(said(&none, &seen(7300, false, much)), "no backup was made for 2 hours");
        assert_eq!(said(&one, &seen(20000, false, much)), "the last backup, b9000, is 3 hours old");
        assert!(said(&one, &seen(9001, true, much)).starts_with("the last backup failed"));
        assert_eq!(
            said(&one, &seen(9001, false, little)),
            "/b has no room for the next backup: 1 MiB are left"
        );
        let empty = list(vec![backup(9000, true)], Some("b9000"));
        assert!(said(&empty, &seen(9001, true, little)).contains("started empty after the backup b9000"));
    }
}
