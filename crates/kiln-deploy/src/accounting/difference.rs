//! What `configure` would change of accounts, limits and QOS, for the plan: the control node compares them with what slurmdbd has.

use kiln_cloud::InstanceStatus;
use kiln_site::services::slurm_accounts;
use kiln_spec::Role;
use kiln_wire::{ApplyReport, Bundle, Format as _, Outcome, ResourceReport};

use crate::deployment::Deployment;
use crate::observe::{ASK_LIMIT, Observed};

const NOT_YET: &str = "accounts are compared by `kiln configure`: the control node cannot tell yet";

impl Deployment<'_> {
    /// In words, a line each. A control node that does not run yet has nothing to compare with.
    pub(crate) async fn account_differences(&self, observed: &Observed) -> Vec<String> {
        let control = self.spec.control.node.as_str();
        let runs = (observed.nodes().get(control)).is_some_and(|i| i.status == InstanceStatus::Active);
        let Some(resource) = slurm_accounts::resource(self.spec).filter(|_| runs) else { return Vec::new() };
        let id = resource.id();
        let bundle = Bundle {
            kiln: None,
            format: kiln_wire::Version,
            cluster: self.spec.name.clone(),
            node: control.to_string(),
            role: Role::Control.as_str().to_string(),
            resources: vec![resource],
        };
        let report = self.dry_run(observed, &bundle).await;
        let of_accounts = report.into_iter().flat_map(|report| report.resources).find(|of| of.id == id);
        of_accounts.map_or_else(|| vec![NOT_YET.to_string()], |of| lines(&of))
    }

    /// `None`: the control node does not answer, or has no Kiln of this version yet.
    async fn dry_run(&self, observed: &Observed, bundle: &Bundle) -> Option<ApplyReport> {
        let control = self.on_control(observed).ok()?;
        let json = bundle.to_json().ok()?;
        let argv = ["kiln", "--json", "node", "apply", "--dry-run", "--bundle", "-"];
        let asked = control.ssh.output(&control.host, &argv, &json);
        let answer = tokio::time::timeout(ASK_LIMIT, asked).await.ok()?.ok()?;
        ApplyReport::from_json(answer.stdout.as_bytes()).ok()
    }
}

fn lines(report: &ResourceReport) -> Vec<String> {
    if report.outcome == Outcome::Skipped {
        let why = report.summary.replace('\n', ": ");
        return vec![format!("accounts could not be compared: {why}")];
    }
    let of_line = |line: &str| match line.strip_prefix("= ") {
        Some(kept) => format!("accounts, kept as they are (mode = \"add\"): {kept}"),
        None => format!("accounts, with `kiln configure`: {line}"),
    };
    report.diff.iter().flat_map(|diff| diff.lines()).map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_what_is_kept_are_told_apart() {
        let report = |outcome, summary: &str, diff: Option<&str>| ResourceReport {
            id: "accounts:demo".into(),
            outcome,
            summary: summary.into(),
            diff: diff.map(String::from),
            millis: 1,
        };
        let changed = report(Outcome::Changed, "1 change", Some("+ qos a\n= qos b: Priority 1 -> 2\n"));
        let expected = [
            "accounts, with `kiln configure`: + qos a",
            "accounts, kept as they are (mode = \"add\"): qos b: Priority 1 -> 2",
        ];
        assert_eq!(lines(&changed), expected);
        assert_eq!(lines(&report(Outcome::Unchanged, "", None)), [""; 0]);
        let unknown = lines(&report(Outcome::Skipped, "slurmdbd does not answer", None));
        assert_eq!(unknown, ["accounts could not be compared: slurmdbd does not answer"]);
    }
}
