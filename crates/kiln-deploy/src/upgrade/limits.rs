//! Users, accounts, limits and QOS: the same after the upgrade as before. `sacctmgr dump` and `load` carry all but the
//! definitions of QOS, which are made again one by one.

/// What is asked of a QOS, in this order. `sacctmgr` has the same words for showing and for setting.
pub const QOS_FIELDS: [&str; 25] = [
    "Name",
    "Priority",
    "GraceTime",
    "Preempt",
    "PreemptMode",
    "Flags",
    "UsageThreshold",
    "UsageFactor",
    "GrpTRES",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "GrpJobs",
    "GrpSubmitJobs",
    "GrpWall",
    "MaxTRESPerJob",
    "MaxTRESPerNode",
    "MaxTRESMinsPerJob",
    "MaxWallDurationPerJob",
    "MaxTRESPerUser",
    "MaxJobsPerUser",
    "MaxSubmitJobsPerUser",
    "MaxTRESPerAccount",
    "MaxJobsPerAccount",
    "MaxSubmitJobsPerAccount",
    "MinTRESPerJob",
];

/// What every QOS begins with.
const DEFAULTS: [(&str, &str); 4] =
    [("Priority", "0"), ("GraceTime", "00:00:00"), ("PreemptMode", "cluster"), ("UsageFactor", "1.000000")];

/// A QOS as it was, and what to set so that a new one is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qos {
    pub name: String,
    /// `Field=value`.
    pub settings: Vec<String>,
}

/// From the list of users and limits.
pub fn qos(list: &str) -> Vec<Qos> {
    list.lines().filter_map(|line| line.strip_prefix("qos: ")).map(parse_qos).collect()
}

fn parse_qos(line: &str) -> Qos {
    let mut fields = QOS_FIELDS.into_iter().zip(line.split('|'));
    let name = fields.next().map_or("", |(_, name)| name).to_string();
    let is_set = |(field, value): &(&str, &str)| !value.is_empty() && !DEFAULTS.contains(&(*field, *value));
    let setting = |(field, value): (&str, &str)| match field {
        "GraceTime" => format!("{field}={}", seconds(value)),
        _ => format!("{field}={value}"),
    };
    Qos { name, settings: fields.filter(is_set).map(setting).collect() }
}

/// `[days-]hours:minutes:seconds`, which is shown where seconds are to be set.
fn seconds(time: &str) -> u64 {
    let (days, rest) = time.split_once('-').unwrap_or(("0", time));
    let number = |digits: &str| digits.parse::<u64>().unwrap_or(0);
    number(days) * 86400 + rest.split(':').fold(0, |sum, part| sum * 60 + number(part))
}

/// The lines that were there before and are not there now. What has come in addition does not count: Kiln itself gives
/// an account to rebuild jobs.
pub fn lost<'a>(before: &'a str, after: &str) -> Vec<&'a str> {
    let now: std::collections::BTreeSet<&str> = after.lines().collect();
    before.lines().filter(|line| !now.contains(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qos_is_made_again_with_what_differs_from_a_new_one() {
        let empty = "|".repeat(13);
        let list = format!(
            "qos: normal|0|00:00:00||cluster|||1.000000|||||||||||||||||\n\
             qos: high|100|00:02:05|normal|requeue|DenyOnLimit||2.000000|cpu=8{empty}10|||4|\naccount: a|b|c\n"
        );
        let all = qos(&list);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].name.as_str(), all[0].settings.len()), ("normal", 0));
        assert_eq!(
            all[1].settings,
            [
                "Priority=100",
                "GraceTime=125",
                "Preempt=normal",
                "PreemptMode=requeue",
                "Flags=DenyOnLimit",
                "UsageFactor=2.000000",
                "GrpTRES=cpu=8",
                "MaxTRESPerAccount=10",
                "MinTRESPerJob=4",
            ]
        );
    }

    #[test]
    fn only_what_is_missing_counts() {
        let before = "account: a|a|x\nuser: ann|a|None|\n";
        assert_eq!(lost(before, "user: slurm|root|None|\nuser: ann|a|None|\naccount: a|a|x\n"), [""; 0]);
        assert_eq!(lost(before, "account: a|a|x\n"), ["user: ann|a|None|"]);
    }

    #[test]
    fn times_are_read() {
        assert_eq!(seconds("00:00:30"), 30);
        assert_eq!(seconds("1-00:01:00"), 86460);
    }
}
