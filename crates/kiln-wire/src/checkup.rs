//! How a node is asked whether its services work, and what it answers: all questions in one go.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::format::{Format, Version};

/// What is asked of a node: by the deploy host over SSH, and by the node itself, every minute, from a file that
/// `kiln configure` has written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checkup {
    #[serde(default)]
    pub format: Version<1>,
    pub services: Vec<ServiceCheck>,
    /// Directories whose file systems must have room.
    #[serde(default)]
    pub places: Vec<String>,
    /// Whose end is to be known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateFile>,
}

/// A file on the node with a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateFile {
    pub name: String,
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceCheck {
    pub service: String,
    /// Must be active.
    pub units: Vec<String>,
    /// Asked only if the units are active.
    pub questions: Vec<Question>,
}

/// A command that must end with 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What is wrong if it does not: `slurmctld does not answer`.
    pub otherwise: String,
    pub command: Vec<String>,
    /// Must be in what it prints.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shows: String,
}

impl Question {
    pub fn new(otherwise: impl Into<String>, command: &[&str]) -> Question {
        let command = command.iter().map(ToString::to_string).collect();
        Question { otherwise: otherwise.into(), command, shows: String::new() }
    }

    #[must_use]
    pub fn shows(mut self, text: impl Into<String>) -> Question {
        self.shows = text.into();
        self
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckupReport {
    #[serde(default)]
    pub format: Version<1>,
    /// The node's clock, when it answered.
    pub time: Timestamp,
    /// As Slurm's commands say it: `slurm-wlm 22.05.8`.
    pub slurm: Option<String>,
    /// In the order of the services.
    pub problems: Vec<ServiceProblem>,
    /// One for each file system.
    pub places: Vec<Place>,
    /// Those that were asked about, in their order. A Kiln from before left them out.
    #[serde(default)]
    pub services: Vec<ServiceReport>,
    #[serde(default)]
    pub certificates: Vec<CertificateReport>,
}

/// How a service is. What is wrong with it is among the report's problems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReport {
    pub service: String,
    pub units: Vec<UnitReport>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitReport {
    pub unit: String,
    /// systemd's words: `active (running)`.
    pub state: String,
    /// Since when it is in that state, by the node's clock.
    pub since: Option<Timestamp>,
    /// The end of its journal, if something is wrong with its service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journal: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateReport {
    pub name: String,
    /// `None`: it cannot be read.
    pub ends: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceProblem {
    pub service: String,
    pub text: String,
}

/// A file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub path: String,
    pub bytes: u64,
    /// For others than root.
    pub free_bytes: u64,
    /// 0 where the file system does not count them.
    pub files: u64,
    pub free_files: u64,
}

impl Place {
    /// Programs that write there fail, or soon will. A large file system is not full because little of it is left in percent, and
    /// a small one not because it is small; one without a size has no bounds.
    pub fn is_full(&self) -> bool {
        let percent = |free: u64, all: u64| (free * 100).checked_div(all).unwrap_or(100);
        let few = (self.bytes / 100).min(10 << 30).max((100 << 20).min(self.bytes / 20));
        self.free_bytes < few || percent(self.free_files, self.files) < 1
    }

    /// There is little left, of bytes or of files. A large file system is not full because little of it is left in percent.
    pub fn is_nearly_full(&self) -> bool {
        let percent = |free: u64, all: u64| (free * 100).checked_div(all).unwrap_or(100);
        let few_bytes = percent(self.free_bytes, self.bytes) < 10 && self.free_bytes < 20 << 30;
        self.is_full() || few_bytes || percent(self.free_files, self.files) < 5
    }
}

impl CertificateReport {
    /// A certificate that ends so soon is worth a warning.
    pub const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
}

impl Format for Checkup {
    const NAME: &'static str = "list of questions for a node";
    const VERSION: u32 = 1;
}

impl Format for CheckupReport {
    const NAME: &'static str = "report on a node's services";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_full_by_its_size() {
        const MIB: u64 = 1 << 20;
        let full = |bytes: u64, free_bytes: u64, files: u64, free_files: u64| {
            Place { path: "/".into(), bytes: bytes * MIB, free_bytes: free_bytes * MIB, files, free_files }
                .is_full()
        };
        assert!(full(100_000, 900, 0, 0) && !full(100_000, 1100, 0, 0), "1 %");
        assert!(!full(10_000_000, 20_000, 0, 0), "20 GiB are enough anywhere");
        assert!(full(5000, 90, 0, 0) && !full(5000, 110, 0, 0), "100 MiB");
        assert!(full(60, 2, 0, 0) && !full(60, 10, 0, 0), "a small one");
        assert!(full(100_000, 50_000, 1000, 9) && !full(100_000, 50_000, 1000, 10), "files");
        assert!(!full(0, 0, 0, 0), "no bounds");
        let place = |free: u64| Place {
            path: "/".into(),
            bytes: 100_000 * MIB,
            free_bytes: free * MIB,
            files: 0,
            free_files: 0,
        };
        assert!(place(9000).is_nearly_full() && !place(9000).is_full() && !place(11_000).is_nearly_full());
    }

    #[test]
    fn what_is_written_is_read() {
        let question = Question::new("the share is not exported", &["exportfs", "-v"]).shows("/srv");
        let service = ServiceCheck {
            service: "nfs server".into(),
            units: vec!["nfs-server.service".into()],
            questions: vec![question],
        };
        let certificates = vec![CertificateFile { name: "rest".into(), path: "/etc/x.pem".into() }];
        let checkup =
            Checkup { format: Version, services: vec![service], places: vec!["/".into()], certificates };
        assert_eq!(Checkup::from_json(&checkup.to_json().unwrap()), Ok(checkup));
        let report = CheckupReport {
            format: Version,
            time: Timestamp::UNIX_EPOCH,
            slurm: Some("slurm-wlm 22.05.8".into()),
            problems: vec![ServiceProblem { service: "munge".into(), text: "does not answer".into() }],
            places: vec![Place { path: "/".into(), bytes: 9, free_bytes: 1, files: 5, free_files: 2 }],
            services: vec![ServiceReport {
                service: "munge".into(),
                units: vec![UnitReport {
                    unit: "munge.service".into(),
                    state: "active (running)".into(),
                    since: Some(Timestamp::UNIX_EPOCH),
                    journal: vec!["a line".into()],
                }],
            }],
            certificates: vec![CertificateReport { name: "rest".into(), ends: None }],
        };
        assert_eq!(CheckupReport::from_json(&report.to_json().unwrap()), Ok(report));
    }
}
