//! Slurm's REST API: slurmrestd on control, which users reach over TLS with a token of `scontrol token`.
//!
//! slurmrestd has no TLS of its own that can be relied on in all releases, and is not to meet strangers. It listens on a socket that
//! only its own user can open; nginx, as the same user, has the port.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{file, service};

use super::authority::{CLUSTER_CA, pem};
use super::slurm::SLURM_CONF;
use super::{Context, OpenTo, Port, Service, Starts, Unit};
use crate::secret::{Form, Secret};
use crate::service_users::{SLURM, SLURMRESTD};

/// The key that slurmctld and slurmdbd sign and check tokens with.
pub const TOKENS: Service = Service {
    name: "tokens",
    asked_for: Some(is_on),
    software: |_| &["slurm-jwt"],
    users: &[SLURM],
    secrets: &[JWT_KEY],
    resources: |context| {
        let mut key =
            file(JWT_KEY_FILE, context.secrets.value(&JWT_KEY)).owned_by(SLURM.name, 0o400).secret();
        key.base64 = true;
        vec![Resource::File(key)]
    },
    ..Service::EMPTY
};

pub const REST: Service = Service {
    name: "rest",
    asked_for: Some(is_on),
    software: |_| &["slurmrestd", "nginx"],
    users: &[SLURMRESTD],
    units: &[
        Unit::new(SLURMRESTD_UNIT),
        Unit::new(TLS_UNIT),
        // It has a page of its own, which nobody needs here.
        Unit::new("nginx.service").starts(Starts::Never),
    ],
    ports: &[Port { tcp: PORT, open_to: OpenTo::Cluster }],
    secrets: &[CLUSTER_CA, CERTIFICATE],
    certificates: &[("Slurm's REST API", CERTIFICATE_FILE)],
    resources,
    health,
    ..Service::EMPTY
};

/// What programs on any node know the API by.
pub const REST_TRUST: Service = Service {
    name: "rest trust",
    asked_for: Some(is_on),
    resources: |context| vec![authority(context)],
    ..Service::EMPTY
};

pub const JWT_KEY: Secret = Secret {
    name: "jwt-key",
    purpose: "signs the tokens of users of Slurm's REST API",
    form: Form::Base64(32),
    on_nodes: true,
};

pub const CERTIFICATE: Secret = Secret {
    name: "rest-certificate",
    purpose: "the certificate of Slurm's REST API, with its key",
    form: Form::Certificate,
    on_nodes: true,
};

pub const JWT_KEY_FILE: &str = "/etc/slurm/jwt.key";
/// What the certificate is checked with, on all nodes.
pub const AUTHORITY_FILE: &str = "/etc/kiln/slurm-rest.crt";
const PORT: u16 = 6843;
const CERTIFICATE_FILE: &str = "/etc/kiln/slurm-rest.pem";
const SOCKET: &str = "/run/slurmrestd/slurmrestd.socket";
const SLURMRESTD_UNIT: &str = "slurmrestd.service";
const TLS_UNIT: &str = "kiln-rest.service";
const TLS_UNIT_FILE: &str = "/etc/systemd/system/kiln-rest.service";
const TLS_CONFIG: &str = "/etc/kiln/rest-nginx.conf";

pub fn is_on(spec: &Spec) -> bool {
    spec.slurm.rest
}

/// For slurm.conf and slurmdbd.conf.
pub fn parameters(spec: &Spec) -> Vec<(&'static str, String)> {
    if !is_on(spec) {
        return Vec::new();
    }
    vec![("AuthAltTypes", "auth/jwt".into()), ("AuthAltParameters", format!("jwt_key={JWT_KEY_FILE}"))]
}

