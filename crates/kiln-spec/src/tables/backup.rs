//! `[backup]`: when the control node makes backups, where it keeps them, and how many.

use std::time::Duration;

use crate::diagnostic::Findings;
use crate::merge::default_text;
use crate::units::size_gib;
use crate::validate::paths::is_plain_directory;
use crate::written::table::table;
use crate::written::{At, Text};
use crate::{Backup, Volume};

table! {
    /// When the control node makes backups, where it keeps them, and how many.
    BackupTable {
        /// `hourly`, `daily` (at midnight), `weekly` (Monday at midnight), or every day at a time such as `03:30`, by the control node's clock.
        "at" => time: Text, default "daily";
        /// Number of backups that are kept, 1 to 1000: of those made at these times, and as many of the others.
        "keep" => keep: At<i64>, default 14;
        /// Size of the volume `CLUSTER-backup`, e.g. `20 GiB`.
        "size" => size: Text, otherwise "`\"10 GiB\"`";
        /// A directory on the control node that the site provides, e.g. on a file server. There is no volume for backups then. The directory must exist.
        "path" => path: Text, otherwise "the volume `CLUSTER-backup`";
    }
}

const DEFAULT_SIZE: &str = "10 GiB";
/// What lies there is lost together with what it is a backup of, or replaced.
const OWN: [&str; 4] = ["/etc/kiln", "/var/lib/kiln", "/var/lib/state", "/srv/kiln"];
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn validate(written: &BackupTable, findings: &mut Findings<'_>) -> Backup {
    let keep = usize::try_from(written.keep.value).ok().filter(|n| (1..=1000).contains(n));
    if keep.is_none() {
        let message = format!("`keep` cannot be {}", written.keep.value);
        findings.error("out-of-range", written.keep.span.clone(), message).expected("1 to 1000");
    }
    let (calendar, interval) = calendar(&written.time.value).unwrap_or_else(|| {
        let message = format!("backups cannot be made at `{}`", written.time.value);
        (findings.error("bad-time", written.time.span.clone(), message))
            .expected("`hourly`, `daily`, `weekly` or a time of day, e.g. \"03:30\"");
        (String::new(), DAY)
    });
    let path = written.path.as_ref().map(|path| directory(path, findings));
    if let (Some(size), Some(_)) = (&written.size, &path) {
        let message = "there is no volume for backups, because there is a `path` for them";
        findings.error("bad-volume", size.span.clone(), message).expected("no `size`, or no `path`");
    }
    let volume = if path.is_some() { Volume::None } else { volume(written, findings) };
    Backup { calendar, interval, keep: keep.unwrap_or(1), volume, path }
}

fn volume(written: &BackupTable, findings: &mut Findings<'_>) -> Volume {
    let size = written.size.clone().unwrap_or_else(|| default_text(DEFAULT_SIZE, &written.at));
    match size_gib(&size.value) {
        Ok(size_gib) => Volume::Manage { size_gib },
        Err(expected) => {
            let message = format!("`{}` is not the size of a volume", size.value);
            findings.error("bad-size", size.span.clone(), message).expected(expected);
            Volume::None
        }
    }
}

/// When, in systemd's words, and the time between two.
fn calendar(text: &str) -> Option<(String, Duration)> {
    match text {
        "hourly" => Some((text.to_owned(), HOUR)),
        "daily" => Some((text.to_owned(), DAY)),
        "weekly" => Some((text.to_owned(), DAY * 7)),
        clock => {
            let (hour, minute) = clock.split_once(':')?;
            let number = |text: &str, limit: u32| {
                let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse().ok().filter(|number: &u32| digits && *number < limit)
            };
            let (hour, minute) = (number(hour, 24)?, number(minute, 60)?);
            Some((format!("*-*-* {hour:02}:{minute:02}:00"), DAY))
        }
    }
}

fn directory(path: &Text, findings: &mut Findings<'_>) -> String {
    let text = path.value.trim_end_matches('/');
    let is_own = |own: &&str| text == *own || text.starts_with(&format!("{own}/"));
    if !is_plain_directory(text) {
        let message = format!("`{}` is not a directory for backups", path.value);
        (findings.error("bad-path", path.span.clone(), message))
            .expected("an absolute path of letters, digits, `_`, `.` and `-`, e.g. \"/srv/backup\"");
    } else if OWN.iter().any(is_own) {
        let message = format!("`{text}` is Kiln's own");
        (findings.error("bad-path", path.span.clone(), message))
            .expected("a directory that the site provides")
            .hint("without `path`, backups are on a volume of their own");
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let times = |text: &str| calendar(text).map(|(calendar, interval)| (calendar, interval.as_secs()));
        assert_eq!(times("hourly"), Some(("hourly".into(), 3600)));
        assert_eq!(times("weekly"), Some(("weekly".into(), 7 * 86400)));
        assert_eq!(times("03:30"), Some(("*-*-* 03:30:00".into(), 86400)));
        for bad in ["", "3:30", "24:00", "12:60", "12:30:00", "+1:30", "never"] {
            assert_eq!(times(bad), None, "{bad}");
        }
    }
}
