//! Settings of an association or a QOS: names and values as `sacctmgr` takes and prints them.

use std::collections::{BTreeMap, BTreeSet};

use kiln_spec::slurm_limits::{ASSOCIATION_LIMITS, LimitKind, QOS_LIMITS, resources};

/// By name, only what is set, each in its canonical form.
pub type Settings = BTreeMap<String, String>;

/// How a setting is compared and unset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Limit(LimitKind),
    /// Names in any order.
    Set {
        unset: &'static str,
    },
    /// One word. `default`: what it is unless it is set.
    Word {
        default: &'static str,
    },
    /// Seconds, which are printed as a time.
    Seconds,
    /// Slurm turns it into lower case.
    Text,
}

const ASSOCIATION: &[(&str, Kind)] = &[
    ("Fairshare", Kind::Word { default: "1" }),
    ("QOS", Kind::Set { unset: "" }),
    ("DefaultQOS", Kind::Word { default: "" }),
];

const QOS: &[(&str, Kind)] = &[
    ("Priority", Kind::Word { default: "0" }),
    ("Flags", Kind::Set { unset: "-1" }),
    ("Preempt", Kind::Set { unset: "" }),
    ("PreemptMode", Kind::Word { default: "cluster" }),
    ("GraceTime", Kind::Seconds),
    ("UsageFactor", Kind::Word { default: "1.000000" }),
];

/// All settings of an association, in the order in which they are asked for.
pub fn of_association() -> impl Iterator<Item = (&'static str, Kind)> {
    with_limits(ASSOCIATION, ASSOCIATION_LIMITS)
}

/// All settings of a QOS. The description comes last: it may have any sign in it.
pub fn of_qos() -> impl Iterator<Item = (&'static str, Kind)> {
    with_limits(QOS, QOS_LIMITS).chain([("Description", Kind::Text)])
}

fn with_limits(
    own: &'static [(&'static str, Kind)],
    limits: &'static [(&'static str, LimitKind)],
) -> impl Iterator<Item = (&'static str, Kind)> {
    own.iter().copied().chain(limits.iter().map(|(name, kind)| (*name, Kind::Limit(*kind))))
}

impl Kind {
    /// As it is compared; `None`: it is not set.
    pub fn canonical(self, text: &str) -> Option<String> {
        let text = text.trim();
        match self {
            // A form that Kiln does not know is shown and set as it is.
            Kind::Limit(kind) if !text.is_empty() => {
                Some(kind.canonical(text).unwrap_or_else(|| text.to_string()))
            }
            Kind::Limit(_) => None,
            Kind::Set { .. } => {
                let names: BTreeSet<&str> =
                    text.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
                (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(","))
            }
            Kind::Word { default } => {
                let word = text.to_lowercase();
                (!word.is_empty() && word != default).then_some(word)
            }
            Kind::Seconds => seconds(text).filter(|seconds| *seconds > 0).map(|seconds| seconds.to_string()),
            Kind::Text => (!text.is_empty()).then(|| text.to_lowercase()),
        }
    }

    /// The words for `set` that lead from one value to another; none where they are the same, or where nothing can be unset.
    fn assignment(self, name: &str, from: Option<&str>, to: Option<&str>) -> Option<String> {
        if from == to {
            return None;
        }
        let value = match (self, to) {
            // Each resource is unset by itself.
            (Kind::Limit(LimitKind::Resources), to) => resource_changes(from, to),
            (_, Some(to)) => to.to_string(),
            (Kind::Limit(_) | Kind::Word { default: "" }, None) => "-1".to_string(),
            (Kind::Set { unset }, None) => unset.to_string(),
            (Kind::Word { default }, None) => default.to_string(),
            (Kind::Seconds, None) => "0".to_string(),
            (Kind::Text, None) => return None,
        };
        Some(format!("{name}={value}"))
    }
}

fn resource_changes(from: Option<&str>, to: Option<&str>) -> String {
    let read = |text: Option<&str>| text.and_then(resources).unwrap_or_default();
    let (from, to_set) = (read(from), read(to));
    let gone = from.iter().filter(|(name, _)| !to_set.iter().any(|(other, _)| other == name));
    let gone = gone.map(|(name, _)| format!("{name}=-1"));
    to.map(String::from).into_iter().chain(gone).collect::<Vec<_>>().join(",")
}

