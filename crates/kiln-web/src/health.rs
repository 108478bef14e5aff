//! From what control and login nodes report of themselves to what is shown of them.

use std::time::Duration;

use jiff::Timestamp;
use kiln_wire::checkup::{CertificateReport, CheckupReport, ServiceReport};

use crate::view::{Certificate, Disk, Finding, HealthNode, HealthService, HealthUnit, Severity};

/// A report that is older is of the past. Nodes make one every minute.
pub const STALE: Duration = Duration::from_secs(180);
/// A clock that is farther off is told of, in seconds.
const CLOCK_OFF: i64 = 5;

/// What is known of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The newest there is.
    pub report: Option<CheckupReport>,
    /// Why there is no newer one.
    pub problem: Option<String>,
    /// Since when there is none.
    pub silent_since: Option<Timestamp>,
    /// How many seconds its clock is ahead of control's.
    pub clock_ahead: Option<i64>,
}

pub fn health_node(name: &str, role: &str, known: &Known, now: Timestamp) -> HealthNode {
    let report = known.report.as_ref();
    let reported = report.map(|report| report.time);
    let is_old = |at: Timestamp| now.duration_since(at).unsigned_abs() > STALE;
    HealthNode {
        name: name.into(),
        role: role.into(),
        reported,
        is_stale: reported.or(known.silent_since).is_some_and(is_old),
        problem: known.problem.clone(),
        clock_ahead: known.clock_ahead,
        services: report.map(services).unwrap_or_default(),
        disks: report.map(disks).unwrap_or_default(),
        certificates: report.map(|report| certificates(report, now)).unwrap_or_default(),
    }
}

fn services(report: &CheckupReport) -> Vec<HealthService> {
    let problems = |name: &str| -> Vec<String> {
        let of_it = report.problems.iter().filter(|problem| problem.service == name);
        of_it.map(|problem| problem.text.clone()).collect()
    };
    let service = |service: &ServiceReport| HealthService {
        name: service.service.clone(),
        problems: problems(&service.service),
        units: (service.units.iter())
            .map(|unit| HealthUnit {
                name: unit.unit.clone(),
                state: unit.state.clone(),
                since: unit.since,
                journal: unit.journal.clone(),
            })
            .collect(),
    };
    let mut all: Vec<HealthService> = report.services.iter().map(service).collect();
    // Without an answer of systemd there is nothing but that.
    let unnamed = report.problems.iter().filter(|p| !report.services.iter().any(|s| s.service == p.service));
    all.extend(unnamed.map(|problem| HealthService {
        name: problem.service.clone(),
        problems: vec![problem.text.clone()],
        units: Vec::new(),
    }));
    all.sort_by_key(|service| service.problems.is_empty());
    all
}

fn disks(report: &CheckupReport) -> Vec<Disk> {
    let disk = |place: &kiln_wire::checkup::Place| Disk {
        path: place.path.clone(),
        bytes: place.bytes,
        free_bytes: place.free_bytes,
        files: place.files,
        free_files: place.free_files,
        is_nearly_full: place.is_nearly_full(),
        is_full: place.is_full(),
    };
    report.places.iter().map(disk).collect()
}

fn certificates(report: &CheckupReport, now: Timestamp) -> Vec<Certificate> {
    let one = |certificate: &CertificateReport| Certificate {
        name: certificate.name.clone(),
        ends: certificate.ends,
        ends_soon: certificate.ends.is_none_or(|at| at.duration_since(now) < CertificateReport::SOON),
    };
    report.certificates.iter().map(one).collect()
}

