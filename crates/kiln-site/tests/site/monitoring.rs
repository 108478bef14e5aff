//! Monitoring and Slurm's REST API, as the file asks for them.

use kiln_site::Given;

use super::*;

const ASKED: &str = r#"
[slurm]
rest = true
[compute.burst]
nodes = "burst-[0-1]"
elastic = {}
[monitoring]
interval = "15s"
alert_after = "2m"
grafana = true
[monitoring.mail]
to = ["ops@example.org"]
from = "kiln@example.org"
server = "mail.example.org:587"
credentials = "env:MAIL"
[monitoring.webhook.chat]
address = "env:CHAT"
[monitoring.webhook.pager]
address = "https://pager.example.org"
"#;

fn bundle_of(node: &str) -> Bundle {
    let file = FILE.replace("[slurm.config]", &format!("{ASKED}\n[slurm.config]"));
    let spec = kiln_spec::parse(&file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let value = |secret: &Secret| {
        Ok::<_, ()>(match secret.name {
            "rest-certificate" => "-----BEGIN PRIVATE KEY-----\nKEY\n-----END PRIVATE KEY-----\n\
                 -----BEGIN CERTIFICATE-----\nSERVER\n-----END CERTIFICATE-----\n\
                 -----BEGIN CERTIFICATE-----\nAUTHORITY\n-----END CERTIFICATE-----\n"
                .into(),
            other => format!("SECRET-{other}").into(),
        })
    };
    let secrets = Secrets::read(&spec, value, "{}".into(), "ssh-ed25519 AAAA kiln".into()).unwrap();
    let given = [
        (Given::Mail, "me:pass:word\n".into()),
        (Given::Webhook("chat".into()), "https://chat/secret-path\n".into()),
    ];
    let secrets = secrets.with_given(given.into());
    let inventory = inventory(&spec, Release::new(22, 5, 8));
    site(&spec, &inventory, &secrets).bundle(node, &keys(node)).unwrap()
}

fn content(bundle: &Bundle, path: &str) -> String {
    let found = bundle.resources.iter().find_map(|resource| match resource {
        Resource::File(file) if file.path == path => Some(file.content.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no {path} on {}", bundle.node))
}

#[test]
fn ids_are_unique_and_watched_ids_exist() {
    for node in ["control", "login-0", "standard-0", "burst-0"] {
        order::assert_ordered(&bundle_of(node));
    }
}

#[test]
fn prometheus_asks_fixed_nodes_and_kilnd_for_the_others() {
    let control = bundle_of("control");
    insta::assert_snapshot!(content(&control, "/etc/prometheus/prometheus.yml"));
    let nodes = content(&control, "/etc/prometheus/kiln-nodes.json");
    assert!(nodes.contains("standard-1:9100") && !nodes.contains("burst"), "{nodes}");
    let rules = content(&control, "/etc/prometheus/rules.d/kiln.yml");
    assert!(rules.contains("for: 120s") && !rules.contains("ALERT_AFTER"), "{rules}");
}

#[test]
fn alerts_go_to_everyone_who_is_named() {
    insta::assert_snapshot!(content(&bundle_of("control"), "/etc/prometheus/alertmanager.yml"));
}

#[test]
fn only_control_may_ask_a_nodes_exporter() {
    let rules = |node: &str| content(&bundle_of(node), "/etc/kiln/node-exporter.nft");
    assert!(rules("burst-0").contains("tcp dport 9100 ip saddr 10.0.0.10 accept\n    tcp dport 9100 drop\n"));
    assert!(rules("control").contains("tcp dport 9100 iif \"lo\" accept\n    tcp dport 9100 drop\n"));
}

#[test]
fn secrets_are_on_control_alone() {
    for node in ["control", "login-0", "standard-0"] {
        let bundle = bundle_of(node);
        for resource in &bundle.resources {
            let Resource::File(file) = resource else { continue };
            for name in
                ["SECRET-metrics-token", "SECRET-jwt-key", "SECRET-grafana-password", "KEY\n", "secret-path"]
            {
                if file.content.contains(name) {
                    assert!(node == "control" && file.secret, "{name} in {} on {node}", file.path);
                    assert_eq!(file.mode & 0o077, 0, "{}", file.path);
                }
            }
        }
        let trusted = content(&bundle, "/etc/kiln/slurm-rest.crt");
        assert!(trusted.contains("AUTHORITY") && !trusted.contains("SERVER"), "{trusted}");
    }
}

#[test]
fn slurm_believes_tokens() {
    let control = bundle_of("control");
    for conf in ["/etc/slurm/slurm.conf", "/etc/slurm/slurmdbd.conf"] {
        let text = content(&control, conf);
        assert!(
            text.contains("AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key=/etc/slurm/jwt.key\n"),
            "{text}"
        );
    }
    let restarted = |unit: &str| {
        control.resources.iter().any(|resource| {
            matches!(resource, Resource::Service(s)
                if s.unit == unit && s.restart_on.contains(&"file:/etc/slurm/jwt.key".to_string()))
        })
    };
    assert!(restarted("slurmctld.service") && restarted("slurmdbd.service"));
    let slurmrestd = content(&control, "/etc/systemd/system/slurmrestd.service.d/kiln.conf");
    assert!(
        slurmrestd.contains("User=slurmrestd\n") && slurmrestd.contains("-a rest_auth/jwt "),
        "{slurmrestd}"
    );
}
