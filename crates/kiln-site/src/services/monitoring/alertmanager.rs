//! Alertmanager, which sends alerts to whom the file names.

use std::fmt::Write as _;

use kiln_spec::{AlertMail, Monitoring, Role, Spec, WebhookAddress};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{file, service};

use super::{arguments, id, quoted};
use crate::inputs::{Given, Secrets};
use crate::service_users::PROMETHEUS;
use crate::services::{Context, Service, Unit};
use crate::volumes::{Purpose, only_when_mounted};

pub const ALERTMANAGER: Service = Service {
    name: "alertmanager",
    asked_for: Some(|spec| spec.monitoring.as_ref().is_some_and(Monitoring::has_receivers)),
    software: |_| &["alertmanager"],
    users: &[PROMETHEUS],
    units: &[Unit::new(UNIT).saves_on_stop()],
    volumes: &[Purpose::State],
    resources,
    health,
    ..Service::EMPTY
};

const UNIT: &str = "alertmanager.service";
pub const ADDRESS: &str = "127.0.0.1:9093";
/// Silences, and what has been sent.
const DATA: &str = "/var/lib/state/alertmanager";
const CONFIG: &str = "/etc/prometheus/alertmanager.yml";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let Some(monitoring) = &context.spec.monitoring else { return Vec::new() };
    let options = [
        format!("--config.file={CONFIG}"),
        format!("--storage.path={DATA}"),
        format!("--web.listen-address={ADDRESS}"),
        // There is one of it.
        "--cluster.listen-address=".to_string(),
    ];
    let options = arguments(context.family, UNIT, &options);
    let unit = context.family.unit(UNIT);
    let drop_in = only_when_mounted(unit);
    let mut config = file(CONFIG, config(monitoring, context.secrets));
    config.check = ["amtool", "check-config", "{}"].map(String::from).to_vec();
    let config = config.owned_by(PROMETHEUS.name, 0o400).secret();
    let mut alertmanager = service(unit, &[&id(&options), &id(&drop_in)]);
    alertmanager.reload_on = vec![id(&config)];
    let mut resources = PROMETHEUS.tree(DATA, 0o700).to_vec();
    resources.extend([
        Resource::File(options),
        Resource::File(drop_in),
        Resource::File(config),
        Resource::Service(alertmanager),
    ]);
    resources
}

/// Everyone gets every alert. What is the same for several nodes comes in one message.
fn config(monitoring: &Monitoring, secrets: &Secrets) -> String {
    // Alerts that begin together are sent together, and nobody waits for longer than for the alert itself.
    let wait = monitoring.interval.as_secs().min(30);
    let mut text = format!(
        "# Written by Kiln.\nroute:\n  receiver: all\n  group_by: [alertname]\n  group_wait: {wait}s\n  \
         group_interval: {}s\n  repeat_interval: 4h\nreceivers:\n  - name: all\n",
        monitoring.alert_after.as_secs().max(wait),
    );
    if let Some(mail) = &monitoring.mail {
        write_mail(&mut text, mail, secrets);
    }
    if !monitoring.webhooks.is_empty() {
        text.push_str("    webhook_configs:\n");
    }
    for webhook in &monitoring.webhooks {
        let url = match &webhook.address {
            WebhookAddress::Plain(url) => url.as_str(),
            WebhookAddress::Secret(_) => secrets.given(&Given::Webhook(webhook.name.clone())).trim(),
        };
        let _ = writeln!(text, "      - url: {}", quoted(url));
    }
    text
}

fn write_mail(text: &mut String, mail: &AlertMail, secrets: &Secrets) {
    text.push_str("    email_configs:\n");
    let (user, password) = secrets.given(&Given::Mail).trim().split_once(':').unwrap_or_default();
    for to in &mail.to {
        let _ = writeln!(
            text,
            "      - to: {}\n        from: {}\n        smarthost: {}\n        require_tls: {}\n        send_resolved: true",
            quoted(to),
            quoted(&mail.from),
            quoted(&mail.server),
            mail.tls,
        );
        if mail.credentials.is_some() {
            let (user, password) = (quoted(user), quoted(password));
            let _ = writeln!(text, "        auth_username: {user}\n        auth_password: {password}");
        }
    }
}

fn health(_: &Spec, _: Role) -> Vec<Question> {
    let ask = ["amtool", "--alertmanager.url=http://127.0.0.1:9093", "config", "show"];
    vec![Question::new("Alertmanager does not answer", &ask)]
}