/// What is wrong there. Of a node that is silent only that it is: what it said before may be over.
pub fn health_findings(node: &HealthNode) -> Vec<Finding> {
    let found = |severity, text: String, next: &str, since: Option<Timestamp>| Finding {
        severity,
        subject: node.name.clone(),
        text,
        next: next.into(),
        due: None,
        since,
    };
    if node.is_stale {
        let why = node.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
        let text = format!("it has not reported on its services for a while{why}");
        let next = "Kiln does nothing about it by itself. `kiln doctor` asks it again.";
        return vec![found(Severity::Broken, text, next, node.reported)];
    }
    let mut all = Vec::new();
    for service in &node.services {
        let down = service.units.iter().find(|unit| !unit.state.starts_with("active"));
        let since = down.and_then(|unit| unit.since);
        all.extend(service.problems.iter().map(|problem| {
            let text = format!("{}: {problem}", service.name);
            found(Severity::Broken, text, "`kiln configure` starts what is stopped.", since)
        }));
    }
    for disk in node.disks.iter().filter(|disk| disk.is_nearly_full) {
        let severity = if disk.is_full { Severity::Broken } else { Severity::Warning };
        let text = format!("the file system of {} is nearly full", disk.path);
        all.push(found(severity, text, "Somebody has to make room there.", None));
    }
    for certificate in node.certificates.iter().filter(|certificate| certificate.ends_soon) {
        let (severity, text) = match certificate.ends {
            None => (Severity::Broken, "cannot be read".to_string()),
            Some(at) => (Severity::Warning, format!("ends at {}", at.strftime("%Y-%m-%d %H:%M UTC"))),
        };
        let text = format!("the certificate of {} {text}", certificate.name);
        all.push(found(severity, text, "`kiln configure` renews those of the cluster.", None));
    }
    if let Some(ahead) = node.clock_ahead.filter(|ahead| ahead.abs() > CLOCK_OFF) {
        let word = if ahead < 0 { "behind" } else { "ahead of" };
        let text = format!("its clock is {} s {word} control's", ahead.abs());
        let next = format!(
            "Kiln does nothing about it by itself. `kiln ssh {} chronyc sources` shows its time servers.",
            node.name
        );
        all.push(found(Severity::Warning, text, &next, None));
    }
    all
}

#[cfg(test)]
mod tests {
    use kiln_wire::Version;
    use kiln_wire::checkup::{Place, ServiceProblem, UnitReport};

    use super::*;

    fn known(now: Timestamp) -> Known {
        let service = |name: &str, state: &str| ServiceReport {
            service: name.into(),
            units: vec![UnitReport {
                unit: format!("{name}.service"),
                state: state.into(),
                since: Some(now),
                journal: Vec::new(),
            }],
        };
        let report = CheckupReport {
            format: Version,
            time: now,
            slurm: None,
            problems: vec![ServiceProblem {
                service: "munge".into(),
                text: "munge.service is failed".into(),
            }],
            places: vec![Place { path: "/".into(), bytes: 100, free_bytes: 0, files: 0, free_files: 0 }],
            services: vec![service("sshd", "active (running)"), service("munge", "failed (failed)")],
            certificates: vec![CertificateReport {
                name: "rest".into(),
                ends: Some(now + Duration::from_secs(60)),
            }],
        };
        Known { report: Some(report), clock_ahead: Some(-9), ..Known::default() }
    }

    #[test]
    fn what_is_wrong_is_first_and_found() {
        let now = Timestamp::UNIX_EPOCH;
        let node = health_node("login-0", "login", &known(now), now);
        assert_eq!(node.services.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["munge", "sshd"]);
        let texts: Vec<String> = health_findings(&node).into_iter().map(|finding| finding.text).collect();
        assert_eq!(
            texts,
            [
                "munge: munge.service is failed",
                "the file system of / is nearly full",
                "the certificate of rest ends at 1970-01-01 00:01 UTC",
                "its clock is 9 s behind control's",
            ]
        );
    }

    #[test]
    fn an_old_report_is_told_as_old_and_no_more() {
        let now = Timestamp::UNIX_EPOCH + STALE + Duration::from_secs(1);
        let mut known = known(Timestamp::UNIX_EPOCH);
        known.problem = Some("no answer".into());
        let node = health_node("login-0", "login", &known, now);
        assert!(node.is_stale && node.services.len() == 2);
        let findings = health_findings(&node);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].text, "it has not reported on its services for a while: no answer");
        // One that has never reported is given the same time.
        let silent =
            |since| health_node("x", "login", &Known { silent_since: Some(since), ..Known::default() }, now);
        assert!(silent(Timestamp::UNIX_EPOCH).is_stale && !silent(now).is_stale);
    }
}
