//! Talking to systemd through `systemctl`: states are asked for in one batch, and asked again only after
//! something was done that may have changed them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::process::{self, ProcessError};

/// The unit that runs `kiln node boot`. Units ordered after it cannot be waited for while it runs.
pub(crate) const BOOT_UNIT: &str = "kiln-node.service";
/// Reached only after every unit they want, the boot unit among them.
const LATE_TARGETS: [&str; 3] = ["multi-user.target", "graphical.target", "default.target"];
const PROPERTIES: &str = "Id,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload,ConditionResult,After,\
                          StateChangeTimestampMonotonic";
const LIMIT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnitState {
    pub load: String,
    pub active: String,
    /// What `active` is in detail: `running`, `exited`, `waiting`.
    pub sub: String,
    /// When it came into this state, in microseconds of the clock that runs since the boot. 0: it has never changed.
    pub changed: u64,
    pub file: String,
    pub needs_reload: bool,
    pub condition_failed: bool,
    pub after: Vec<String>,
}

impl UnitState {
    pub fn exists(&self) -> bool {
        self.load != "not-found"
    }

    pub fn is_running(&self) -> bool {
        matches!(self.active.as_str(), "active" | "reloading" | "refreshing")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Units {
    names: Vec<String>,
    states: HashMap<String, UnitState>,
    /// Unit files changed: reload before the next unit is touched.
    reload_first: bool,
    /// Units were enabled: systemd's own view of that is refreshed once, before the last unit of the bundle.
    reload_last: bool,
    /// Units of the bundle that are to be enabled, whatever becomes of the rest of it.
    enabled: Vec<String>,
    /// Those that were disabled, and are enabled already.
    enabled_ahead: BTreeSet<String>,
    queued: BTreeSet<String>,
}

/// Where there is a unit file, systemctl makes the links itself. Asked to do so, systemd would call for a reload of all units from
/// then on, once for each unit. An init script of the same name is left alone: the program that enables it calls for one as well.
fn file_change<'a>(verb: &'a str, unit: &'a str, has_file: bool) -> Vec<&'a str> {
    if has_file { offline(verb, &[unit]) } else { vec!["systemctl", "--no-reload", verb, unit] }
}

fn offline<'a>(verb: &'a str, units: &[&'a str]) -> Vec<&'a str> {
    let alone = ["env", "SYSTEMD_OFFLINE=1", "SYSTEMCTL_SKIP_SYSV=1", "systemctl", "--no-reload", verb];
    [&alone[..], units].concat()
}

/// Those that can be enabled as they are: not masked, say. There is a line for each unit, if systemctl knows all of them.
fn disabled<'a>(units: &[&'a str], said: &str) -> Vec<&'a str> {
    let lines: Vec<&str> = said.lines().collect();
    if lines.len() != units.len() {
        return Vec::new();
    }
    units.iter().zip(lines).filter(|(_, line)| *line == "disabled").map(|(unit, _)| *unit).collect()
}

fn has_unit_file(unit: &str) -> bool {
    let folders = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
    folders.iter().any(|folder| std::path::Path::new(folder).join(unit).is_file())
}

impl Units {
    /// Of these units, the second ones are to be enabled.
    pub fn new(names: Vec<String>, enabled: Vec<String>) -> Self {
        Units { names, enabled, ..Units::default() }
    }

    /// States are stale: something ran that may have started or stopped units.
    pub fn forget(&mut self) {
        self.states.clear();
    }

    pub fn unit_files_changed(&mut self) {
        self.reload_first = true;
        self.forget();
    }

    pub fn state(&mut self, unit: &str, dry_run: bool) -> Result<UnitState, ProcessError> {
        // Not behind the last one, which is slurmd on a compute node: should systemd reload while slurmd asks it for the scope of
        // its jobs, that scope fails, and slurmd with it.
        let is_last = self.names.last().is_some_and(|last| last == unit);
        if self.reload_first && !dry_run {
            self.enable_ahead()?;
        }
        if (self.reload_first || self.reload_last && is_last) && !dry_run {
            self.reload()?;
        }
        if self.states.is_empty() {
            self.query()?;
            if !dry_run && self.states.values().any(|state| state.needs_reload) {
                self.reload()?;
                self.query()?;
            }
        }
        let mut state = self.states.get(unit).cloned().unwrap_or_default();
        if self.enabled_ahead.contains(unit) {
            // As it was found.
            state.file = "disabled".into();
        }
        Ok(state)
    }

