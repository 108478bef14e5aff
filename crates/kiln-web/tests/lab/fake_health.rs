//! What the nodes of the cluster that is not there report, and what it has used.

use std::time::Duration;

use jiff::Timestamp;
use kiln_web::health::{Known, health_node};
use kiln_web::view::{GroupUsage, Health, QueueLength, UsageReport, Used};
use kiln_wire::Version;
use kiln_wire::checkup::{
    CertificateReport, CheckupReport, Place, ServiceProblem, ServiceReport, UnitReport,
};

const DAY: Duration = Duration::from_secs(86_400);
const CONTROL: [(&str, &str); 12] = [
    ("time", "chrony.service"),
    ("nfs server", "nfs-server.service"),
    ("munge", "munge.service"),
    ("directory server", "dirsrv@kiln.service"),
    ("sshd", "ssh.service"),
    ("accounting", "mariadb.service"),
    ("slurmctld", "slurmctld.service"),
    ("rest", "slurmrestd.service"),
    ("kilnd", "kilnd.service"),
    ("backup", "kiln-backup.timer"),
    ("prometheus", "prometheus.service"),
    ("alertmanager", "prometheus-alertmanager.service"),
];
const LOGIN: [(&str, &str); 4] = [
    ("munge", "munge.service"),
    ("syslog", "rsyslog.service"),
    ("sshd", "ssh.service"),
    ("report", "kiln-report.socket"),
];

/// `broken`: a service of control that does not run.
pub fn health(broken: Option<&str>, at: Timestamp) -> Health {
    let login = Known { clock_ahead: Some(0), ..known(&LOGIN, None, at) };
    // It has not been heard of since.
    let old = Known {
        problem: Some("it does not hand out its report: Connection refused".into()),
        ..known(&LOGIN, None, at - Duration::from_secs(1500))
    };
    let nodes = vec![
        health_node("control", "control", &known(&CONTROL, broken, at), at),
        health_node("login-0", "login", &login, at),
        health_node("login-1", "login", &old, at),
    ];
    Health { nodes }
}

fn known(services: &[(&str, &str)], broken: Option<&str>, at: Timestamp) -> Known {
    let report = |(name, unit): &(&str, &str)| {
        let is_broken = broken == Some(*name);
        let journal = [
            "slurmdbd: error: mysql_query failed: 2013 Lost connection",
            "slurmctld: fatal: cannot open state",
        ];
        let journal = if is_broken { journal.map(String::from).into() } else { Vec::new() };
        let (state, since) = if is_broken {
            ("failed (failed)", at - Duration::from_secs(240))
        } else {
            ("active (running)", at - DAY * 3)
        };
        let unit = UnitReport { unit: (*unit).into(), state: state.into(), since: Some(since), journal };
        ServiceReport { service: (*name).into(), units: vec![unit] }
    };
    let problem = |(name, unit): &&(&str, &str)| {
        (broken == Some(*name))
            .then(|| ServiceProblem { service: (*name).into(), text: format!("{unit} is failed") })
    };
    let gib = |path: &str, all: u64, free: u64| Place {
        path: path.into(),
        bytes: all << 30,
        free_bytes: free << 30,
        files: 0,
        free_files: 0,
    };
    let certificate =
        |name: &str, days: u32| CertificateReport { name: name.into(), ends: Some(at + DAY * days) };
    let is_control = services.len() == CONTROL.len();
    let places = if is_control {
        vec![gib("/", 40, 22), gib("/var/lib/state", 100, 61), gib("/home", 2000, 140)]
    } else {
        vec![gib("/", 40, 3)]
    };
    let certificates = vec![certificate("Slurm's REST API", 300), certificate("the directory", 11)];
    Known {
        report: Some(CheckupReport {
            format: Version,
            time: at - Duration::from_secs(20),
            slurm: Some("slurm-wlm 24.11.5".into()),
            problems: services.iter().filter_map(|service| problem(&service)).collect(),
            places,
            services: services.iter().map(report).collect(),
            certificates: if is_control { certificates } else { Vec::new() },
        }),
        ..Known::default()
    }
}

pub fn usage(at: Timestamp) -> UsageReport {
    let used = |hours: u64| Used { seconds: hours * 3600, cost_millionths: Some(hours * 250_000) };
    let group = |name: &str, day: u64| GroupUsage {
        group: name.into(),
        day: used(day),
        week: used(day * 6),
        month: used(day * 22),
    };
    let queue = (0..288_u64).map(|number| QueueLength {
        time: at - Duration::from_secs((288 - number) * 300),
        running: 50 + usize::try_from((number % 96).min(96 - number % 96)).unwrap_or(0),
        waiting: 40 - usize::try_from((number % 144).abs_diff(72) / 2).unwrap_or(0),
    });
    UsageReport { queue: queue.collect(), usage: vec![group("burst", 96), group("standard", 2592)] }
}
