//! Slurm's releases: how versions are read, and everything that differs between them. A new release of Slurm is one
//! entry in [`RULES`].

use std::fmt;
use std::str::FromStr;

/// `22.05.8`; ordered by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    pub year: u16,
    pub month: u16,
    pub patch: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a Slurm version such as 22.05.8")]
pub struct ParseReleaseError(String);

/// Which program slurmctld calls for a job with `--reboot`, where power saving is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootHook {
    ResumeProgram,
    RebootProgram,
}

/// What holds for one major release and, until the next entry, for those after it.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// Year and month.
    major: (u16, u16),
    /// How many major releases back its daemons talk to, and convert state and databases from.
    reach: usize,
    /// The first patch in which `sbatch --reboot` works without a `--constraint`. Before, nodes wait and nothing runs.
    reboot_works_from: u16,
    reboot_hook: RebootHook,
    /// `--reboot` is skipped if a node of the job is `State=CLOUD`.
    reboot_skips_cloud: bool,
    /// `scontrol power up|down`; before, only `scontrol update nodename=... state=POWER_UP|POWER_DOWN`.
    power_command: bool,
    /// `scontrol --json`.
    scontrol_json: bool,
    /// `CredType` is a parameter; later, credentials follow `AuthType`.
    cred_type: bool,
    /// `CgroupPlugin=disabled`; before, a plugin must be named even where nothing uses it.
    cgroups_can_be_disabled: bool,
}

/// As it began; each later entry says what changed with it.
const V20_11: Rules = Rules {
    major: (20, 11),
    reach: 2,
    reboot_works_from: 0,
    reboot_hook: RebootHook::ResumeProgram,
    reboot_skips_cloud: false,
    power_command: false,
    scontrol_json: false,
    cred_type: true,
    cgroups_can_be_disabled: false,
};
const V21_08: Rules = Rules { major: (21, 8), ..V20_11 };
const V22_05: Rules = Rules { major: (22, 5), ..V21_08 };
const V23_02: Rules =
    Rules { major: (23, 2), reboot_works_from: 9, reboot_skips_cloud: true, scontrol_json: true, ..V22_05 };
const V23_11: Rules = Rules { major: (23, 11), reboot_works_from: 5, cred_type: false, ..V23_02 };
const V24_05: Rules = Rules {
    major: (24, 5),
    reboot_works_from: 0,
    power_command: true,
    cgroups_can_be_disabled: true,
    ..V23_11
};
const V24_11: Rules = Rules { major: (24, 11), reach: 3, ..V24_05 };
const V25_05: Rules = Rules { major: (25, 5), ..V24_11 };
const V25_11: Rules = Rules { major: (25, 11), ..V25_05 };
const V26_05: Rules = Rules { major: (26, 5), reboot_hook: RebootHook::RebootProgram, ..V25_11 };

/// Slurm's major releases, oldest first, without a gap.
const RULES: [Rules; 10] = [V20_11, V21_08, V22_05, V23_02, V23_11, V24_05, V24_11, V25_05, V25_11, V26_05];

impl Release {
    pub const fn new(year: u16, month: u16, patch: u16) -> Self {
        Release { year, month, patch }
    }

    fn major(self) -> (u16, u16) {
        (self.year, self.month)
    }

    /// Both read what the other has written.
    pub fn has_major_of(self, other: Release) -> bool {
        self.major() == other.major()
    }