    /// Before systemd reads changed unit files: it then sees these links as well, and need not read all of it once more.
    fn enable_ahead(&mut self) -> Result<(), ProcessError> {
        let units = std::mem::take(&mut self.enabled);
        let units: Vec<&str> = units.iter().map(String::as_str).filter(|unit| has_unit_file(unit)).collect();
        if units.is_empty() {
            return Ok(());
        }
        // It fails when one of them is not enabled.
        let said = process::run(&offline("is-enabled", &units), None, LIMIT)?.stdout;
        let disabled = disabled(&units, &said);
        if !disabled.is_empty() {
            process::call(&offline("enable", &disabled))?;
            self.enabled_ahead = disabled.into_iter().map(str::to_owned).collect();
        }
        Ok(())
    }

    /// Whatever its unit file may say by now.
    pub fn is_running(&self, unit: &str) -> Result<bool, ProcessError> {
        if let Some(state) = self.states.get(unit) {
            return Ok(state.is_running());
        }
        Ok(show(&[unit.to_owned()])?.get(unit).is_some_and(UnitState::is_running))
    }

    fn query(&mut self) -> Result<(), ProcessError> {
        let mut units = self.names.clone();
        units.push(BOOT_UNIT.to_owned());
        self.states = show(&units)?;
        Ok(())
    }

    fn reload(&mut self) -> Result<(), ProcessError> {
        process::call(&["systemctl", "daemon-reload"])?;
        self.reload_first = false;
        self.reload_last = false;
        self.forget();
        Ok(())
    }

    pub fn finish(&mut self) -> Result<(), ProcessError> {
        if self.reload_first || self.reload_last { self.reload() } else { Ok(()) }
    }

    /// `enable`, `disable`, `mask`, `unmask`.
    pub fn change_file(&mut self, verb: &str, unit: &str) -> Result<(), ProcessError> {
        if verb == "enable" && self.enabled_ahead.remove(unit) {
            return Ok(());
        }
        process::call(&file_change(verb, unit, has_unit_file(unit)))?;
        self.reload_last = true;
        // It may be started next, which systemd refuses until it has read the unit.
        if verb == "unmask" { self.reload() } else { Ok(()) }
    }

    /// `start`, `restart` and the like, waiting for the end of the job. Returns whether it was only queued.
    pub fn change_state(&mut self, verb: &str, unit: &str) -> Result<bool, ProcessError> {
        let queue = verb != "reset-failed" && self.must_queue(unit);
        let mut argv = vec!["systemctl", verb, unit];
        if queue {
            argv.insert(1, "--no-block");
            self.queued.insert(unit.to_owned());
        }
        process::run(&argv, None, LIMIT)?.checked()?;
        Ok(queue)
    }

    /// Waiting for a unit that systemd holds back until the boot unit has ended would wait for ourselves.
    fn must_queue(&self, unit: &str) -> bool {
        let booting = self.states.get(BOOT_UNIT).is_some_and(|state| state.active == "activating");
        booting
            && self.states.get(unit).is_some_and(|state| {
                state.after.iter().any(|other| {
                    other == BOOT_UNIT
                        || LATE_TARGETS.contains(&other.as_str())
                        || self.queued.contains(other)
                })
            })
    }
}

pub(crate) fn show(units: &[String]) -> Result<HashMap<String, UnitState>, ProcessError> {
    let mut argv = vec!["systemctl", "show", "--property", PROPERTIES, "--"];
    argv.extend(units.iter().map(String::as_str));
    let output = process::call(&argv)?;
    Ok(parse(&output.stdout, units))
}

/// The blocks come in the order of the question; `Id` differs from it for an alias.
fn parse(text: &str, units: &[String]) -> HashMap<String, UnitState> {
    let blocks = text.split("\n\n").map(|block| {
        let mut state = UnitState::default();
        for (key, value) in block.lines().filter_map(|line| line.split_once('=')) {
            match key {
                "LoadState" => value.clone_into(&mut state.load),
                "ActiveState" => value.clone_into(&mut state.active),
                "SubState" => value.clone_into(&mut state.sub),
                "StateChangeTimestampMonotonic" => state.changed = value.parse().unwrap_or_default(),
                "UnitFileState" => value.clone_into(&mut state.file),
                "NeedDaemonReload" => state.needs_reload = value == "yes",
                "ConditionResult" => state.condition_failed = value == "no",
                "After" => state.after = value.split_whitespace().map(str::to_owned).collect(),
                _ => {}
            }
        }
        state
    });
    units.iter().cloned().zip(blocks).collect()
}

