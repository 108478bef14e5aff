//! Answers whether the node's services work: units are looked at, questions are asked, all at the same time.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::Duration;

use kiln_wire::Version;
use kiln_wire::certificate::certificate_end;
use kiln_wire::checkup::{
    CertificateFile, CertificateReport, Checkup, CheckupReport, Place, Question, ServiceCheck,
    ServiceProblem, ServiceReport, UnitReport,
};

use crate::process::{self, Output};
use crate::systemd::{self, UnitState};

/// What takes longer does not work for users either.
const LIMIT: Duration = Duration::from_secs(10);
/// Of the journal of a unit whose service does not work.
const JOURNAL_LINES: usize = 10;
const LONGEST_LINE: usize = 300;

pub fn checkup(asked: &Checkup) -> CheckupReport {
    let (problems, services) = look_at(&asked.services);
    CheckupReport {
        format: Version,
        slurm: slurm(),
        problems,
        places: places(&asked.places),
        services,
        certificates: asked.certificates.iter().map(certificate).collect(),
        // Last: it is compared with the clock of whoever reads the answer.
        time: jiff::Timestamp::now(),
    }
}

pub(crate) fn service_problems(services: &[ServiceCheck]) -> Vec<ServiceProblem> {
    look_at(services).0
}

fn look_at(services: &[ServiceCheck]) -> (Vec<ServiceProblem>, Vec<ServiceReport>) {
    let mut units: Vec<String> = services.iter().flat_map(|s| s.units.iter().cloned()).collect();
    units.retain(|unit| systemd::is_valid_unit(unit));
    // Without any, systemd would tell of itself.
    let states = if units.is_empty() { Ok(HashMap::new()) } else { systemd::show(&units) };
    match states {
        Ok(states) => {
            let problems = problems(services, &states);
            let reports = reports(services, &states, &problems);
            (problems, reports)
        }
        Err(error) => {
            let text = crate::explain(&error);
            (vec![ServiceProblem { service: "systemd".into(), text }], Vec::new())
        }
    }
}

fn reports(
    services: &[ServiceCheck],
    states: &HashMap<String, UnitState>,
    problems: &[ServiceProblem],
) -> Vec<ServiceReport> {
    let report = |service: &ServiceCheck| {
        let is_wrong = problems.iter().any(|problem| problem.service == service.service);
        let unit = |unit: &String| Some(unit_report(unit, states.get(unit)?, is_wrong));
        ServiceReport {
            service: service.service.clone(),
            units: service.units.iter().filter_map(unit).collect(),
        }
    };
    services.iter().map(report).collect()
}

fn unit_report(unit: &str, state: &UnitState, is_wrong: bool) -> UnitReport {
    let journal = if is_wrong && state.exists() { systemd::journal(unit) } else { String::new() };
    let lines: Vec<&str> = journal.lines().collect();
    let last = lines[lines.len().saturating_sub(JOURNAL_LINES)..].iter();
    UnitReport {
        unit: unit.to_owned(),
        state: format!("{} ({})", state.active, state.sub),
        since: since(state.changed),
        journal: last.map(|line| line.chars().take(LONGEST_LINE).collect()).collect(),
    }
}

/// From the clock that runs since the boot to the time of day.
fn since(changed: u64) -> Option<jiff::Timestamp> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
    let passed = now.checked_sub(Duration::from_micros(changed)).filter(|_| changed > 0)?;
    jiff::Timestamp::now().checked_sub(passed).ok()
}

fn certificate(asked: &CertificateFile) -> CertificateReport {
    let text = std::fs::read_to_string(&asked.path).ok();
    CertificateReport { name: asked.name.clone(), ends: text.and_then(|text| certificate_end(&text)) }
}

fn problems(services: &[ServiceCheck], states: &HashMap<String, UnitState>) -> Vec<ServiceProblem> {
    thread::scope(|scope| {
        let started: Vec<_> =
            services.iter().map(|service| scope.spawn(|| examine(service, states))).collect();
        let all = services.iter().zip(started).flat_map(|(service, thread)| {
            let texts = thread.join().unwrap_or_else(|_| vec!["could not be asked".into()]);
            texts.into_iter().map(|text| ServiceProblem { service: service.service.clone(), text })
        });
        all.collect()
    })
}

/// A daemon that does not run cannot answer: that it does not run says all.
fn examine(service: &ServiceCheck, states: &HashMap<String, UnitState>) -> Vec<String> {
    let state = |unit: &String| states.get(unit).cloned().unwrap_or_default();
    let stopped: Vec<String> = (service.units.iter())
        .map(|unit| (unit, state(unit)))
        .filter(|(_, state)| !state.is_running())
        .map(|(unit, state)| match state.active.as_str() {
            _ if !state.exists() => format!("{unit} is not installed"),
            "" => format!("{unit} is unknown"),
            word => format!("{unit} is {word}"),
        })
        .collect();
    if !stopped.is_empty() {
        return stopped;
    }
    service.questions.iter().filter_map(ask).collect()
}