    /// A release that is too new for the table is taken for the newest, one that is too old for the oldest.
    fn rules(self) -> &'static Rules {
        let newer = RULES.partition_point(|rules| rules.major <= self.major());
        &RULES[newer.saturating_sub(1)]
    }

    /// Where the release stands among the major ones; `None` if Kiln does not know it.
    fn position(self) -> Option<usize> {
        RULES.iter().position(|rules| rules.major == self.major())
    }

    /// Whether a daemon of this release understands one of the other, which must not be newer: slurmdbd a slurmctld,
    /// slurmctld a slurmd or a command. Nothing is promised for a major release that Kiln does not know.
    pub fn can_serve(self, other: Release) -> bool {
        self.reaches(other)
    }

    /// Whether this release converts what the other has written: the database, slurmctld's state, slurmd's spool.
    /// There is no way back. Nothing is promised for a major release that Kiln does not know.
    pub fn can_convert(self, other: Release) -> bool {
        self.reaches(other)
    }

    fn reaches(self, other: Release) -> bool {
        if self.major() == other.major() {
            return true;
        }
        let (Some(this), Some(other)) = (self.position(), other.position()) else { return false };
        this.checked_sub(other).is_some_and(|back| back <= self.rules().reach)
    }

    /// The newest major release, such as `23.11`, that converts what this one has written.
    pub fn newest_that_converts(self) -> Option<String> {
        let major = |rules: &Rules| Release::new(rules.major.0, rules.major.1, 0);
        let newest = RULES.iter().map(major).rfind(|newer| newer.can_convert(self))?;
        Some(format!("{:02}.{:02}", newest.year, newest.month))
    }

    /// What `slurmctld -V` and its like print: `slurm-wlm 22.05.8`, `slurm 24.11.5`.
    pub fn from_version_line(text: &str) -> Result<Release, ParseReleaseError> {
        text.split_whitespace().last().unwrap_or_default().parse()
    }

    /// Whether daemons of these releases make up a working cluster: slurmdbd is the newest, slurmd the oldest.
    pub fn can_run_together(slurmdbd: Release, slurmctld: Release, slurmd: Release) -> bool {
        slurmdbd.can_serve(slurmctld) && slurmctld.can_serve(slurmd)
    }

    /// A job with `sbatch --reboot` has its nodes rebooted, also without a `--constraint`.
    fn reboots_for_jobs(self) -> bool {
        self.patch >= self.rules().reboot_works_from
    }

    /// The feature that nodes are to have, and jobs with `--reboot` to ask for, where these need some `--constraint`.
    pub fn reboot_constraint(self) -> Option<&'static str> {
        (!self.reboots_for_jobs()).then_some("kiln")
    }

    pub fn reboot_hook(self) -> RebootHook {
        self.rules().reboot_hook
    }

    /// `--reboot` does nothing if a node of the job is powered up and down by Slurm.
    pub fn skips_reboot_of_cloud_nodes(self) -> bool {
        self.rules().reboot_skips_cloud
    }

    pub fn has_power_command(self) -> bool {
        self.rules().power_command
    }

    pub fn has_scontrol_json(self) -> bool {
        self.rules().scontrol_json
    }

    pub fn has_cred_type(self) -> bool {
        self.rules().cred_type
    }

    pub fn can_disable_cgroups(self) -> bool {
        self.rules().cgroups_can_be_disabled
    }
}

impl FromStr for Release {
    type Err = ParseReleaseError;

    /// Accepts a plain version and a Debian package version: `22.05.8-4+deb12u3`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseReleaseError(text.to_string());
        let upstream = text.split(['-', '+', '~']).next().unwrap_or_default();
        let mut numbers = upstream.split('.').map(str::parse::<u16>);
        let mut next = || numbers.next().and_then(Result::ok);
        match (next(), next(), next()) {
            (Some(year), Some(month), patch) => Ok(Release::new(year, month, patch.unwrap_or(0))),
            _ => Err(wrong()),
        }
    }
}

