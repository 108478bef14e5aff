//! What the control node's state volume tells of upgrades.

use kiln_slurm::Release;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub mounted: bool,
    /// The newest upgrade that was begun and not ended.
    pub open: Option<String>,
    /// The newest that has an old Slurm's data.
    pub aside: Option<String>,
}

impl Seen {
    /// Reads what `look.sh` prints. Directories are named by time, and listed in that order.
    pub fn parse(text: &str) -> Seen {
        let last = |word: &str| text.lines().filter_map(|line| line.strip_prefix(word)).next_back();
        Seen {
            mounted: text.lines().any(|line| line == "mounted"),
            open: last("open ").map(String::from),
            aside: last("aside ").map(String::from),
        }
    }
}

/// `/var/lib/state/upgrades/20261116-050606-slurm-22.05.8`.
pub fn directory_for(time: &str, release: Release) -> String {
    format!("{}/{time}-slurm-{release}", super::DIRECTORY)
}

/// Whose data is in it.
pub fn release_of(directory: &str) -> Option<Release> {
    directory.rsplit_once("-slurm-")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_counts() {
        assert_eq!(Seen::parse(""), Seen::default());
        let seen = Seen::parse("mounted\naside /u/1\nopen /u/2\naside /u/2\n");
        assert_eq!(seen, Seen { mounted: true, open: Some("/u/2".into()), aside: Some("/u/2".into()) });
    }

    #[test]
    fn a_directory_tells_its_release() {
        let release = Release::new(22, 5, 8);
        let directory = directory_for("20261116-050606", release);
        assert_eq!(directory, "/var/lib/state/upgrades/20261116-050606-slurm-22.05.8");
        assert_eq!(release_of(&directory), Some(release));
        assert_eq!(release_of("/var/lib/state/upgrades/mine"), None);
    }
}
