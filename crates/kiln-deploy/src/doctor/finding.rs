//! One thing that was found, and how many of the same become one.

use kiln_spec::hostlist;
use serde::Serialize;

/// Worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Broken,
    /// Something will not work before long, or not as it should.
    Warning,
    /// Worth knowing. Nothing is wrong.
    Note,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Broken => "broken",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// A node, several as a hostlist, or another part of the cluster.
    pub subject: String,
    pub text: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    pub fn new(severity: Severity, subject: &str, text: impl Into<String>, advice: &str) -> Finding {
        Finding { severity, subject: subject.into(), text: text.into(), advice: advice.into() }
    }
}

/// Worst first, otherwise as they came. What is the same on several nodes is said once.
pub fn sorted(findings: Vec<Finding>) -> Vec<Finding> {
    let mut gathered: Vec<(Finding, Vec<String>)> = Vec::new();
    for finding in findings {
        let same = |other: &Finding| {
            (other.severity, &other.text, &other.advice) == (finding.severity, &finding.text, &finding.advice)
        };
        if let Some((_, subjects)) = gathered.iter_mut().find(|(other, _)| same(other)) {
            subjects.push(finding.subject);
        } else {
            let subjects = vec![finding.subject.clone()];
            gathered.push((finding, subjects));
        }
    }
    let mut findings: Vec<Finding> = gathered
        .into_iter()
        .map(|(finding, subjects)| match subjects.as_slice() {
            [_] => finding,
            several => Finding { subject: hostlist::fold(several.iter().map(String::as_str)), ..finding },
        })
        .collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_the_same_only_once() {
        let finding = |severity, subject: &str, text: &str| Finding::new(severity, subject, text, "");
        let all = sorted(vec![
            finding(Severity::Note, "a", "n"),
            finding(Severity::Warning, "c-0", "clock"),
            finding(Severity::Broken, "control", "down"),
            finding(Severity::Warning, "c-1", "clock"),
        ]);
        let shown: Vec<String> = all.iter().map(|f| format!("{} {}", f.severity.word(), f.subject)).collect();
        assert_eq!(shown, ["broken control", "warning c-[0-1]", "note a"]);
    }
}