impl serde::Serialize for Release {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}.{:02}.{}", self.year, self.month, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    #[test]
    fn debian_versions_are_understood() {
        let parse = |text: &str| text.parse::<Release>().map(|r| r.to_string());
        assert_eq!(parse("22.05.8-4+deb12u3").as_deref(), Ok("22.05.8"));
        assert_eq!(parse("24.11.5-4").as_deref(), Ok("24.11.5"));
        assert_eq!(parse("26.05.5").as_deref(), Ok("26.05.5"));
        assert!("slurm".parse::<Release>().is_err());
        assert_eq!(Release::from_version_line("slurm-wlm 22.05.8\n"), Ok(Release::new(22, 5, 8)));
        assert_eq!(Release::from_version_line("slurm 24.11.5"), Ok(Release::new(24, 11, 5)));
        assert!(Release::from_version_line("").is_err());
        assert!("".parse::<Release>().is_err());
    }

    #[test]
    fn releases_are_in_order() {
        assert!(RULES.windows(2).all(|pair| pair[0].major < pair[1].major));
    }

    /// Release, then: `--reboot` works, `scontrol power`, `scontrol --json`, `CredType`, cgroups can be disabled.
    #[test]
    fn quirks_follow_the_release() {
        let rows = [
            ("20.11.9", [true, false, false, true, false]),
            ("22.05.8", [true, false, false, true, false]),
            ("23.02.0", [false, false, true, true, false]),
            ("23.02.8", [false, false, true, true, false]),
            ("23.02.9", [true, false, true, true, false]),
            ("23.11.4", [false, false, true, false, false]),
            ("23.11.5", [true, false, true, false, false]),
            ("24.05.0", [true, true, true, false, true]),
            ("24.11.5", [true, true, true, false, true]),
            ("26.05.0", [true, true, true, false, true]),
            // Not in the table: like the nearest that is.
            ("19.05.0", [true, false, false, true, false]),
            ("27.11.0", [true, true, true, false, true]),
        ];
        for (text, expected) in rows {
            let r = release(text);
            let seen = [
                r.reboots_for_jobs(),
                r.has_power_command(),
                r.has_scontrol_json(),
                r.has_cred_type(),
                r.can_disable_cgroups(),
            ];
            assert_eq!(seen, expected, "{text}");
        }
    }

    #[test]
    fn jobs_that_reboot_ask_for_a_feature_where_they_have_to() {
        assert_eq!(release("23.11.4").reboot_constraint(), Some("kiln"));
        assert_eq!(release("23.11.5").reboot_constraint(), None);
    }

    #[test]
    fn jobs_reboot_through_one_hook_or_the_other() {
        assert_eq!(release("25.11.0").reboot_hook(), RebootHook::ResumeProgram);
        assert_eq!(release("26.05.0").reboot_hook(), RebootHook::RebootProgram);
        assert!(!release("22.05.8").skips_reboot_of_cloud_nodes());
        assert!(release("23.02.9").skips_reboot_of_cloud_nodes());
    }

    #[test]
    fn daemons_reach_back_two_releases_and_three_since_24_11() {
        let rows = [
            ("22.05.8", "20.11.4", true),
            ("23.02.0", "20.11.4", false),
            ("24.05.0", "23.02.7", true),
            ("24.05.0", "22.05.8", false),
            ("24.11.5", "22.05.8", false),
            ("24.11.5", "23.02.7", true),
            ("26.05.5", "24.11.5", true),
            ("26.05.5", "24.05.0", false),
            ("24.11.0", "24.11.5", true),
            ("27.11.1", "27.11.0", true),
            // Never forward.
            ("22.05.8", "24.11.5", false),
            // Nothing is promised where the distance is not known.
            ("27.11.0", "26.05.5", false),
            ("22.05.8", "20.02.0", false),
        ];
        for (new, old, expected) in rows {
            let (new, old) = (release(new), release(old));
            assert_eq!((new.can_serve(old), new.can_convert(old)), (expected, expected), "{new} {old}");
        }
    }

    #[test]
    fn the_next_step_of_an_upgrade_is_known() {
        assert_eq!(release("22.05.8").newest_that_converts().as_deref(), Some("23.11"));
        assert_eq!(release("24.11.5").newest_that_converts().as_deref(), Some("26.05"));
        assert_eq!(release("19.05.0").newest_that_converts(), None);
    }

    #[test]
    fn each_daemon_is_at_most_as_new_as_the_one_it_talks_to() {
        let together = |dbd, ctld, d| Release::can_run_together(release(dbd), release(ctld), release(d));
        assert!(together("26.05.5", "24.11.5", "23.02.7"));
        assert!(!together("24.11.5", "26.05.5", "24.11.5"));
        assert!(!together("26.05.5", "26.05.5", "23.02.7"));
    }
}
