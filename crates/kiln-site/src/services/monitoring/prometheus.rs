//! Prometheus, on control's loopback address, with its data on the state volume.

use kiln_spec::{Monitoring, Role, Spec};
use kiln_wire::Resource;
use kiln_wire::bundle::File;
use kiln_wire::checkup::Question;
use kiln_wire::dashboard;
use kiln_wire::make::{directory, file, service};
use serde_json::json;

use super::{alertmanager, arguments, id, is_on, node_exporter, quoted};
use crate::secret::{Form, Secret};
use crate::service_users;
use crate::services::{Context, Service, Unit};
use crate::volumes::{Purpose, only_when_mounted};

pub const PROMETHEUS: Service = Service {
    name: "prometheus",
    asked_for: Some(is_on),
    software: |_| &["prometheus"],
    users: &[service_users::PROMETHEUS],
    units: &[Unit::new(UNIT).saves_on_stop()],
    volumes: &[Purpose::State],
    secrets: &[METRICS_TOKEN],
    resources,
    health,
    ..Service::EMPTY
};

pub const METRICS_TOKEN: Secret = Secret {
    name: "metrics-token",
    purpose: "Prometheus' access to kilnd's figures",
    form: Form::Hex,
    on_nodes: true,
};

const UNIT: &str = "prometheus.service";
const ADDRESS: &str = "127.0.0.1:9090";
const DATA: &str = "/var/lib/state/prometheus";
const CONFIG: &str = "/etc/prometheus/prometheus.yml";
const RULES_DIRECTORY: &str = "/etc/prometheus/rules.d";
const NODES: &str = "/etc/prometheus/kiln-nodes.json";
const TOKEN: &str = "/etc/prometheus/kiln-token";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let Some(monitoring) = &context.spec.monitoring else { return Vec::new() };
    let options = [
        format!("--config.file={CONFIG}"),
        format!("--storage.tsdb.path={DATA}"),
        format!("--storage.tsdb.retention.time={}s", monitoring.retention.as_secs()),
        format!("--storage.tsdb.retention.size={}GB", monitoring.size_gib),
        format!("--web.listen-address={ADDRESS}"),
    ];
    let options = arguments(context.family, UNIT, &options);
    let drop_in = only_when_mounted(context.family.unit(UNIT));
    let token = file(TOKEN, format!("{}\n", context.secrets.value(&METRICS_TOKEN)));
    let token = token.owned_by(service_users::PROMETHEUS.name, 0o400).secret();
    let rules = checked(
        file(format!("{RULES_DIRECTORY}/kiln.yml"), alert_rules(monitoring)),
        &["promtool", "check", "rules", "{}"],
    );
    let config = checked(
        file(CONFIG, config(context.spec, monitoring)).needs(&id(&token)).needs(&id(&rules)),
        &["promtool", "check", "config", "{}"],
    );
    let mut prometheus = service(context.family.unit(UNIT), &[&id(&options), &id(&drop_in)]);
    prometheus.reload_on = vec![id(&config), id(&rules), id(&token)];
    let mut resources = service_users::PROMETHEUS.tree(DATA, 0o700).to_vec();
    resources.extend([
        directory("/etc/prometheus", "root", 0o755),
        directory(RULES_DIRECTORY, "root", 0o755),
        Resource::File(options),
        Resource::File(drop_in),
        Resource::File(token),
        Resource::File(file(NODES, nodes(context.spec))),
        Resource::File(rules),
        Resource::File(config),
        Resource::Service(prometheus),
    ]);
    resources
}

/// With the program that reads it.
fn checked(mut file: File, command: &[&str]) -> File {
    file.check = command.iter().map(ToString::to_string).collect();
    file
}

pub fn alert_rules(monitoring: &Monitoring) -> String {
    include_str!("alerts.yml").replace("ALERT_AFTER", &format!("{}s", monitoring.alert_after.as_secs()))
}

fn config(spec: &Spec, monitoring: &Monitoring) -> String {
    let interval = monitoring.interval.as_secs();
    let (timeout, port) = (interval.min(10), dashboard::PORT);
    // Without the type, discovery sends the bare token.
    let authorization = format!("{{type: Bearer, credentials_file: {TOKEN}}}");
    // A look at Slurm and the cloud takes its time.
    let slow = interval.min(30);
    let alerting = if monitoring.has_receivers() {
        let address = alertmanager::ADDRESS;
        format!("alerting:\n  alertmanagers:\n    - static_configs: [{{targets: [\"{address}\"]}}]\n")
    } else {
        String::new()
    };
    format!(
        "# Written by Kiln.\n\
         global:\n  scrape_interval: {interval}s\n  scrape_timeout: {timeout}s\n  evaluation_interval: {interval}s\n  \
         external_labels: {{cluster: {cluster}}}\n\
         rule_files: [\"{RULES_DIRECTORY}/*.yml\"]\n\
         {alerting}\
         scrape_configs:\n\
         \x20 - job_name: prometheus\n    static_configs: [{{targets: [\"{ADDRESS}\"]}}]\n\
         \x20 - job_name: kilnd\n    scrape_timeout: {slow}s\n    authorization: {authorization}\n    \
         static_configs: [{{targets: [\"127.0.0.1:{port}\"]}}]\n\
         \x20 # Nodes that are always there are in the file; kilnd tells which of the others are there now.\n\
         \x20 - job_name: node\n    file_sd_configs: [{{files: [\"{NODES}\"]}}]\n    http_sd_configs:\n      \
         - url: http://127.0.0.1:{port}/api/v1/targets\n        refresh_interval: {interval}s\n        \
         authorization: {authorization}\n",
        cluster = quoted(&spec.name),
    )
}

/// Those that do not come and go. Control's own name leads to its address, and its exporter listens to the loopback address.
fn nodes(spec: &Spec) -> String {
    let targets: Vec<_> = (spec.nodes())
        .filter(|node| !node.elastic)
        .map(|node| {
            let host = if node.role == Role::Control { "127.0.0.1" } else { node.name };
            json!({
                "targets": [format!("{host}:{}", node_exporter::PORT)],
                "labels": {"instance": node.name, "role": node.role.as_str(), "group": node.group},
            })
        })
        .collect();
    serde_json::Value::from(targets).to_string() + "\n"
}

fn health(_: &Spec, _: Role) -> Vec<Question> {
    let ask = |complaint: &str, query: &str| {
        Question::new(complaint, &["promtool", "query", "instant", "http://127.0.0.1:9090", query])
    };
    vec![
        ask("Prometheus does not answer", "vector(1)"),
        ask("Prometheus gets no figures from kilnd", "up{job=\"kilnd\"} == 1").shows("kilnd"),
    ]
}
