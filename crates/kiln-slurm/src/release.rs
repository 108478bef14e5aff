//! Slurm's releases and what Kiln must know about each.

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

impl Release {
    pub const fn new(year: u16, month: u16, patch: u16) -> Self {
        Release { year, month, patch }
    }

    /// `CgroupPlugin=disabled` exists from 24.05; before, a plugin must be named even where nothing uses it.
    pub fn can_disable_cgroups(self) -> bool {
        self >= Release::new(24, 5, 0)
    }

    /// `cred/munge` became the only choice beside `auth/slurm` and then lost its own parameter.
    pub fn has_cred_type(self) -> bool {
        self < Release::new(23, 11, 0)
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

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}.{:02}.{}", self.year, self.month, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_versions_are_understood() {
        let parse = |text: &str| text.parse::<Release>().map(|r| r.to_string());
        assert_eq!(parse("22.05.8-4+deb12u3").as_deref(), Ok("22.05.8"));
        assert_eq!(parse("24.11.5-4").as_deref(), Ok("24.11.5"));
        assert_eq!(parse("26.05.5").as_deref(), Ok("26.05.5"));
        assert!("slurm".parse::<Release>().is_err());
        assert!("".parse::<Release>().is_err());
    }

    #[test]
    fn quirks_follow_the_release() {
        assert!(!Release::new(22, 5, 8).can_disable_cgroups());
        assert!(Release::new(24, 11, 5).can_disable_cgroups());
    }
}
