//! sssd: users, groups, keys and sudo's rules from the directory, kept on the node for when the directory is away.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{command, file, service};

use super::super::authority::pem;
use super::super::{Context, ForJobs, Service, Starts, Unit};
use super::sssd_conf::sssd_conf;
use super::{CA_FILE, CERTIFICATE, has_server, of_site, server, uris};
use crate::secret::{Form, Secret};

pub const CLIENT: Service = Service {
    name: "directory",
    asked_for: Some(|spec| spec.directory.is_some()),
    software: |_| &["sssd"],
    // Without a configuration it does not start.
    units: &[Unit::new(UNIT).starts(Starts::WithSystem)],
    resources,
    health,
    // Who has jobs is known on the node while the directory is away.
    for_jobs: ForJobs::Runs,
    ..Service::EMPTY
};

/// What a directory of the site wants to know of the nodes.
pub const SITE_PASSWORD: Service = Service {
    name: "password of the directory",
    asked_for: Some(|spec| spec.directory.as_ref().is_some_and(|directory| directory.bind_dn().is_some())),
    secrets: &[BIND_PASSWORD],
    // Without a line break, as `ldapsearch` wants it.
    resources: |context| {
        let password = context.secrets.value(&BIND_PASSWORD).trim();
        vec![Resource::File(file(PASSWORD_FILE, password).owned_by("root", 0o600).secret())]
    },
    ..Service::EMPTY
};

pub const BIND_PASSWORD: Secret = Secret {
    name: "directory-bind-password",
    purpose: "the nodes' access to the site's directory",
    form: Form::Text,
    on_nodes: true,
};

const UNIT: &str = "sssd.service";
const CONFIG: &str = "/etc/sssd/sssd.conf";
const PASSWORD_FILE: &str = "/etc/kiln/directory-password";
/// Of the services that sssd starts itself, as its configuration says. Where a system has these on, they fail.
const SOCKETS: [&str; 6] = [
    "sssd-autofs.socket",
    "sssd-nss.socket",
    "sssd-pam.socket",
    "sssd-pam-priv.socket",
    "sssd-ssh.socket",
    "sssd-sudo.socket",
];

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let spec = context.spec;
    let mut resources = Vec::new();
    let ca = match of_site(spec) {
        Some(ldap) => ldap.ca.as_deref(),
        None => pem(context.secrets.value(&CERTIFICATE), "CERTIFICATE").get(1).copied(),
    };
    resources.extend(ca.map(|ca| Resource::File(file(CA_FILE, ca))));
    let password = of_site(spec).and_then(|ldap| ldap.bind_dn.as_ref());
    let password = password.map(|_| context.secrets.value(&BIND_PASSWORD).trim());
    let config = file(CONFIG, sssd_conf(spec, CA_FILE, password)).owned_by("root", 0o600);
    let config = if password.is_some() { config.secret() } else { config };
    let no_sockets = [&["systemctl", "disable", "--now", "--quiet"], &SOCKETS[..]].concat();
    let is_off = "for unit; do ! systemctl --quiet is-enabled \"$unit\" 2>/dev/null || exit 1; done";
    let are_off = [&["sh", "-c", is_off, "sh"], &SOCKETS[..]].concat();
    let home = &context.family.home_at_login;
    let mut sssd = service(UNIT, &[&format!("file:{CONFIG}")]);
    sssd.restart_on.extend(ca.map(|_| format!("file:{CA_FILE}")));
    resources.extend([
        Resource::File(config),
        Resource::File(after(context.role, spec)),
        Resource::Command(command("sssd starts its own services", &no_sockets).unless(&are_off)),
        Resource::Service(sssd),
        Resource::Command(command("homes are made at the first login", home.command).unless(home.done)),
    ]);
    if context.role == Role::Control && !has_server(spec) {
        // One that the file had before. What it has stays on the state volume.
        let stop =
            command("no directory server", &["systemctl", "disable", "--now", "--quiet", server::UNIT]);
        let is_off = format!("! systemctl --quiet is-active {}", server::UNIT);
        resources.push(Resource::Command(stop.unless(&["sh", "-c", &is_off])));
    }
    if context.role == Role::Control {
        // It asks for the numbers of all users who have an account.
        let after = "# Written by Kiln.\n[Unit]\nAfter=sssd.service\n";
        resources.push(Resource::File(file("/etc/systemd/system/slurmctld.service.d/directory.conf", after)));
    }
    resources
}

/// Where the server runs on the same node, sssd finds it at its first question.
fn after(role: Role, spec: &Spec) -> kiln_wire::bundle::File {
    let server =
        if role == Role::Control && has_server(spec) { server::UNIT } else { "network-online.target" };
    let content = format!("# Written by Kiln.\n[Unit]\nAfter={server}\n[Service]\nRestart=on-failure\n");
    file(format!("/etc/systemd/system/{UNIT}.d/kiln.conf"), content)
}

/// The server itself, as the node reaches it: sssd would answer from what it has kept.
fn health(spec: &Spec, _: Role) -> Vec<Question> {
    let Some(directory) = &spec.directory else { return Vec::new() };
    let uris = uris(spec).join(" ");
    let has_ca = of_site(spec).is_none_or(|ldap| ldap.ca.is_some());
    let ca = format!("LDAPTLS_CACERT={CA_FILE}");
    let mut ask = vec!["env", "LDAPTLS_REQCERT=demand"];
    ask.extend(has_ca.then_some(ca.as_str()));
    ask.extend(["ldapsearch", "-x", "-LLL", "-o", "nettimeout=5", "-H", &uris]);
    if uris.split(' ').any(|uri| uri.starts_with("ldap://")) {
        ask.push("-ZZ");
    }
    if let Some(dn) = directory.bind_dn() {
        ask.extend(["-D", dn, "-y", PASSWORD_FILE]);
    }
    ask.extend(["-s", "base", "-b", directory.base(), "1.1"]);
    vec![Question::new("the directory does not answer; users who are known here can still log in", &ask)]
}
