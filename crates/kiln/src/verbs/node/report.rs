//! How an apply is shown: one line per resource that was not as it should be, its diff below it, and a count.

use kiln_wire::{ApplyReport, Outcome, ResourceReport};

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unchanged => "unchanged",
        Outcome::Changed => "changed",
        Outcome::Failed => "failed",
        Outcome::Skipped => "skipped",
    }
}

/// `None` for a resource that needs no word.
pub fn resource(report: &ResourceReport, dry_run: bool) -> Option<String> {
    // What is left as it is may differ all the same.
    if report.outcome == Outcome::Unchanged && report.diff.is_none() {
        return None;
    }
    let word =
        if dry_run && report.outcome == Outcome::Changed { "would change" } else { word(report.outcome) };
    let mut text = format!("{word:<8} {}", report.id);
    let mut summary = report.summary.lines();
    if let Some(first) = summary.next() {
        text = format!("{text}  ({first})");
    }
    let diff = report.diff.iter().flat_map(|diff| diff.lines());
    let below = summary.chain(diff).map(|line| format!("\n    {line}"));
    Some(std::iter::once(text).chain(below).collect())
}

pub fn count(report: &ApplyReport) -> String {
    let counts = [Outcome::Changed, Outcome::Unchanged, Outcome::Skipped, Outcome::Failed]
        .map(|outcome| (report.count(outcome), outcome))
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, outcome)| format!("{count} {}", word(outcome)))
        .collect::<Vec<_>>()
        .join(", ");
    let counts = if counts.is_empty() { "nothing to apply".to_owned() } else { counts };
    let dry = if report.dry_run { " (dry run: nothing was touched)" } else { "" };
    format!("{}: {counts}{dry}", report.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(id: &str, outcome: Outcome, summary: &str, diff: Option<&str>) -> ResourceReport {
        let diff = diff.map(ToOwned::to_owned);
        ResourceReport { id: id.to_owned(), outcome, summary: summary.to_owned(), diff, millis: 3 }
    }

    #[test]
    fn a_report_reads_well() {
        let report = ApplyReport {
            format: kiln_wire::Version,
            node: "compute-1".to_owned(),
            digest: String::new(),
            dry_run: true,
            resources: vec![
                made("group:slurm", Outcome::Unchanged, "", None),
                made("file:/etc/hosts", Outcome::Changed, "content", Some("-10.0.0.1 a\n+10.0.0.2 a\n")),
                made("service:slurmd.service", Outcome::Failed, "did not start\nbad config", None),
            ],
        };
        let lines: Vec<String> =
            report.resources.iter().filter_map(|r| resource(r, report.dry_run)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        would change file:/etc/hosts  (content)
            -10.0.0.1 a
            +10.0.0.2 a
        failed   service:slurmd.service  (did not start)
            bad config
        ");
        insta::assert_snapshot!(
            count(&report),
            @"compute-1: 1 changed, 1 unchanged, 1 failed (dry run: nothing was touched)"
        );
    }
}
