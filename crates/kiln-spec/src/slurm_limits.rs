//! The limits of Slurm's associations and QOS: their names, and their values in the one form in which two of them can be compared. The cluster
//! file is read with it, and so is what `sacctmgr` shows: Slurm prints `mem=4096` as `mem=4G` and `90` as `01:30:00`.

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    Count,
    /// `cpu=8,mem=4G`.
    Resources,
    /// Whole minutes, written as Slurm writes times.
    Time,
}

use LimitKind::{Count, Resources, Time};

/// Limits of an account, or of a member of it.
pub const ASSOCIATION_LIMITS: &[(&str, LimitKind)] = &[
    ("GrpJobs", Count),
    ("GrpJobsAccrue", Count),
    ("GrpSubmitJobs", Count),
    ("GrpTRES", Resources),
    ("GrpTRESMins", Resources),
    ("GrpTRESRunMins", Resources),
    ("GrpWall", Time),
    ("MaxJobs", Count),
    ("MaxJobsAccrue", Count),
    ("MaxSubmitJobs", Count),
    ("MaxTRESMinsPerJob", Resources),
    ("MaxTRESPerJob", Resources),
    ("MaxTRESPerNode", Resources),
    ("MaxWallDurationPerJob", Time),
    ("MinPrioThresh", Count),
    ("Priority", Count),
];

pub const QOS_LIMITS: &[(&str, LimitKind)] = &[
    ("GrpJobs", Count),
    ("GrpJobsAccrue", Count),
    ("GrpSubmitJobs", Count),
    ("GrpTRES", Resources),
    ("GrpTRESMins", Resources),
    ("GrpTRESRunMins", Resources),
    ("GrpWall", Time),
    ("MaxJobsAccruePerAccount", Count),
    ("MaxJobsAccruePerUser", Count),
    ("MaxJobsPerAccount", Count),
    ("MaxJobsPerUser", Count),
    ("MaxSubmitJobsPerAccount", Count),
    ("MaxSubmitJobsPerUser", Count),
    ("MaxTRESMinsPerJob", Resources),
    ("MaxTRESPerAccount", Resources),
    ("MaxTRESPerJob", Resources),
    ("MaxTRESPerNode", Resources),
    ("MaxTRESPerUser", Resources),
    ("MaxTRESRunMinsPA", Resources),
    ("MaxTRESRunMinsPU", Resources),
    ("MaxWallDurationPerJob", Time),
    ("MinPrioThresh", Count),
    ("MinTRESPerJob", Resources),
];

/// Flags of a QOS that every release since 22.05 has.
pub const QOS_FLAGS: &[&str] = &[
    "DenyOnLimit",
    "EnforceUsageThreshold",
    "NoDecay",
    "NoReserve",
    "OverPartQOS",
    "PartitionMaxNodes",
    "PartitionMinNodes",
    "PartitionTimeLimit",
    "RequiresReservation",
    "UsageFactorSafe",
];

impl LimitKind {
    /// The one form of a value; `None` if it is not a value of this kind.
    pub fn canonical(self, text: &str) -> Option<String> {
        let text = text.trim();
        match self {
            Count => count(text).map(|number| number.to_string()),
            Resources => Some(join(&resources(text)?)),
            Time => minutes(text).map(shown_minutes),
        }
    }

    /// What is right, for a message.
    pub fn expected(self) -> &'static str {
        match self {
            Count => "a whole number; leave the limit out to have none",
            Resources => "resources such as \"cpu=64,mem=256G,node=4\"; leave one out to have no limit",
            Time => {
                "MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS:MINUTES:SECONDS; leave the limit out to have none"
            }
        }
    }
}

/// Slurm keeps such numbers in 32 bits, and uses the highest for "none".
fn count(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| plain && *number < u32::MAX - 2)
}

/// The resources of a value by name, each with its amount. Memory is in MiB.
pub fn resources(text: &str) -> Option<Vec<(String, u64)>> {
    let mut all: Vec<(String, u64)> = Vec::new();
    for part in text.split(',') {
        let (name, amount) = part.split_once('=')?;
        let name = name.trim().to_ascii_lowercase();
        if !is_resource(&name) || all.iter().any(|(other, _)| *other == name) {
            return None;
        }
        all.push((name.clone(), amount_of(&name, amount.trim())?));
    }
    all.sort();
    Some(all)
}

/// `cpu`, `gres/gpu`, `gres/gpu:a100`, `license/matlab`.
fn is_resource(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | ':' | '_' | '-' | '.' | '@'))
}