/// One difference: what to tell `sacctmgr`, and what to tell a person.
#[derive(Debug, PartialEq, Eq)]
pub struct Assignment {
    pub word: String,
    pub shown: String,
}

/// What leads from one to the other. What `to` does not set is unset.
pub fn assignments(
    kinds: impl Iterator<Item = (&'static str, Kind)>,
    from: &Settings,
    to: &Settings,
) -> Vec<Assignment> {
    let mut all = Vec::new();
    for (name, kind) in kinds {
        let (from, to) = (from.get(name).map(String::as_str), to.get(name).map(String::as_str));
        if let Some(word) = kind.assignment(name, from, to) {
            let shown = |value: Option<&str>| value.unwrap_or("none").to_string();
            all.push(Assignment { word, shown: format!("{name} {} -> {}", shown(from), shown(to)) });
        }
    }
    all
}

/// `[days-]hours:minutes:seconds`, or a plain number of seconds.
fn seconds(text: &str) -> Option<u64> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let clock = rest.split(':').try_fold(0u64, |sum, part| Some(sum * 60 + part.parse::<u64>().ok()?))?;
    Some(days.parse::<u64>().ok()? * 86_400 + clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn words(from: &[(&str, &str)], to: &[(&str, &str)]) -> String {
        let found = assignments(of_qos(), &settings(from), &settings(to));
        found.into_iter().map(|assignment| assignment.word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn values_are_compared_in_one_form() {
        let rows = [
            (Kind::Set { unset: "" }, "normal,long", Some("long,normal")),
            (Kind::Set { unset: "" }, "", None),
            (Kind::Word { default: "1" }, "1", None),
            (Kind::Word { default: "1" }, "parent", Some("parent")),
            (Kind::Word { default: "cluster" }, "REQUEUE", Some("requeue")),
            (Kind::Seconds, "1-01:00:00", Some("90000")),
            (Kind::Seconds, "00:00:00", None),
            (Kind::Seconds, "90", Some("90")),
            (Kind::Text, "Big Science", Some("big science")),
            (Kind::Limit(LimitKind::Time), "90", Some("01:30:00")),
            (Kind::Limit(LimitKind::Count), "", None),
            (Kind::Limit(LimitKind::Resources), "cpu=odd", Some("cpu=odd")),
        ];
        for (kind, text, expected) in rows {
            assert_eq!(kind.canonical(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_wanted_is_unset_each_in_its_way() {
        let set = [
            ("Flags", "DenyOnLimit"),
            ("GraceTime", "90"),
            ("MaxJobsPerUser", "4"),
            ("MaxTRESPerUser", "cpu=8,mem=4G"),
            ("MaxWallDurationPerJob", "01:00:00"),
            ("Preempt", "low"),
            ("PreemptMode", "requeue"),
            ("Priority", "10"),
            ("UsageFactor", "2.000000"),
        ];
        assert_eq!(
            words(&set, &[]),
            "Priority=0 Flags=-1 Preempt= PreemptMode=cluster GraceTime=0 UsageFactor=1.000000 \
             MaxJobsPerUser=-1 MaxTRESPerUser=cpu=-1,mem=-1 MaxWallDurationPerJob=-1"
        );
        assert_eq!(words(&set, &set), "");
    }

    #[test]
    fn resources_that_are_no_longer_limited_are_named() {
        let (from, to) = ([("GrpTRES", "cpu=8,mem=4G,node=2")], [("GrpTRES", "cpu=9")]);
        assert_eq!(words(&from, &to), "GrpTRES=cpu=9,mem=-1,node=-1");
        assert_eq!(words(&to, &from), "GrpTRES=cpu=8,mem=4G,node=2");
        let shown = assignments(of_qos(), &settings(&from), &settings(&to)).remove(0).shown;
        assert_eq!(shown, "GrpTRES cpu=8,mem=4G,node=2 -> cpu=9");
    }
}
