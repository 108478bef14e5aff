//! `kiln doctor`

use clap::Args;
use kiln_deploy::{Diagnosis, Severity};
use kiln_wire::health::{Intent, NodeDossier, Verdict};

use crate::age;
use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Examine the whole cluster, or explain one compute node
///
/// Without a node: services, database, disks, clocks, versions, mounts, strays, quotas, credentials, certificates and what kilnd
/// found, worst first, each with what to do about it. Exits with 1 if something is wrong.
///
/// With a node: what Slurm says, what the cloud says, how it booted, what Kiln will do.
#[derive(Debug, Args)]
pub struct Doctor {
    node: Option<String>,
}

impl Doctor {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let Some(node) = self.node else { return examine(context) };
        let dossier = cluster::with(context, async |deployment| Ok(deployment.dossier(&node).await?))?;
        if context.printer.is_json() {
            context.printer.json(&dossier)?;
        } else {
            context.printer.foreign(&page(&dossier))?;
        }
        Ok(Exit::Ok)
    }
}

fn examine(context: &Context) -> anyhow::Result<Exit> {
    let diagnosis = cluster::with(context, async |deployment| Ok(deployment.diagnosis().await?))?;
    if context.printer.is_json() {
        context.printer.json(&diagnosis)?;
    } else {
        context.printer.foreign(&findings(&diagnosis))?;
    }
    Ok(if diagnosis.is_well() { Exit::Ok } else { Exit::Failed })
}

fn findings(diagnosis: &Diagnosis) -> String {
    let mut lines: Vec<String> = Vec::new();
    for finding in &diagnosis.findings {
        lines.push(format!("{:<7}  {}: {}", finding.severity.word(), finding.subject, finding.text));
        lines.push(format!("{:<7}  -> {}", "", finding.advice));
    }
    let count = |severity| diagnosis.findings.iter().filter(|f| f.severity == severity).count();
    let counts = [
        (count(Severity::Broken), "broken", "broken"),
        (count(Severity::Warning), "warning", "warnings"),
        (count(Severity::Note), "note", "notes"),
    ];
    let counts = counts.iter().filter(|(count, ..)| *count > 0);
    let words: Vec<String> = counts
        .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }))
        .collect();
    let verdict = match (diagnosis.is_well(), words.is_empty()) {
        (true, true) => "all is well".to_string(),
        (true, false) => format!("all is well, {}", words.join(", ")),
        _ => words.join(", "),
    };
    let nodes = if diagnosis.asked == 1 { "node" } else { "nodes" };
    lines.push(format!("cluster {}: {verdict} ({} {nodes} asked)", diagnosis.cluster, diagnosis.asked));
    lines.join("\n") + "\n"
}

fn page(d: &NodeDossier) -> String {
    let health = &d.health;
    let kind = if health.elastic { "elastic" } else { "fixed" };
    let mut lines = vec![format!("{} of group {} ({kind})", health.node, health.group), String::new()];
    lines.push(format!("Slurm    {}", slurm(d)));
    match &d.cloud_problem {
        Some(problem) => lines.push(format!("cloud    cannot be relied on: {problem}")),
        None if health.instances.is_empty() => lines.push("cloud    no instance".into()),
        None => {}
    }
    for instance in &health.instances {
        lines.push(format!(
            "cloud    instance {} is {}, at {}, image {}, {} old",
            instance.id,
            instance.status,
            instance.address.as_deref().unwrap_or("no address"),
            instance.image.as_deref().unwrap_or("unknown"),
            age::between(instance.created, d.observed),
        ));
    }
    if let Some(group) = d.group_failures.as_ref().filter(|t| t.is_paused) {
        let until = group.record.paused_until.map(|until| age::until(until, d.observed)).unwrap_or_default();
        lines.push(format!("group    paused, ends {until}: {}", group.record.problem));
    }
    for request in &d.requests {
        let problem = request.error.as_ref().map(|e| format!(", last problem: {e}")).unwrap_or_default();
        let age = age::between(request.received, d.observed);
        lines.push(format!("request  {}, {}, {age} old{problem}", request.kind, request.state));
    }
    lines.push(format!("verdict  {}", verdict(d)));
    lines.push(format!("Kiln     {}", next(d)));
    for console in &d.consoles {
        lines.extend([String::new(), format!("end of the console of {}:", console.instance)]);
        lines.extend(console.lines.iter().map(|line| format!("  {line}")));
    }
    if !d.events.is_empty() {
        lines.extend([String::new(), "last events:".into()]);
    }
    for event in &d.events {
        let time = event.time.strftime("%Y-%m-%d %H:%M:%S");
        let why = if event.why.is_empty() { String::new() } else { format!(" ({})", event.why) };
        lines.push(format!("  {time}  {}: {}{why}", event.what, event.outcome));
    }
    lines.join("\n") + "\n"
}

