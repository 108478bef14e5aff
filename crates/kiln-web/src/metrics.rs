//! What Prometheus asks for: the figures of what is shown, and those that the cluster has beside it; and which nodes that come and
//! go are there.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};

use crate::answers::Refusal;
use crate::cluster::Cluster;
use crate::figures::{self, Figure, Figures, counted, one};
use crate::picture::Picture;
use crate::routes::App;
use crate::view::{Node, NodeKind, Severity, Target, TargetLabels};

pub async fn answer<C: Cluster>(State(app): State<Arc<App<C>>>) -> Result<Response, Refusal> {
    let (picture, more) = tokio::join!(app.hub.picture(), app.cluster.figures());
    let mut all = of_picture(&*picture?);
    all.extend(more?);
    let text = figures::text(&all);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

pub async fn targets<C: Cluster>(State(app): State<Arc<App<C>>>) -> Result<Json<Vec<Target>>, Refusal> {
    let picture = app.hub.picture().await?;
    Ok(Json(picture.nodes.values().filter(|node| is_expected(node)).map(target).collect()))
}

/// Where a node's exporter listens.
const EXPORTER: u16 = 9100;

fn target(node: &Node) -> Target {
    Target {
        targets: vec![format!("{}:{EXPORTER}", node.name)],
        labels: TargetLabels {
            instance: node.name.clone(),
            role: "compute".into(),
            group: node.group.clone(),
        },
    }
}

/// A node that comes and goes, and should answer now. One that Slurm believes in is expected even when its instance is gone:
/// that it does not answer has to be seen.
fn is_expected(node: &Node) -> bool {
    let is_there = match node.kind {
        NodeKind::Off | NodeKind::Booting => false,
        // Such a node may well be off.
        NodeKind::Drained | NodeKind::Maintenance | NodeKind::Unknown | NodeKind::Down => {
            node.instance.as_deref() == Some("active")
        }
        _ => true,
    };
    node.elastic && is_there
}

fn of_picture(picture: &Picture) -> Vec<Figures> {
    let overview = &picture.overview;
    let findings = Severity::ALL.iter().map(|severity| {
        let count = overview.findings.iter().filter(|f| f.severity == *severity).count();
        (vec![("severity", severity.word().to_string())], number(count))
    });
    let blind = overview.findings.iter().filter(|finding| finding.subject == "kilnd").count();
    let open = picture.rollouts.values().filter(|rollout| rollout.is_open);
    let open = counted(open.map(|rollout| vec![("state", rollout.state.clone())]));
    let newest = picture.rollouts.values().next_back();
    let newest = newest.map(|rollout| (vec![("state", rollout.state.clone())], 1.0));
    let steps = picture
        .rollout_nodes
        .values()
        .filter(|node| picture.rollouts.get(&node.rollout).is_some_and(|rollout| rollout.is_open));
    let steps = counted(steps.map(|node| vec![("step", node.step.clone())]));
    #[allow(clippy::cast_precision_loss, reason = "seconds have less than sixteen digits")]
    let checked = overview.last_check.map(|at| one(at.as_second() as f64)).unwrap_or_default();
    vec![
        Figures::gauge("kiln_nodes", "Compute nodes by what they do.", nodes(picture)),
        Figures::gauge("kiln_jobs", "Jobs that wait or run.", jobs(picture)),
        Figures::gauge("kiln_cores", "Cores of nodes that are not off.", one(wide(overview.cpus))),
        Figures::gauge("kiln_cores_allocated", "Cores that jobs have.", one(wide(overview.cpus_allocated))),
        Figures::gauge("kiln_findings", "What is not as it should be.", findings.collect()),
        Figures::gauge("kiln_blind", "What kilnd needs to see and cannot.", one(number(blind))),
        Figures::gauge("kiln_rollouts", "Rollouts that are not over.", open),
        Figures::gauge(
            "kiln_newest_rollout",
            "The state of the newest rollout.",
            newest.into_iter().collect(),
        ),
        Figures::gauge("kiln_rollout_nodes", "Nodes of rollouts that are not over.", steps),
        Figures::gauge(
            "kiln_last_check_timestamp_seconds",
            "When kilnd last compared Slurm with the cloud.",
            checked,
        ),
    ]
}

fn nodes(picture: &Picture) -> Vec<Figure> {
    let mut samples = Vec::new();
    for group in &picture.overview.groups {
        // All kinds, so that one that has gone is seen as gone.
        for kind in NodeKind::ALL {
            let count = group.nodes.get(kind.word()).copied().unwrap_or(0);
            let labels = vec![("group", group.name.clone()), ("state", kind.word().to_string())];
            samples.push((labels, number(count)));
        }
    }
    samples
}

fn jobs(picture: &Picture) -> Vec<Figure> {
    let labels = |job: &crate::view::Job| {
        let (partition, account) = (job.partition.clone(), job.account.clone());
        vec![("partition", partition), ("account", account), ("state", job.state.to_lowercase())]
    };
    counted(picture.jobs.values().map(labels))
}

#[allow(clippy::cast_precision_loss, reason = "nobody has so many nodes")]
fn number(count: usize) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss, reason = "nobody has so many cores")]
fn wide(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn all_nodes_are_counted_once() {
        let (look, records) = Fake::new(20).seen();
        let text = figures::text(&of_picture(&Picture::new("demo", &look, records)));
        assert!(text.contains("# TYPE kiln_nodes gauge\n"), "{text}");
        assert!(text.contains("kiln_newest_rollout{state=\"running\"} 1\n"), "{text}");
        let nodes: u64 = text
            .lines()
            .filter(|line| line.starts_with("kiln_nodes{"))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(nodes, 20);
    }

    #[test]
    fn a_node_is_asked_while_it_should_answer() {
        let (look, _) = Fake::new(1).seen();
        let node = |elastic: bool, kind: NodeKind, instance: Option<&str>| Node {
            elastic,
            kind,
            instance: instance.map(String::from),
            ..look.nodes[0].clone()
        };
        for (elastic, kind, instance, expected) in [
            (true, NodeKind::Idle, Some("active"), true),
            (true, NodeKind::Idle, None, true),
            (true, NodeKind::Draining, Some("active"), true),
            (true, NodeKind::Down, None, false),
            (true, NodeKind::Drained, None, false),
            (true, NodeKind::Drained, Some("active"), true),
            (true, NodeKind::Off, None, false),
            (true, NodeKind::Booting, Some("active"), false),
            (true, NodeKind::Unknown, Some("active"), true),
            (true, NodeKind::Unknown, None, false),
            // In the file of those that are always there.
            (false, NodeKind::Idle, Some("active"), false),
        ] {
            assert_eq!(
                is_expected(&node(elastic, kind, instance)),
                expected,
                "{elastic} {kind:?} {instance:?}"
            );
        }
    }
}
