//! Services: enabled or not, running or not, restarted or reloaded after changes.

use std::collections::BTreeSet;

use kiln_wire::Outcome;
use kiln_wire::bundle::Service;

use super::ApplyError;
use super::session::Session;
use crate::process::ProcessError;
use crate::systemd::{self, UnitState};
use crate::verdict::Verdict;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Unmask,
    Enable,
    Disable,
    ResetFailed,
    Start,
    Stop,
    Restart,
    Reload,
}

pub(super) fn apply(session: &mut Session, service: &Service, id: &str) -> Result<Verdict, ApplyError> {
    if !systemd::is_valid_unit(&service.unit) {
        return Err(ApplyError::Refused("not a name of a unit".into()));
    }
    let state = session.units.state(&service.unit, session.dry_run)?;
    if !state.exists() && (service.enabled || service.running) {
        // In a dry run the unit may be one that the bundle is about to write.
        return if session.dry_run {
            Ok(Verdict::changed("would set up a unit that does not exist yet"))
        } else {
            Err(ApplyError::Refused("there is no such unit".into()))
        };
    }
    let steps = plan(&state, service, &session.owed(id));
    if steps.is_empty() {
        return Ok(Verdict::unchanged());
    }
    let summary =
        steps.iter().filter(|step| **step != Step::ResetFailed).map(|step| step.past()).collect::<Vec<_>>();
    let summary = summary.join(", ");
    if session.dry_run {
        return Ok(Verdict::changed(summary));
    }
    let mut queued = false;
    for step in &steps {
        queued |= perform(session, *step, &service.unit)
            .map_err(|error| with_journal(&error.into(), &service.unit))?;
    }
    if queued {
        return Ok(Verdict::changed(format!(
            "{summary} (queued until the node's boot configuration is done)"
        )));
    }
    verify(session, service, &steps, summary)
}

fn plan(state: &UnitState, service: &Service, owed: &BTreeSet<String>) -> Vec<Step> {
    let mut steps = Vec::new();
    let masked = state.file.starts_with("masked");
    // Other states, such as `static`, can be neither enabled nor disabled.
    if service.enabled && (masked || matches!(state.file.as_str(), "disabled" | "linked" | "linked-runtime"))
    {
        if masked {
            steps.push(Step::Unmask);
        }
        steps.push(Step::Enable);
    } else if !service.enabled && state.file.starts_with("enabled") {
        steps.push(Step::Disable);
    }
    if masked && service.running && !service.enabled {
        steps.push(Step::Unmask);
    }

    let called_for = |causes: &[String]| causes.iter().any(|cause| owed.contains(cause));
    match (service.running, state.is_running()) {
        (true, false) => {
            // systemd refuses to start a unit that failed too often until its failure is reset.
            if state.active == "failed" {
                steps.push(Step::ResetFailed);
            }
            steps.push(Step::Start);
        }
        (true, true) if called_for(&service.restart_on) => steps.push(Step::Restart),
        (true, true) if called_for(&service.reload_on) => steps.push(Step::Reload),
        (false, _) if state.is_running() || state.active == "activating" => steps.push(Step::Stop),
        _ => {}
    }
    steps
}

impl Step {
    fn past(self) -> &'static str {
        match self {
            Step::Unmask => "unmasked",
            Step::Enable => "enabled",
            Step::Disable => "disabled",
            Step::ResetFailed => "failure reset",
            Step::Start => "started",
            Step::Stop => "stopped",
            Step::Restart => "restarted",
            Step::Reload => "reloaded",
        }
    }
}

fn perform(session: &mut Session, step: Step, unit: &str) -> Result<bool, ProcessError> {
    let units = &mut session.units;
    match step {
        Step::Unmask => units.change_file("unmask", unit).map(|()| false),
        Step::Enable => units.change_file("enable", unit).map(|()| false),
        Step::Disable => units.change_file("disable", unit).map(|()| false),
        Step::ResetFailed => units.change_state("reset-failed", unit),
        Step::Start => units.change_state("start", unit),
        Step::Stop => units.change_state("stop", unit),
        Step::Restart => units.change_state("restart", unit),
        Step::Reload => units.change_state("reload-or-restart", unit),
    }
}

/// A start that systemd called a success is believed when the unit is seen running.
fn verify(
    session: &mut Session,
    service: &Service,
    steps: &[Step],
    summary: String,
) -> Result<Verdict, ApplyError> {
    if !steps.iter().any(|step| matches!(step, Step::Start | Step::Stop | Step::Restart | Step::Reload)) {
        return Ok(Verdict::changed(summary));
    }
    session.units.forget();
    let unit = &service.unit;
    let state = session.units.state(unit, false)?;
    if !service.running {
        return Ok(Verdict::changed(summary));
    }
    // The unit says that it is to be tried again, as slurmd is while slurmctld is away; whether it comes up is
    // Slurm's to tell.
    if state.active == "activating" {
        return Ok(Verdict::changed(format!("{summary}; it exited, and systemd restarts it")));
    }
    if state.active == "failed" {
        let error = ApplyError::Refused(format!("{summary}, then found {}", state.active));
        return Err(with_journal(&error, unit));
    }
    if state.active == "inactive" && state.condition_failed {
        let outcome = if steps.iter().all(|step| matches!(step, Step::Start)) {
            Outcome::Unchanged
        } else {
            Outcome::Changed
        };
        return Ok(Verdict::new(outcome, "not running: the conditions of its unit are not met"));
    }
    Ok(Verdict::changed(summary))
}

fn with_journal(error: &ApplyError, unit: &str) -> ApplyError {
    let journal = systemd::journal(unit);
    let text = crate::explain(error);
    ApplyError::Refused(if journal.is_empty() { text } else { format!("{text}\n{journal}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(enabled: bool, running: bool) -> Service {
        Service {
            unit: "x.service".into(),
            enabled,
            running,
            restart_on: vec!["file:/a".into()],
            reload_on: vec!["file:/b".into()],
            needs: Vec::new(),
        }
    }

    /// State of the unit file, state of the unit, what is wanted, changes to answer, steps.
    type Case<'a> = (&'a str, &'a str, &'a Service, &'a [&'a str], &'a [Step]);

    #[test]
    fn plans() {
        use Step::{Disable, Enable, Reload, ResetFailed, Restart, Start, Stop, Unmask};
        let (on, off) = (service(true, true), service(false, false));
        let cases: &[Case] = &[
            ("enabled", "active", &on, &[], &[]),
            ("static", "active", &on, &[], &[]),
            ("disabled", "inactive", &on, &[], &[Enable, Start]),
            ("masked", "inactive", &on, &[], &[Unmask, Enable, Start]),
            ("enabled", "failed", &on, &[], &[ResetFailed, Start]),
            ("enabled", "activating", &on, &[], &[Start]),
            ("enabled", "active", &on, &["file:/a", "file:/b"], &[Restart]),
            ("enabled", "active", &on, &["file:/b"], &[Reload]),
            ("enabled", "inactive", &on, &["file:/a"], &[Start]),
            ("enabled", "active", &off, &["file:/a"], &[Disable, Stop]),
            ("disabled", "failed", &off, &[], &[]),
            ("masked", "inactive", &off, &[], &[]),
            ("", "inactive", &off, &[], &[]),
        ];
        for (file, active, service, owed, expected) in cases {
            let state = UnitState { file: (*file).into(), active: (*active).into(), ..UnitState::default() };
            let owed = owed.iter().map(|&id| id.to_owned()).collect();
            assert_eq!(plan(&state, service, &owed), *expected, "{file} {active} {owed:?}");
        }
    }
}