fn slurm(d: &NodeDossier) -> String {
    let health = &d.health;
    if let Some(problem) = &d.slurm_problem {
        return format!("cannot be reached: {problem}");
    }
    let Some(state) = &health.slurm else { return "does not know it".into() };
    let jobs = if health.carries_jobs { ", with jobs" } else { "" };
    let booted = health.booted.map(|at| format!(", booted {} ago", age::between(at, d.observed)));
    let reason = health.reason.as_ref().map(|reason| {
        let who = health.reason_by.as_deref().unwrap_or("somebody");
        format!(", reason by {who}: {reason}")
    });
    format!("{state}{jobs}{}{}", booted.unwrap_or_default(), reason.unwrap_or_default())
}

fn is_half(d: &NodeDossier) -> bool {
    d.slurm_problem.is_some() || d.cloud_problem.is_some()
}

fn verdict(d: &NodeDossier) -> String {
    match d.health.verdict(is_half(d)) {
        Verdict::None => "none without both Slurm and the cloud".into(),
        Verdict::UnderWay(finding) => format!("under way, for {}", age::between(finding.since, d.observed)),
        Verdict::Found(finding) => {
            let age = age::between(finding.since, d.observed);
            format!("{} (rule {}, for {age})", finding.text, finding.rule)
        }
        Verdict::Ok => "ok".into(),
        Verdict::NoRule => "nothing that Kiln has a rule for".into(),
    }
}

fn next(d: &NodeDossier) -> String {
    let looked = d.last_look.map(|at| format!("kilnd last checked {} ago", age::between(at, d.observed)));
    let looked = looked.unwrap_or_else(|| "kilnd has never checked".into());
    match d.health.intent(is_half(d)) {
        Intent::Waits => "does nothing until both can be reached".into(),
        Intent::LeavesAlone(why) => format!("leaves it alone: {why}"),
        Intent::Will { actions, due, if_it_lasts } => {
            let lasting = if if_it_lasts { ", if it lasts," } else { "" };
            let when = age::until(due, d.observed);
            format!("will{lasting} {}, {when} ({looked})", actions.join(", then "))
        }
        Intent::NothingByItself => format!("does nothing about it by itself ({looked})"),
        Intent::Nothing => format!("has nothing to do ({looked})"),
    }
}

#[cfg(test)]
mod tests {
    use kiln_deploy::Finding;

    use super::*;

    #[test]
    fn findings_are_shown_with_what_to_do_and_counted() {
        let finding = |severity, subject: &str, text: &str, advice: &str| Finding {
            severity,
            subject: subject.into(),
            text: text.into(),
            advice: advice.into(),
        };
        let all = vec![
            finding(Severity::Broken, "control", "slurmctld.service is failed", "`kiln configure` starts it"),
            finding(Severity::Note, "cloud", "little is left", "ask for more"),
        ];
        let shown = |findings: &[Finding]| {
            super::findings(&Diagnosis {
                cluster: "demo".into(),
                observed: jiff::Timestamp::UNIX_EPOCH,
                asked: 6,
                findings: findings.to_vec(),
            })
        };
        insta::assert_snapshot!(shown(&all), @r"
        broken   control: slurmctld.service is failed
                 -> `kiln configure` starts it
        note     cloud: little is left
                 -> ask for more
        cluster demo: 1 broken, 1 note (6 nodes asked)
        ");
        assert_eq!(shown(&[]), "cluster demo: all is well (6 nodes asked)\n");
        assert!(shown(&all[1..]).ends_with("cluster demo: all is well, 1 note (6 nodes asked)\n"));
    }
}
