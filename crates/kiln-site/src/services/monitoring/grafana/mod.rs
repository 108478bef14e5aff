//! Data source, dashboards and admin password of a Grafana that the site has put into the control node's image. It listens on the
//! loopback address.

use kiln_spec::Spec;
use kiln_wire::Resource;
use kiln_wire::make::{command, directory, file, service};

use crate::secret::{Form, Secret};
use crate::services::{Context, Service, Unit};

pub const GRAFANA: Service = Service {
    name: "grafana",
    asked_for: Some(is_on),
    units: &[Unit::new(UNIT)],
    secrets: &[ADMIN_PASSWORD],
    resources,
    ..Service::EMPTY
};

pub const ADMIN_PASSWORD: Secret = Secret {
    name: "grafana-password",
    purpose: "the password of Grafana's user `admin`",
    form: Form::Hex,
    on_nodes: true,
};

/// By the names of their files.
pub const DASHBOARDS: [(&str, &str); 2] =
    [("cluster.json", include_str!("cluster.json")), ("nodes.json", include_str!("nodes.json"))];

const UNIT: &str = "grafana-server.service";
const ENVIRONMENT: &str = "/etc/kiln/grafana.env";
const DASHBOARD_DIRECTORY: &str = "/etc/kiln/grafana";

const DATA_SOURCE: &str = "# Written by Kiln.
apiVersion: 1
datasources:
  - {name: Kiln, uid: kiln, type: prometheus, access: proxy, url: \"http://127.0.0.1:9090\", isDefault: true}
";

fn is_on(spec: &Spec) -> bool {
    spec.monitoring.as_ref().is_some_and(|monitoring| monitoring.grafana)
}

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let password = context.secrets.value(&ADMIN_PASSWORD).trim();
    let drop_in = format!("/etc/systemd/system/{UNIT}.d/kiln.conf");
    let provisioning = format!(
        "# Written by Kiln.\napiVersion: 1\nproviders:\n  - {{name: Kiln, folder: Kiln, type: file, options: {{path: {DASHBOARD_DIRECTORY}}}}}\n"
    );
    let environment = format!(
        "# Written by Kiln.\nGF_SERVER_HTTP_ADDR=127.0.0.1\nGF_SECURITY_ADMIN_USER=admin\nGF_SECURITY_ADMIN_PASSWORD={password}\n\
         GF_ANALYTICS_REPORTING_ENABLED=false\nGF_ANALYTICS_CHECK_FOR_UPDATES=false\nGF_USERS_ALLOW_SIGN_UP=false\n"
    );
    // Grafana reads the password when it makes its database, and never again.
    let mut reset = command(
        "password of Grafana",
        &[
            "runuser",
            "--user=grafana",
            "--",
            "grafana-cli",
            "--homepath=/usr/share/grafana",
            "admin",
            "reset-admin-password",
            "--password-from-stdin",
        ],
    );
    reset.stdin = Some(format!("{password}\n"));
    let reset = reset.when_changed(&[&format!("file:{ENVIRONMENT}")]).retry(30);
    let watched = [
        format!("file:{ENVIRONMENT}"),
        format!("file:{drop_in}"),
        "file:/etc/grafana/provisioning/datasources/kiln.yaml".to_string(),
        "file:/etc/grafana/provisioning/dashboards/kiln.yaml".to_string(),
    ];
    let watched: Vec<&str> = watched.iter().map(String::as_str).collect();
    let mut resources = vec![directory(DASHBOARD_DIRECTORY, "root", 0o755)];
    resources.extend(
        DASHBOARDS
            .map(|(name, content)| Resource::File(file(format!("{DASHBOARD_DIRECTORY}/{name}"), content))),
    );
    resources.extend([
        Resource::File(file(ENVIRONMENT, environment).owned_by("root", 0o600).secret()),
        Resource::File(file("/etc/grafana/provisioning/datasources/kiln.yaml", DATA_SOURCE)),
        Resource::File(file("/etc/grafana/provisioning/dashboards/kiln.yaml", provisioning)),
        Resource::File(file(
            drop_in,
            format!("# Written by Kiln.\n[Unit]\nAfter=prometheus.service\n\n[Service]\nEnvironmentFile={ENVIRONMENT}\n"),
        )),
        Resource::Service(service(UNIT, &watched)),
        Resource::Command(reset),
    ]);
    resources
}
