//! What Slurm allows and how much of it is in use: QOS, reservations and licences, in words.

use jiff::Timestamp;
use kiln_slurm::{QosLimit, Scope, SlurmRules};

use crate::describe::described;

described! {
    /// A limit of a QOS.
    pub struct QosRule {
        /// Whose jobs it counts: `all jobs together`, `each job`, `each user`, `user ann`.
        pub who: String,
        /// What it limits, as words.
        pub what: String,
        /// Slurm's name for it, `GrpTRES`.
        pub name: String,
        pub limit: String,
        /// How much of it is in use, where Slurm counts it.
        pub used: Option<String>,
        /// Nothing more is allowed.
        pub is_reached: bool,
    }
}

described! {
    /// A quality of service: a class of jobs with limits and a priority.
    pub struct QosUse {
        pub name: String,
        pub priority: u64,
        pub running: u64,
        /// Jobs that run or wait.
        pub submitted: u64,
        pub rules: Vec<QosRule>,
    }
}

described! {
    /// Nodes, cores or licences that are kept for some jobs for a time.
    pub struct ReservationUse {
        pub name: String,
        pub start: Option<Timestamp>,
        pub end: Option<Timestamp>,
        pub is_active: bool,
        /// What it means for jobs, as a sentence.
        pub text: String,
        pub nodes: String,
        pub cores: u64,
        pub partition: String,
        pub users: String,
        pub accounts: String,
        /// Slurm's words.
        pub flags: String,
    }
}

described! {
    /// Licences that jobs can ask for.
    pub struct LicenseCount {
        pub name: String,
        pub total: u64,
        pub used: u64,
        pub free: u64,
        pub reserved: u64,
        /// A server of licences tells how many there are.
        pub is_remote: bool,
    }
}

described! {
    /// What Slurm allows, and how much of it is in use.
    pub struct Allowances {
        pub qos: Vec<QosUse>,
        pub reservations: Vec<ReservationUse>,
        pub licenses: Vec<LicenseCount>,
        /// Why a part of it is not known.
        pub problems: Vec<String>,
    }
}

pub fn allowances(rules: &SlurmRules) -> Allowances {
    let qos = rules.qos.iter().map(|qos| QosUse {
        name: qos.name.clone(),
        priority: qos.priority,
        running: qos.running,
        submitted: qos.submitted,
        rules: qos.limits.iter().map(rule).collect(),
    });
    let licenses = rules.licenses.iter().map(|license| LicenseCount {
        name: license.name.clone(),
        total: license.total,
        used: license.used,
        free: license.free,
        reserved: license.reserved,
        is_remote: license.is_remote,
    });
    Allowances {
        qos: qos.collect(),
        reservations: rules.reservations.iter().map(reservation).collect(),
        licenses: licenses.collect(),
        problems: rules.problems.clone(),
    }
}

fn rule(limit: &QosLimit) -> QosRule {
    let who = match &limit.scope {
        Scope::Whole => "all jobs together".into(),
        Scope::Job => "each job".into(),
        Scope::EachUser => "each user".into(),
        Scope::User(name) => format!("user {name}"),
        Scope::EachAccount => "each account".into(),
        Scope::Account(name) => format!("account {name}"),
    };
    let is_least = limit.name.starts_with("Min");
    let number = |text: &str| text.trim_end_matches(['K', 'M', 'G', 'T']).parse::<f64>().ok();
    let used = limit.used.as_deref().and_then(number);
    let is_reached = !is_least && used.zip(number(&limit.limit)).is_some_and(|(used, limit)| used >= limit);
    QosRule {
        who,
        what: what(&limit.name, limit.resource.as_deref()),
        name: limit.name.clone(),
        limit: limit.limit.clone(),
        used: limit.used.clone(),
        is_reached,
    }
}

