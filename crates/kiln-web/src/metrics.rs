//! Figures in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};

use crate::answers::Refusal;
use crate::cluster::{Cluster, Figures};
use crate::picture::Picture;
use crate::routes::App;
use crate::view::{NodeKind, Severity};

pub async fn answer<C: Cluster>(State(app): State<Arc<App<C>>>) -> Result<Response, Refusal> {
    let picture = app.hub.picture().await?;
    let text = text(&picture, &app.cluster.figures()?);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// Labels and a value each.
type Samples = Vec<(Vec<(&'static str, String)>, u64)>;

fn text(picture: &Picture, figures: &Figures) -> String {
    let mut text = Page::default();
    text.family("kiln_nodes", "gauge", "Compute nodes by what they do.", nodes(picture));
    text.family("kiln_jobs", "gauge", "Jobs that wait or run.", jobs(picture));
    let overview = &picture.overview;
    text.family("kiln_cores", "gauge", "Cores of nodes that are not off.", one(overview.cpus));
    text.family("kiln_cores_allocated", "gauge", "Cores that jobs have.", one(overview.cpus_allocated));
    let findings = Severity::ALL.iter().map(|severity| {
        let count = overview.findings.iter().filter(|f| f.severity == *severity).count();
        (vec![("severity", severity.word().to_string())], count as u64)
    });
    text.family("kiln_findings", "gauge", "What is not as it should be.", findings.collect());
    let open = picture.rollouts.values().filter(|rollout| rollout.is_open);
    let open = counted(open.map(|rollout| vec![("state", rollout.state.clone())]));
    text.family("kiln_rollouts", "gauge", "Rollouts that are not over.", open);
    let steps = picture
        .rollout_nodes
        .values()
        .filter(|node| picture.rollouts.get(&node.rollout).is_some_and(|rollout| rollout.is_open));
    let steps = counted(steps.map(|node| vec![("step", node.step.clone())]));
    text.family("kiln_rollout_nodes", "gauge", "Nodes of rollouts that are not over.", steps);
    text.family(
        "kiln_requests",
        "gauge",
        "What Slurm asked of Kiln, as far as it is kept.",
        figures.requests.clone(),
    );
    text.family("kiln_events_total", "counter", "Events since the store was made.", one(figures.events));
    let checked = overview.last_check.map(|at| u64::try_from(at.as_second()).unwrap_or(0));
    let checked = checked.map(one).unwrap_or_default();
    text.family(
        "kiln_last_check_timestamp_seconds",
        "gauge",
        "When kilnd last compared Slurm with the cloud.",
        checked,
    );
    text.0
}

fn nodes(picture: &Picture) -> Samples {
    let mut samples = Vec::new();
    for group in &picture.overview.groups {
        // All kinds, so that one that has gone is seen as gone.
        for kind in NodeKind::ALL {
            let count = group.nodes.get(kind.word()).copied().unwrap_or(0);
            let labels = vec![("group", group.name.clone()), ("state", kind.word().to_string())];
            samples.push((labels, count as u64));
        }
    }
    samples
}

fn jobs(picture: &Picture) -> Samples {
    let labels = |job: &crate::view::Job| {
        vec![("partition", job.partition.clone()), ("state", job.state.to_lowercase())]
    };
    counted(picture.jobs.values().map(labels))
}

fn one(value: u64) -> Samples {
    vec![(Vec::new(), value)]
}

fn counted(all: impl Iterator<Item = Vec<(&'static str, String)>>) -> Samples {
    let mut counts: BTreeMap<Vec<(&'static str, String)>, u64> = BTreeMap::new();
    for labels in all {
        *counts.entry(labels).or_default() += 1;
    }
    counts.into_iter().collect()
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: Samples) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn figures_are_written_as_prometheus_reads_them() {
        let (look, records) = Fake::new(20).seen();
        let picture = Picture::new("demo", &look, records);
        let requests = vec![(vec![("kind", "resume".to_string()), ("state", "done".to_string())], 3)];
        let text = text(&picture, &Figures { requests, events: 7 });
        assert!(text.contains("# TYPE kiln_nodes gauge\n"), "{text}");
        assert!(text.contains("kiln_requests{kind=\"resume\",state=\"done\"} 3\n"), "{text}");
        assert!(text.contains("kiln_events_total 7\n"), "{text}");
        let nodes: u64 = text
            .lines()
            .filter(|line| line.starts_with("kiln_nodes{"))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(nodes, 20);
    }

    #[test]
    fn labels_stay_within_their_quotes() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
