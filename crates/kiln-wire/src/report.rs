//! What an apply did, resource by resource. Holds no secrets, so it may be printed, sent and kept.

use serde::{Deserialize, Serialize};

use crate::format::{Format, Version};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Unchanged,
    Changed,
    Failed,
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceReport {
    /// As `Resource::id()`; `kiln:lock` and `kiln:state` stand for what Kiln does around the resources.
    pub id: String,
    pub outcome: Outcome,
    /// What was done, or why not, in a few words. Empty when there is nothing to say. A failure may carry
    /// further lines: the end of a program's output, or of a unit's journal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Unified diff of a text file that is no secret, after lines such as `mode: 0644 -> 0600`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    pub millis: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyReport {
    #[serde(default)]
    pub format: Version<1>,
    pub node: String,
    pub digest: String,
    pub dry_run: bool,
    pub resources: Vec<ResourceReport>,
}

impl Format for ApplyReport {
    const NAME: &'static str = "report of an apply";
    const VERSION: u32 = 1;
}

impl Format for Applied {
    const NAME: &'static str = "record of the last apply";
    const VERSION: u32 = 1;
}

impl ApplyReport {
    /// Nothing failed.
    pub fn ok(&self) -> bool {
        self.count(Outcome::Failed) == 0
    }

    pub fn changed(&self) -> usize {
        self.count(Outcome::Changed)
    }

    /// What failed and why, a line or more each.
    pub fn failures(&self) -> Vec<String> {
        self.with(Outcome::Failed).map(|r| format!("{}: {}", r.id, r.summary)).collect()
    }

    pub fn count(&self, outcome: Outcome) -> usize {
        self.with(outcome).count()
    }

    /// The reports with this outcome, in the order of the bundle.
    pub fn with(&self, outcome: Outcome) -> impl Iterator<Item = &ResourceReport> {
        self.resources.iter().filter(move |report| report.outcome == outcome)
    }
}

/// What a node remembers of the last apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    #[serde(default)]
    pub format: Version<1>,
    pub digest: String,
    pub cluster: String,
    pub node: String,
    pub role: String,
    pub time: jiff::Timestamp,
    pub result: AppliedResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AppliedResult {
    Ok,
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let resource = ResourceReport {
            id: "file:/etc/hosts".into(),
            outcome: Outcome::Changed,
            summary: "written".into(),
            diff: Some("+x".into()),
            millis: 3,
        };
        let report = ApplyReport {
            format: Version,
            node: "c1".into(),
            digest: "d".into(),
            dry_run: false,
            resources: vec![resource],
        };
        assert_eq!(ApplyReport::from_json(&report.to_json().unwrap()), Ok(report));
        let applied = Applied {
            format: Version,
            digest: "d".into(),
            cluster: "demo".into(),
            node: "c1".into(),
            role: "compute".into(),
            time: jiff::Timestamp::UNIX_EPOCH,
            result: AppliedResult::Failed,
        };
        assert_eq!(Applied::from_json(&applied.to_json().unwrap()), Ok(applied));
    }
}
