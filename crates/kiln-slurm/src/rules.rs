//! What Slurm allows, and how much of it is in use: QOS as `scontrol show assoc_mgr` and `sacctmgr` have them, reservations, licences.

use jiff::Timestamp;

use crate::node::moment;
use crate::oneliner::field;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct License {
    pub name: String,
    pub total: u64,
    pub used: u64,
    pub free: u64,
    /// For reservations.
    pub reserved: u64,
    /// A server of licences tells how many there are.
    pub is_remote: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reservation {
    pub name: String,
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    /// A hostlist.
    pub nodes: String,
    pub cores: u64,
    pub partition: String,
    pub users: String,
    pub accounts: String,
    pub licenses: String,
    /// `MAINT,SPEC_NODES`.
    pub flags: String,
    /// `ACTIVE` or `INACTIVE`.
    pub state: String,
}

/// Whose jobs a limit counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All jobs of the QOS together.
    Whole,
    /// Each job.
    Job,
    EachUser,
    User(String),
    EachAccount,
    Account(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosLimit {
    pub scope: Scope,
    /// Slurm's name: `GrpTRES`, `MaxJobsPU`.
    pub name: String,
    /// Of a limit on resources: `cpu`, `gres/gpu`.
    pub resource: Option<String>,
    pub limit: String,
    /// How much is in use, where Slurm counts it.
    pub used: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Qos {
    pub name: String,
    pub priority: u64,
    /// Jobs that run, and jobs that run or wait.
    pub running: u64,
    pub submitted: u64,
    pub limits: Vec<QosLimit>,
}

/// All of it, with why a part of it is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlurmRules {
    pub qos: Vec<Qos>,
    pub reservations: Vec<Reservation>,
    pub licenses: Vec<License>,
    pub problems: Vec<String>,
}

fn text(line: &str, key: &str) -> String {
    field(line, key).filter(|value| *value != "(null)").unwrap_or_default().into()
}

fn number(line: &str, key: &str) -> u64 {
    field(line, key).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Reads lines of `scontrol show licenses --oneliner`.
pub fn licenses(lines: &str) -> Vec<License> {
    let named = lines.lines().filter_map(|line| Some((line, field(line, "LicenseName")?)));
    named
        .map(|(line, name)| License {
            name: name.into(),
            total: number(line, "Total"),
            used: number(line, "Used"),
            free: number(line, "Free"),
            reserved: number(line, "Reserved"),
            is_remote: field(line, "Remote") == Some("yes"),
        })
        .collect()
}

/// Reads lines of `scontrol show reservation --oneliner`.
pub fn reservations(lines: &str) -> Vec<Reservation> {
    let named = lines.lines().filter_map(|line| Some((line, field(line, "ReservationName")?)));
    named
        .map(|(line, name)| Reservation {
            name: name.into(),
            start: field(line, "StartTime").and_then(moment),
            end: field(line, "EndTime").and_then(moment),
            nodes: text(line, "Nodes"),
            cores: number(line, "CoreCnt"),
            partition: text(line, "PartitionName"),
            users: text(line, "Users"),
            accounts: text(line, "Accounts"),
            licenses: text(line, "Licenses"),
            flags: text(line, "Flags"),
            state: text(line, "State"),
        })
        .collect()
}

/// Reads lines of `scontrol --oneliner show assoc_mgr flags=qos`.
pub fn qos(lines: &str) -> Vec<Qos> {
    lines.lines().filter_map(one_qos).collect()
}

/// Keys that are no limits, or count what nobody limits.
const PASSED_OVER: [&str; 5] = ["UsageRaw", "MinPrioThresh", "PreemptMode", "Flags", "ParentAccount"];

fn one_qos(line: &str) -> Option<Qos> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?.strip_prefix("QOS=")?;
    let mut qos = Qos { name: without_number(name).into(), ..Qos::default() };
    let mut is_users = false;
    let mut who = None;
    for word in words {
        match word {
            "Account" => is_users = false,
            "User" => is_users = true,
            _ => {}
        }
        // `demo(2001)={MaxJobsPU=4(0)` begins what holds for one user.
        let word = match word.split_once("={") {
            Some((name, rest)) => {
                let name = without_number(name).to_string();
                who = Some(if is_users { Scope::User(name) } else { Scope::Account(name) });
                rest
            }
            None => word,
        };
        let Some((key, value)) = word.trim_end_matches('}').split_once('=') else { continue };
        match key {
            "Priority" => qos.priority = value.parse().unwrap_or(0),
            "GrpJobs" => qos.running = used(value).parse().unwrap_or(0),
            "GrpSubmitJobs" => qos.submitted = used(value).parse().unwrap_or(0),
            _ => {}
        }
        if PASSED_OVER.contains(&key) || key == "Priority" || key.ends_with("Limits") {
            continue;
        }
        let scope = match &who {
            Some(who) => who.clone(),
            None if key.starts_with("Grp") => Scope::Whole,
            None => Scope::Job,
        };
        qos.limits.extend(limits(&scope, key, value));
    }
    Some(qos)
}

/// `normal(1)`: a name, and Slurm's number for it.
fn without_number(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}

/// `8(3)`: a limit, and how much of it is in use.
fn used(value: &str) -> &str {
    value.split_once('(').map_or("", |(_, used)| used.trim_end_matches(')'))
}

/// Those that are set: of one number, or of a list of resources.
fn limits(scope: &Scope, key: &str, value: &str) -> Vec<QosLimit> {
    let one = |resource: Option<&str>, value: &str| {
        let limit = value.split('(').next().unwrap_or_default();
        let is_set = !limit.is_empty() && limit != "N" && limit != "NONE";
        is_set.then(|| QosLimit {
            scope: scope.clone(),
            name: key.into(),
            resource: resource.map(String::from),
            limit: limit.into(),
            used: Some(used(value)).filter(|used| !used.is_empty()).map(String::from),
        })
    };
    let entries = value.split(',');
    entries
        .filter_map(|entry| match entry.split_once('=') {
            Some((resource, value)) => one(Some(resource), value),
            None => one(None, entry),
        })
        .collect()
}

/// What `sacctmgr` is asked: limits that hold for each user or account, which slurmctld tells only of those that have jobs.
pub(crate) const EACH: [(&str, bool); 6] = [
    ("MaxJobsPU", true),
    ("MaxSubmitPU", true),
    ("MaxTRESPU", true),
    ("MaxJobsPA", false),
    ("MaxSubmitPA", false),
    ("MaxTRESPA", false),
];

/// Adds what `sacctmgr` has answered, in columns of a name and [`EACH`].
pub fn add_each(qos: &mut [Qos], lines: &str) {
    for line in lines.lines() {
        let mut values = line.split('|');
        let name = values.next().unwrap_or_default();
        let Some(qos) = qos.iter_mut().find(|qos| qos.name == name) else { continue };
        for ((key, is_users), value) in EACH.iter().zip(values) {
            let scope = if *is_users { Scope::EachUser } else { Scope::EachAccount };
            qos.limits.extend(limits(&scope, key, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_their_use_are_read() {
        for (release, text) in [
            ("24.11", include_str!("captured/24.11-qos.txt")),
            ("22.05", include_str!("captured/22.05-qos.txt")),
        ] {
            let mut all = qos(text);
            add_each(&mut all, "normal||||||\nshort|4|||||cpu=4\nother|1|||||\n");
            let [normal, short] = &all[..] else { panic!("{release}: {all:?}") };
            assert_eq!(
                (normal.name.as_str(), normal.running, normal.submitted),
                ("normal", 3, 21),
                "{release}"
            );
            assert_eq!(normal.limits, [], "{release}");
            let seen: Vec<_> = short
                .limits
                .iter()
                .map(|l| {
                    (&l.scope, l.name.as_str(), l.resource.as_deref(), l.limit.as_str(), l.used.as_deref())
                })
                .collect();
            // Up to 22.05 users are numbers.
            let demo = Scope::User(if release == "22.05" { "2001".into() } else { "demo".into() });
            assert_eq!(
                seen,
                [
                    (&Scope::Whole, "GrpTRES", Some("cpu"), "8", Some("0")),
                    (&Scope::Job, "MaxWallPJ", None, "60", None),
                    (&demo, "MaxJobsPU", None, "4", Some("0")),
                    (&Scope::EachUser, "MaxJobsPU", None, "4", None),
                    (&Scope::EachAccount, "MaxTRESPA", Some("cpu"), "4", None),
                ],
                "{release}"
            );
        }
        assert_eq!(qos("No Association Manager records"), []);
    }

    #[test]
    fn reservations_and_licences_are_read() {
        for (release, reserved, licensed) in [
            (
                "24.11",
                include_str!("captured/24.11-reservations.txt"),
                include_str!("captured/24.11-licenses.txt"),
            ),
            (
                "22.05",
                include_str!("captured/22.05-reservations.txt"),
                include_str!("captured/22.05-licenses.txt"),
            ),
        ] {
            let [upkeep, class] = &reservations(reserved)[..] else { panic!("{release}") };
            assert_eq!((upkeep.nodes.as_str(), upkeep.users.as_str()), ("extra-1", "root"), "{release}");
            assert_eq!(
                (upkeep.flags.as_str(), upkeep.state.as_str()),
                ("MAINT,SPEC_NODES", "INACTIVE"),
                "{release}"
            );
            assert!(upkeep.start < upkeep.end && upkeep.partition.is_empty(), "{release}");
            assert_eq!((class.cores, class.state.as_str()), (1, "ACTIVE"), "{release}");
            let seen = licenses(licensed);
            let matlab = seen.iter().find(|license| license.name == "matlab").unwrap();
            assert_eq!((matlab.total, matlab.free, matlab.is_remote), (4, 4, false), "{release}");
        }
        assert_eq!(reservations("No reservations in the system"), []);
        assert_eq!(licenses("No licenses configured in Slurm."), []);
    }
}
