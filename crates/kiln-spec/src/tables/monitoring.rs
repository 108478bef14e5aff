//! `[monitoring]`: Prometheus on the control node, and whom its alerts are sent to.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reconcile::at_least;
use super::source;
use crate::diagnostic::Findings;
use crate::units::size_gib;
use crate::validate::names;
use crate::written::table::table;
use crate::written::{At, List, Named, Text};
use crate::{AlertMail, Monitoring, Webhook, WebhookAddress};

table! {
    /// Prometheus on the control node, and whom its alerts are sent to. The table turns monitoring on, and may be empty.
    MonitoringTable {
        /// How long figures are kept, one hour or more.
        "retention" => retention: Text, default "15d";
        /// At most this much of the state volume is used for figures. The oldest are deleted first.
        "size" => size: Text, default "2 GiB";
        /// Time between two readings of all figures, and between two evaluations of the alert rules.
        "interval" => interval: Text, default "30s";
        /// How long something must be wrong before an alert fires.
        "alert_after" => alert_after: Text, default "5m";
        /// Price of an hour of an instance, by flavor, e.g. `{ small = 0.05 }`. What groups have cost is a figure then.
        "prices" => prices: Named<At<f64>>, empty;
        /// Writes data source, dashboards and admin password for a Grafana that is in the control node's image, and runs it. Debian has no Grafana: an image gets it from a repository of the site.
        "grafana" => grafana: At<bool>, default false;
        /// Alerts by mail.
        "mail" => mail: MailTable, otherwise "no alerts by mail";
        /// Programs of the site that alerts are posted to, by name.
        "webhook" => webhook: Named<WebhookTable>, otherwise "alerts are posted nowhere";
    }
}

table! {
    /// Alerts by mail.
    MailTable {
        /// Addresses to send alerts to.
        "to" => to: List<Text>, required;
        /// Address of the sender.
        "from" => from: Text, required;
        /// Mail server as `HOST:PORT`, e.g. `mail.example.org:587`.
        "server" => server: Text, required;
        /// Where user and password for the mail server are, as `USER:PASSWORD`: `env:NAME` is an environment variable, `file:PATH` a file relative to the cluster file. `kiln configure` and `kiln up` read them.
        "credentials" => credentials: Text, otherwise "the server wants none";
        /// Whether the server must offer TLS.
        "tls" => tls: At<bool>, default true;
    }
}

table! {
    /// A program of the site that alerts are posted to, in the format of Alertmanager's webhooks.
    WebhookTable {
        /// URL of the program. Where the URL itself is secret: `env:NAME` is an environment variable that has it, `file:PATH` a file relative to the cluster file. `kiln configure` and `kiln up` read them.
        "address" => address: Text, required;
    }
}

pub(crate) fn validate(written: Option<&MonitoringTable>, findings: &mut Findings<'_>) -> Option<Monitoring> {
    let written = written?;
    let second = Duration::from_secs(1);
    let hour = Duration::from_secs(3600);
    let size = size_gib(&written.size.value).unwrap_or_else(|expected| {
        let message = format!("`size` cannot be `{}`", written.size.value);
        findings.error("bad-size", written.size.span.clone(), message).expected(expected);
        1
    });
    let webhooks = written.webhook.iter().flatten();
    Some(Monitoring {
        retention: at_least("`retention`", &written.retention, hour, findings),
        size_gib: size,
        interval: at_least("`interval`", &written.interval, second, findings),
        alert_after: at_least("`alert_after`", &written.alert_after, second, findings),
        prices: prices(&written.prices, findings),
        grafana: written.grafana.value,
        webhooks: webhooks.filter_map(|(name, table)| webhook(name, table, findings)).collect(),
        mail: written.mail.as_ref().and_then(|table| mail(table, findings)),
    })
}

fn prices(written: &Named<At<f64>>, findings: &mut Findings<'_>) -> BTreeMap<String, f64> {
    for (flavor, price) in written {
        // Millionths of it are counted, for years.
        if !(0.0..=1e6).contains(&price.value) {
            let message = format!("the price of `{}` cannot be {}", flavor.value, price.value);
            findings
                .error("out-of-range", price.span.clone(), message)
                .expected("a number from 0 to 1000000");
        }
    }
    written.iter().map(|(flavor, price)| (flavor.value.clone(), price.value)).collect()
}

fn mail(table: &MailTable, findings: &mut Findings<'_>) -> Option<AlertMail> {
    let to = table.to.as_ref()?;
    if to.value.is_empty() {
        let message = "`to` has no address";
        findings.error("missing-key", to.span.clone(), message).expected("e.g. [\"ops@example.org\"]");
    }
    for address in to.value.iter().chain(&table.from) {
        if !is_mail_address(&address.value) {
            let message = format!("`{}` is not a mail address", address.value);
            findings.error("bad-address", address.span.clone(), message).expected("e.g. \"ops@example.org\"");
        }
    }
    let server = table.server.as_ref()?;
    if !is_server(&server.value) {
        let message = format!("`{}` is not a mail server", server.value);
        (findings.error("bad-address", server.span.clone(), message))
            .expected("host and port, e.g. \"mail.example.org:587\"");
    }
    Some(AlertMail {
        to: to.value.iter().map(|address| address.value.clone()).collect(),
        from: table.from.as_ref()?.value.clone(),
        server: server.value.clone(),
        credentials: table.credentials.as_ref().and_then(|text| source::credentials(text, findings)),
        tls: table.tls.value,
    })
}

fn is_mail_address(text: &str) -> bool {
    let plain = |part: &str| part.chars().all(|c| c.is_ascii_graphic() && !"\"\\,;<>@".contains(c));
    text.split_once('@')
        .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && plain(user) && plain(host))
}

fn is_server(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

fn webhook(name: &Text, table: &WebhookTable, findings: &mut Findings<'_>) -> Option<Webhook> {
    names::check_name("webhook", name, findings);
    let address = table.address.as_ref()?;
    let address = if ["env:", "file:"].iter().any(|place| address.value.starts_with(place)) {
        WebhookAddress::Secret(source::credentials(address, findings)?)
    } else {
        source::check_url(address, source::Place::Webhook, findings);
        WebhookAddress::Plain(address.value.clone())
    };
    Some(Webhook { name: name.value.clone(), address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_addresses_and_servers() {
        for right in ["ops@example.org", "a.b+c@host"] {
            assert!(is_mail_address(right), "{right}");
        }
        for wrong in ["", "ops", "@example.org", "ops@", "a b@c", "a@b@c", "a,b@c", "\"x\"@y"] {
            assert!(!is_mail_address(wrong), "{wrong}");
        }
        for right in ["mail.example.org:25", "192.0.2.7:587", "[2001:db8::1]:25"] {
            assert!(is_server(right), "{right}");
        }
        for wrong in ["mail.example.org", "mail:0", ":25", "mail:smtp", "a b:25"] {
            assert!(!is_server(wrong), "{wrong}");
        }
    }
}
