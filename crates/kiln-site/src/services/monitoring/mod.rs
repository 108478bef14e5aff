//! Monitoring: Prometheus, Alertmanager and perhaps Grafana on control, a node exporter everywhere.

mod alertmanager;
mod grafana;
mod node_exporter;
mod prometheus;

pub use alertmanager::ALERTMANAGER;
pub use grafana::{DASHBOARDS, GRAFANA};
pub use node_exporter::NODE_EXPORTER;
pub use prometheus::{METRICS_TOKEN, PROMETHEUS, alert_rules};

use kiln_distro::Family;
use kiln_spec::Spec;
use kiln_wire::bundle::File;
use kiln_wire::make::file;

fn is_on(spec: &Spec) -> bool {
    spec.monitoring.is_some()
}

/// The arguments of a daemon, where its unit reads them.
fn arguments(family: &Family, unit: &str, arguments: &[String]) -> File {
    let name = family.unit(unit).trim_end_matches(".service");
    let path = format!("{}/{name}", family.paths.environment);
    file(path, format!("# Written by Kiln.\nARGS=\"{}\"\n", arguments.join(" ")))
}

fn id(file: &File) -> String {
    format!("file:{}", file.path)
}

/// A string in YAML, which has all of JSON's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