/// What restarts those who check tokens.
pub fn key_id(spec: &Spec) -> Option<String> {
    is_on(spec).then(|| format!("file:{JWT_KEY_FILE}"))
}

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let certificate = file(CERTIFICATE_FILE, context.secrets.value(&CERTIFICATE));
    let drop_in = format!("/etc/systemd/system/{SLURMRESTD_UNIT}.d/kiln.conf");
    let slurmrestd = service(SLURMRESTD_UNIT, &[&format!("file:{drop_in}"), SLURM_CONF]);
    let tls = service(
        TLS_UNIT,
        &[
            &format!("file:{TLS_UNIT_FILE}"),
            &format!("file:{TLS_CONFIG}"),
            &format!("file:{CERTIFICATE_FILE}"),
        ],
    );
    vec![
        Resource::File(certificate.owned_by(SLURMRESTD.name, 0o400).secret()),
        authority(context),
        Resource::File(file(drop_in, slurmrestd_drop_in())),
        Resource::Service(slurmrestd),
        Resource::File(file(TLS_CONFIG, tls_config())),
        Resource::File(file(TLS_UNIT_FILE, tls_unit())),
        Resource::Service(tls),
    ]
}

/// Behind the certificate that it signed.
fn authority(context: &Context<'_>) -> Resource {
    let parts = pem(context.secrets.value(&CERTIFICATE), "CERTIFICATE");
    Resource::File(file(AUTHORITY_FILE, parts.last().copied().unwrap_or_default()))
}

/// What both daemons have in common: they have no business with anything but each other and slurmctld.
const CONFINED: &str = "User=slurmrestd
Group=slurmrestd
Restart=on-failure
RestartSec=2
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
LockPersonality=yes
";

/// Nobody is believed without a token: the user of the socket counts for nothing.
fn slurmrestd_drop_in() -> String {
    format!(
        "# Written by Kiln.\n[Unit]\nStartLimitIntervalSec=0\n\n[Service]\n{CONFINED}\
         RuntimeDirectory=slurmrestd\nRuntimeDirectoryMode=0700\nEnvironment=SLURM_JWT=daemon\n\
         ExecStart=\nExecStart=/usr/sbin/slurmrestd -a rest_auth/jwt unix:{SOCKET}\n"
    )
}

fn tls_unit() -> String {
    format!(
        "# Written by Kiln.\n[Unit]\nDescription=Kiln: TLS for Slurm's REST API\n\
         After=network-online.target {SLURMRESTD_UNIT}\nStartLimitIntervalSec=0\n\n[Service]\n{CONFINED}\
         RuntimeDirectory=kiln-rest\nExecStart=/usr/sbin/nginx -e stderr -c {TLS_CONFIG} -g \"daemon off;\"\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

fn tls_config() -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("    {what}_temp_path /run/kiln-rest/{what};\n"))
        .concat();
    format!(
        "# Written by Kiln: TLS for Slurm's REST API.\n\
         worker_processes 1;\npid /run/kiln-rest/nginx.pid;\nerror_log stderr;\n\
         events {{ worker_connections 512; }}\n\
         http {{\n{temporary}    access_log off;\n    server_tokens off;\n    client_max_body_size 16m;\n    \
         server {{\n        listen {PORT} ssl;\n        ssl_certificate {CERTIFICATE_FILE};\n        \
         ssl_certificate_key {CERTIFICATE_FILE};\n        ssl_protocols TLSv1.2 TLSv1.3;\n        \
         location / {{\n            proxy_pass http://unix:{SOCKET}:;\n            proxy_http_version 1.1;\n            \
         proxy_set_header Host localhost;\n            proxy_read_timeout 120s;\n        }}\n    }}\n}}\n"
    )
}

/// Over TLS, as users ask. Without a token slurmrestd refuses, which is an answer.
fn health(_: &Spec, _: Role) -> Vec<Question> {
    let ask = format!(
        "printf 'GET /openapi HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' | \
         openssl s_client -quiet -verify_return_error -verify_hostname localhost -CAfile {AUTHORITY_FILE} \
         -connect 127.0.0.1:{PORT}"
    );
    vec![Question::new("Slurm's REST API does not answer", &["sh", "-c", &ask]).shows("HTTP/1.1 401")]
}