/// The last lines of a unit's journal, for a report on why it failed.
pub(crate) fn journal(unit: &str) -> String {
    let argv = ["journalctl", "--no-pager", "--quiet", "--lines=20", "--output=short-iso", "--unit", unit];
    process::call(&argv).map(|output| process::tail(&output.stdout, 20)).unwrap_or_default()
}

/// No option and no glob: safe to hand to systemctl.
pub(crate) fn is_valid_unit(unit: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":_.\\@-".contains(&byte);
    !unit.starts_with(['-', '.']) && unit.contains('.') && unit.len() < 256 && unit.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_scripts_are_left_alone_where_there_is_a_unit_file() {
        let alone = ["env", "SYSTEMD_OFFLINE=1", "SYSTEMCTL_SKIP_SYSV=1", "systemctl", "--no-reload"];
        assert_eq!(
            file_change("enable", "munge.service", true),
            [&alone[..], &["enable", "munge.service"]].concat()
        );
        assert_eq!(
            file_change("enable", "old.service", false),
            ["systemctl", "--no-reload", "enable", "old.service"]
        );
    }

    #[test]
    fn what_is_disabled_is_enabled_ahead() {
        let units = ["munge.service", "kilnd.service", "ssh.service", "chrony.service"];
        assert_eq!(disabled(&units, "enabled\ndisabled\nmasked\ndisabled\n"), [units[1], units[3]]);
        assert!(disabled(&units, "enabled\ndisabled\n").is_empty(), "whose lines are these?");

        // It is told as what it was, once.
        let mut ahead = Units { enabled_ahead: BTreeSet::from(["kilnd.service".into()]), ..Units::default() };
        ahead
            .states
            .insert("kilnd.service".into(), UnitState { file: "enabled".into(), ..UnitState::default() });
        assert_eq!(ahead.state("kilnd.service", false).unwrap().file, "disabled");
        ahead.change_file("enable", "kilnd.service").unwrap();
        assert_eq!(ahead.state("kilnd.service", false).unwrap().file, "enabled");
        assert!(!ahead.reload_last);
    }

    #[test]
    fn blocks_answer_in_the_order_asked() {
        let text = "Id=ssh.service\nAfter=network.target sysinit.target\nLoadState=loaded\nActiveState=active\n\
            UnitFileState=enabled\nNeedDaemonReload=no\nConditionResult=yes\n\nId=no.service\nLoadState=not-found\n\
            ActiveState=inactive\nUnitFileState=\nNeedDaemonReload=no\nConditionResult=no\n";
        let states = parse(text, &["sshd.service".into(), "no.service".into()]);
        assert!(states["sshd.service"].is_running());
        assert_eq!(states["sshd.service"].after.len(), 2);
        assert!(!states["no.service"].exists());
        assert!(states["no.service"].condition_failed);
    }

    #[test]
    fn units_behind_the_boot_unit_are_queued_while_it_runs() {
        let unit = |active: &str, after: &[&str]| UnitState {
            active: active.into(),
            after: after.iter().map(|&name| name.to_owned()).collect(),
            ..UnitState::default()
        };
        let mut units = Units::default();
        units.states.insert("slurmd.service".into(), unit("inactive", &[BOOT_UNIT]));
        units.states.insert("munge.service".into(), unit("inactive", &["network.target"]));
        units.states.insert(BOOT_UNIT.into(), unit("activating", &[]));
        assert!(units.must_queue("slurmd.service"));
        assert!(!units.must_queue("munge.service"));
        units.states.insert(BOOT_UNIT.into(), unit("active", &[]));
        assert!(!units.must_queue("slurmd.service"));
    }

    #[test]
    fn unit_names() {
        assert!(is_valid_unit("getty@tty1.service"));
        for bad in ["--now", "a b.service", "*.service", "slurmd", "../x.service"] {
            assert!(!is_valid_unit(bad), "{bad}");
        }
    }
}