/// Slurm has these in MiB.
fn is_memory(name: &str) -> bool {
    matches!(name, "mem" | "vmem") || name.starts_with("bb/")
}

const UNITS: [(char, u32); 5] = [('M', 0), ('G', 10), ('T', 20), ('P', 30), ('E', 40)];

fn amount_of(name: &str, text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    if unit.is_empty() {
        return Some(number);
    }
    let mut letters = unit.chars();
    let letter = letters.next()?.to_ascii_uppercase();
    let rest = letters.as_str();
    let (_, shift) = UNITS.iter().find(|(unit, _)| *unit == letter)?;
    let right = is_memory(name) && (rest.is_empty() || rest.eq_ignore_ascii_case("b"));
    right.then(|| number.checked_mul(1 << shift)).flatten()
}

fn join(resources: &[(String, u64)]) -> String {
    let shown = |(name, amount): &(String, u64)| {
        let amount = if is_memory(name) { shown_memory(*amount) } else { amount.to_string() };
        format!("{name}={amount}")
    };
    resources.iter().map(shown).collect::<Vec<_>>().join(",")
}

/// In the largest unit that it is a whole number of.
fn shown_memory(mib: u64) -> String {
    let whole = |(_, shift): &&(char, u32)| mib != 0 && mib.is_multiple_of(1 << shift);
    match UNITS.iter().rev().find(whole) {
        Some((unit, shift)) => format!("{}{unit}", mib >> shift),
        None => format!("{mib}M"),
    }
}

/// Slurm rounds seconds up to whole minutes.
fn minutes(text: &str) -> Option<u64> {
    if !crate::units::is_slurm_time(text) {
        return None;
    }
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days), clock),
        None => (None, text),
    };
    let fields: Vec<u64> = clock.split(':').map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let seconds = match (days, fields.as_slice()) {
        (None, [minutes]) => minutes.checked_mul(60)?,
        (None, [minutes, seconds]) => minutes.checked_mul(60)?.checked_add(*seconds)?,
        // With days the first field is hours.
        (_, clock) => {
            let mut hms = clock.iter().chain(&[0, 0]).take(3);
            hms.try_fold(0u64, |sum, field| sum.checked_mul(60)?.checked_add(*field))?
        }
    };
    let days: u64 = days.unwrap_or("0").parse().ok()?;
    let minutes = days.checked_mul(1440)?.checked_add(seconds.div_ceil(60))?;
    (minutes < u64::from(u32::MAX - 2)).then_some(minutes)
}

fn shown_minutes(minutes: u64) -> String {
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:00"),
        days => format!("{days}-{hours:02}:{minutes:02}:00"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_prints_is_what_was_set() {
        let rows = [
            (Count, "007", Some("7")),
            (Count, "-1", None),
            (Count, "4294967295", None),
            (Count, "+7", None),
            (Count, "", None),
            (Resources, "mem=4096,cpu=8", Some("cpu=8,mem=4G")),
            (Resources, "cpu=102400, mem=5000M", Some("cpu=102400,mem=5000M")),
            (Resources, "mem=2T", Some("mem=2T")),
            (Resources, "gres/gpu=2,GRES/gpu:a100=1", Some("gres/gpu=2,gres/gpu:a100=1")),
            (Resources, "mem=0", Some("mem=0M")),
            (Resources, "cpu=8,cpu=9", None),
            (Resources, "cpu=-1", None),
            (Resources, "cpu=8G", None),
            (Resources, "cpu", None),
            (Resources, "", None),
            (Resources, "mem=1.5G", None),
            (Time, "90", Some("01:30:00")),
            (Time, "90:00", Some("01:30:00")),
            (Time, "90:01", Some("01:31:00")),
            (Time, "1-0", Some("1-00:00:00")),
            (Time, "1-12:30", Some("1-12:30:00")),
            (Time, "36:30:00", Some("1-12:30:00")),
            (Time, "UNLIMITED", None),
            (Time, "99999999-99999999:99999999", None),
        ];
        for (kind, text, expected) in rows {
            let canonical = kind.canonical(text);
            assert_eq!(canonical.as_deref(), expected, "{text}");
            if let Some(canonical) = canonical {
                assert_eq!(kind.canonical(&canonical), Some(canonical), "the form is its own");
            }
        }
    }

    #[test]
    fn each_name_once_and_in_order() {
        let sorted = |names: Vec<&str>| names.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(sorted(ASSOCIATION_LIMITS.iter().map(|(name, _)| *name).collect()));
        assert!(sorted(QOS_LIMITS.iter().map(|(name, _)| *name).collect()));
        assert!(sorted(QOS_FLAGS.to_vec()));
    }
}
