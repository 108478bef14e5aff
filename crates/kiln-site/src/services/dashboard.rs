//! kilnd's dashboard for others on the network, where the file says so. kilnd itself has the port, the certificate and its key: they are
//! part of the fleet file, so a new certificate takes effect without a restart.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::dashboard::TLS_PORT;
use kiln_wire::make::file;

use super::authority::{CLUSTER_CA, pem};
use super::{Context, OpenTo, Port, Service};
use crate::secret::{Form, Secret};

pub const DASHBOARD: Service = Service {
    name: "dashboard",
    asked_for: Some(|spec| spec.dashboard.is_some()),
    ports: &[Port { tcp: TLS_PORT, open_to: OpenTo::Cluster }],
    resources: |context| vec![Resource::File(file(CERTIFICATE_FILE, shown(context)))],
    certificates: &[("the dashboard", CERTIFICATE_FILE)],
    health,
    ..Service::EMPTY
};

/// Where the site has no certificate for it.
pub const DASHBOARD_AUTHORITY: Service = Service {
    name: "dashboard certificate",
    asked_for: Some(has_own_certificate),
    secrets: &[CLUSTER_CA, CERTIFICATE],
    ..Service::EMPTY
};

pub const CERTIFICATE: Secret = Secret {
    name: "dashboard-certificate",
    purpose: "the certificate of the dashboard, with its key",
    form: Form::Certificate,
    on_nodes: true,
};

/// What it shows to others: its certificate and those that signed it.
pub const CERTIFICATE_FILE: &str = "/etc/kiln/dashboard.crt";

pub fn has_own_certificate(spec: &Spec) -> bool {
    spec.dashboard.as_ref().is_some_and(|dashboard| dashboard.certificate.is_none())
}

fn shown(context: &Context<'_>) -> String {
    let site = context.spec.dashboard.as_ref().and_then(|dashboard| dashboard.certificate.as_ref());
    match site {
        Some(certificate) => certificate.pem.clone(),
        None => pem(context.secrets.value(&CERTIFICATE), "CERTIFICATE").concat(),
    }
}

/// Over TLS, as browsers ask. Whom the site's certificate is signed by is the site's business.
fn health(spec: &Spec, _: Role) -> Vec<Question> {
    let trust = if has_own_certificate(spec) {
        format!("-verify_return_error -verify_hostname localhost -CAfile {CERTIFICATE_FILE}")
    } else {
        String::new()
    };
    let ask = format!(
        "printf 'GET /login HTTP/1.1\\r\\nHost: {}\\r\\nConnection: close\\r\\n\\r\\n' | \
         openssl s_client -quiet {trust} -connect 127.0.0.1:{TLS_PORT}",
        spec.control.node
    );
    vec![Question::new("the dashboard does not answer over TLS", &["sh", "-c", &ask]).shows("HTTP/1.1 200")]
}