/// Slurm's names are put together from whose jobs count and what is counted.
fn what(name: &str, resource: Option<&str>) -> String {
    let thing = match resource {
        Some("cpu") => "cores".to_string(),
        Some("mem") => "memory (MB)".into(),
        Some("node") => "nodes".into(),
        Some("gres/gpu") => "GPUs".into(),
        Some(other) => other.into(),
        None => String::new(),
    };
    let inner = name.trim_start_matches("Grp").trim_start_matches("Max").trim_start_matches("Min");
    let least = if name.starts_with("Min") { "at least: " } else { "" };
    let words = match inner {
        "Jobs" | "JobsPU" | "JobsPA" => "jobs that run".to_string(),
        "SubmitJobs" | "SubmitJobsPU" | "SubmitJobsPA" | "SubmitPU" | "SubmitPA" => {
            "jobs that run or wait".into()
        }
        "JobsAccrue" | "JobsAccruePU" | "JobsAccruePA" => "waiting jobs whose priority grows".into(),
        "Wall" => "minutes of all jobs that have run".into(),
        "WallPJ" => "minutes that it may run".into(),
        "TRES" | "TRESPU" | "TRESPA" | "TRESPJ" => thing,
        "TRESPN" => format!("{thing} on a node"),
        "TRESMins" | "TRESMinsPJ" => format!("minutes of {thing}, used up over time"),
        "TRESRunMins" | "TRESRunMinsPU" | "TRESRunMinsPA" => {
            format!("minutes of {thing} that running jobs may still use")
        }
        other => format!("{other} {thing}").trim().to_string(),
    };
    format!("{least}{words}")
}

fn reservation(seen: &kiln_slurm::Reservation) -> ReservationUse {
    let flags: Vec<&str> = seen.flags.split(',').collect();
    let whom = match (seen.users.as_str(), seen.accounts.as_str()) {
        ("", "") => "nobody in particular".to_string(),
        (users, "") => format!("users {users}"),
        ("", accounts) => format!("accounts {accounts}"),
        (users, accounts) => format!("users {users} and accounts {accounts}"),
    };
    let is_active = seen.state == "ACTIVE";
    let text = match (flags.contains(&"MAINT"), is_active) {
        (true, true) => format!("Maintenance: other jobs do not run there. It is {whom}'s."),
        (true, false) => {
            format!("Maintenance for {whom}: jobs that would not end before it begins wait until it is over.")
        }
        (false, true) => format!("Kept for {whom}: only jobs with --reservation={} run there.", seen.name),
        (false, false) => {
            format!("Will be kept for {whom}: jobs that would not end before it begins start elsewhere.")
        }
    };
    ReservationUse {
        name: seen.name.clone(),
        start: seen.start,
        end: seen.end,
        is_active,
        text,
        nodes: seen.nodes.clone(),
        cores: seen.cores,
        partition: seen.partition.clone(),
        users: seen.users.clone(),
        accounts: seen.accounts.clone(),
        flags: seen.flags.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_words() {
        let limit = |scope, name: &str, resource: Option<&str>, limit: &str, used: Option<&str>| QosLimit {
            scope,
            name: name.into(),
            resource: resource.map(String::from),
            limit: limit.into(),
            used: used.map(String::from),
        };
        let seen = rule(&limit(Scope::Whole, "GrpTRES", Some("cpu"), "8", Some("8")));
        assert_eq!(
            (seen.who.as_str(), seen.what.as_str(), seen.is_reached),
            ("all jobs together", "cores", true)
        );
        let seen = rule(&limit(Scope::User("ann".into()), "MaxJobsPU", None, "4", Some("3")));
        assert_eq!(
            (seen.who.as_str(), seen.what.as_str(), seen.is_reached),
            ("user ann", "jobs that run", false)
        );
        assert_eq!(rule(&limit(Scope::Job, "MaxWallPJ", None, "60", None)).what, "minutes that it may run");
        let seen = rule(&limit(Scope::Job, "MinTRESPJ", Some("gres/gpu"), "1", None));
        assert_eq!((seen.what.as_str(), seen.is_reached), ("at least: GPUs", false));
        assert_eq!(rule(&limit(Scope::Job, "MaxNew", None, "1", None)).what, "New");
    }

    #[test]
    fn a_reservation_says_what_it_means() {
        let seen = |flags: &str, state: &str| {
            let seen = kiln_slurm::Reservation {
                name: "r".into(),
                users: "root".into(),
                flags: flags.into(),
                state: state.into(),
                ..kiln_slurm::Reservation::default()
            };
            reservation(&seen).text
        };
        assert!(seen("MAINT,SPEC_NODES", "INACTIVE").contains("wait until it is over"));
        assert!(seen("", "ACTIVE").contains("--reservation=r"));
    }
}
