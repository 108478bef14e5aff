//! File systems of the site: a line in Kiln's block of the mount table, from which systemd makes the unit that is started.
//! systemd bounds how long a server may take to answer.

use kiln_wire::Outcome;
use kiln_wire::bundle::SiteMount;

use super::ApplyError;
use super::mount::{make_target, reading_mounts, set_line};
use super::session::Session;
use crate::verdict::Verdict;
use crate::{explain, mounts, process, systemd};

pub(super) fn apply(session: &mut Session, target: &str, wanted: &SiteMount) -> Result<Verdict, ApplyError> {
    let mut changes = Vec::new();
    let is_new = set_line(session, target, &line(target, wanted)?)?;
    if is_new {
        changes.push("mount table");
    }
    let is_mounted = || Ok::<_, ApplyError>(mounts::mounted_at(target).map_err(reading_mounts)?.is_some());
    if is_new && is_mounted()? && !session.dry_run && !unmount(target) {
        changes.push("in use, so the change counts from the next boot");
    }
    if !is_mounted()? {
        changes.push("mounted");
        if !session.dry_run {
            make_target(session, target)?;
            let unit = unit_of(target, if wanted.automount { "automount" } else { "mount" });
            if let Some(why) = start(session, &unit)? {
                return not_mounted(why, wanted.required);
            }
            if !is_mounted()? {
                return not_mounted("started, but the mount is not listed".into(), wanted.required);
            }
        }
    }
    if changes.is_empty() { Ok(Verdict::unchanged()) } else { Ok(Verdict::changed(changes.join(", "))) }
}

/// One that jobs do not need costs itself alone.
fn not_mounted(why: String, is_required: bool) -> Result<Verdict, ApplyError> {
    if is_required {
        return Err(ApplyError::Refused(why));
    }
    Ok(Verdict::new(Outcome::Skipped, format!("not mounted: {why}")))
}

/// Why the unit could not be started, if it could not.
fn start(session: &mut Session, unit: &str) -> Result<Option<String>, ApplyError> {
    // Makes systemd read the mount table, if that has changed.
    session.units.state(unit, false)?;
    let Err(error) = session.units.change_state("start", unit) else { return Ok(None) };
    let said = process::tail(&systemd::journal(unit), 3);
    Ok(Some(if said.is_empty() { explain(&error) } else { said }))
}

/// Whether nobody used it.
fn unmount(target: &str) -> bool {
    process::call(&["umount", "--", target]).is_ok()
}

fn line(target: &str, wanted: &SiteMount) -> Result<String, ApplyError> {
    let words = [&wanted.source, &wanted.kind, &wanted.options];
    if let Some(word) = words
        .into_iter()
        .find(|w| w.is_empty() || w.contains(char::is_whitespace) || w.starts_with(['#', '-']))
    {
        return Err(ApplyError::Refused(format!("`{word}` cannot stand in the mount table")));
    }
    Ok(format!("{} {target} {} {} 0 0", wanted.source, wanted.kind, wanted.options))
}

/// As systemd names the unit of a mount point.
pub(crate) fn unit_of(target: &str, suffix: &str) -> String {
    let name: String = (target.trim_matches('/').chars().enumerate())
        .map(|(at, c)| match c {
            '/' => "-".to_owned(),
            '.' if at == 0 => "\\x2e".to_owned(),
            c if c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '.') => c.to_string(),
            // Paths of a cluster file have no others.
            c => format!("\\x{:02x}", u32::from(c)),
        })
        .collect();
    format!("{name}.{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> SiteMount {
        SiteMount {
            source: "filer:/scratch".into(),
            kind: "nfs".into(),
            options: "nofail,_netdev".into(),
            automount: false,
            required: false,
        }
    }

    #[test]
    fn units_have_systemds_names() {
        assert_eq!(unit_of("/var/lib/state", "mount"), "var-lib-state.mount");
        assert_eq!(unit_of("/scratch-1/.x", "automount"), "scratch\\x2d1-.x.automount");
        assert_eq!(unit_of("/.x", "mount"), "\\x2ex.mount");
    }

    #[test]
    fn a_line_has_six_words() {
        assert_eq!(line("/scratch", &scratch()).unwrap(), "filer:/scratch /scratch nfs nofail,_netdev 0 0");
        for source in ["a b", "", "#a"] {
            assert!(line("/scratch", &SiteMount { source: source.into(), ..scratch() }).is_err(), "{source}");
        }
    }

    #[test]
    fn only_what_is_required_is_an_error() {
        assert!(not_mounted("no route to host".into(), true).is_err());
        let verdict = not_mounted("no route to host".into(), false).unwrap();
        assert_eq!(
            (verdict.outcome, verdict.summary.as_str()),
            (Outcome::Skipped, "not mounted: no route to host")
        );
    }
}