/// What is wrong, with the last words of the command.
fn ask(question: &Question) -> Option<String> {
    let said = match process::run(&question.command, None, LIMIT) {
        Ok(output) if output.success() && output.stdout.contains(&question.shows) => return None,
        Ok(output) => last_words(&output),
        Err(error) => crate::explain(&error),
    };
    let said = if said.is_empty() { said } else { format!(" ({said})") };
    Some(format!("{}{said}", question.otherwise))
}

pub(crate) fn last_words(output: &Output) -> String {
    [&output.stderr, &output.stdout]
        .map(|text| process::tail(text, 1))
        .into_iter()
        .find(|l| !l.is_empty())
        .unwrap_or_default()
}

fn slurm() -> Option<String> {
    let output = process::run(&["scontrol", "--version"], None, LIMIT).ok()?;
    output.success().then(|| output.stdout.trim().to_string())
}

/// Several directories may be on one file system.
fn places(paths: &[String]) -> Vec<Place> {
    let mut seen = BTreeSet::new();
    let mut places = Vec::new();
    for path in paths {
        let Ok(metadata) = std::fs::metadata(path) else { continue };
        if !seen.insert(metadata.dev()) {
            continue;
        }
        places.extend(place(path));
    }
    places
}

pub(crate) fn place(path: &str) -> Option<Place> {
    let room = rustix::fs::statvfs(path).ok()?;
    Some(Place {
        path: path.to_owned(),
        bytes: room.f_blocks * room.f_frsize,
        free_bytes: room.f_bavail * room.f_frsize,
        files: room.f_files,
        free_files: room.f_favail,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(units: &[&str], questions: &[Question]) -> ServiceCheck {
        ServiceCheck {
            service: "x".into(),
            units: units.iter().map(ToString::to_string).collect(),
            questions: questions.to_vec(),
        }
    }

    fn states() -> HashMap<String, UnitState> {
        let state = |active: &str| UnitState { active: active.into(), ..UnitState::default() };
        HashMap::from([("up.service".to_string(), state("active")), ("down.service".into(), state("failed"))])
    }

    #[test]
    fn a_service_whose_units_run_is_asked() {
        let ask = |question: Question| examine(&service(&["up.service"], &[question]), &states());
        assert_eq!(ask(Question::new("no answer", &["true"])), [""; 0]);
        let failing = ["sh", "-c", "echo much; echo down >&2; exit 1"];
        assert_eq!(ask(Question::new("no answer", &failing)), ["no answer (down)"]);
        assert_eq!(ask(Question::new("no answer", &["false"])), ["no answer"]);
        assert_eq!(ask(Question::new("no x", &["echo", "a x b"]).shows("x ")), [""; 0]);
        assert_eq!(ask(Question::new("no x", &["echo", "a b"]).shows("x")), ["no x (a b)"]);
        let missing = ask(Question::new("no answer", &["/no/such"]));
        assert!(missing[0].starts_with("no answer (cannot run `/no/such`"), "{missing:?}");
    }

    #[test]
    fn a_service_whose_unit_is_down_is_not_asked() {
        let asked = service(&["up.service", "down.service"], &[Question::new("no answer", &["false"])]);
        assert_eq!(examine(&asked, &states()), ["down.service is failed"]);
    }

    #[test]
    fn every_service_is_told_with_the_state_of_its_units() {
        let services =
            [service(&["up.service"], &[]), ServiceCheck { service: "y".into(), ..service(&[], &[]) }];
        let problem = ServiceProblem { service: "y".into(), text: "no answer".into() };
        let mut states = states();
        states.insert(
            "up.service".into(),
            UnitState { active: "active".into(), sub: "running".into(), changed: 1, ..UnitState::default() },
        );
        let reports = reports(&services, &states, &[problem]);
        assert_eq!(reports.len(), 2);
        let unit = &reports[0].units[0];
        assert_eq!((unit.state.as_str(), unit.journal.len()), ("active (running)", 0));
        assert!(unit.since.is_some_and(|since| since < jiff::Timestamp::now()));
        assert_eq!((since(0), since(u64::MAX)), (None, None));
    }

    #[test]
    fn a_certificate_that_cannot_be_read_has_no_end() {
        let asked = CertificateFile { name: "rest".into(), path: "/no/such".into() };
        assert_eq!(certificate(&asked), CertificateReport { name: "rest".into(), ends: None });
    }

    #[test]
    fn a_file_system_is_told_of_once() {
        let places = places(&["/".into(), "/".into(), "/no/such".into()]);
        assert_eq!(places.len(), 1);
        assert!(places[0].bytes >= places[0].free_bytes && places[0].bytes > 0, "{places:?}");
    }
}
