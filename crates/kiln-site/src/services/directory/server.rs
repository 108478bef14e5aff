//! A 389 Directory Server on the control node. Its configuration and its data are on the state volume.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::bundle::Link;
use kiln_wire::checkup::Question;
use kiln_wire::directory::{ADMINS, FIRST_NUMBER};
use kiln_wire::make::{command, directory, file, service};

use super::super::authority::{CLUSTER_CA, pem};
use super::super::{Context, OpenTo, Port, Service, Starts, Unit};
use super::{CA_FILE, has_server};
use crate::secret::{Form, Secret};
use crate::volumes::{Purpose, not_half_restored, only_when_mounted, restart_with};

pub const SERVER: Service = Service {
    name: "directory server",
    asked_for: Some(has_server),
    software: |_| &["389-ds"],
    // No image has an instance of it.
    units: &[Unit::new(UNIT).starts(Starts::WithSystem).saves_on_stop()],
    volumes: &[Purpose::State],
    ports: &[Port { tcp: 636, open_to: OpenTo::Cluster }],
    secrets: &[CLUSTER_CA, CERTIFICATE, DIRECTORY_PASSWORD],
    certificates: &[("the directory", CERTIFICATE_FILE)],
    resources,
    health,
    ..Service::EMPTY
};

/// With its key, and the certificate of the authority behind it.
pub const CERTIFICATE: Secret = Secret {
    name: "directory-certificate",
    purpose: "shows nodes that the directory server is the cluster's",
    form: Form::Certificate,
    on_nodes: true,
};

pub const DIRECTORY_PASSWORD: Secret = Secret {
    name: "directory-password",
    purpose: "of `cn=Directory Manager`, who may change all of the directory",
    form: Form::Hex,
    on_nodes: true,
};

pub(super) const UNIT: &str = "dirsrv@kiln.service";
/// On the state volume.
const STATE: &str = "/var/lib/state/directory";
const CERTIFICATE_FILE: &str = "/etc/kiln/directory/certificate.pem";
const SETUP: &str = "/etc/kiln/directory/server.inf";
const ENTRIES: &str = "/etc/kiln/directory/entries.ldif";
const PASSWORD_FILE: &str = "/etc/kiln/directory/password";
const MANAGER: &str = "cn=Directory Manager";
/// Root of the node is the manager here, without a password.
const SOCKET: &str = "ldapi://%2frun%2fslapd-kiln.socket";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let spec = context.spec;
    let Some(base) = spec.directory.as_ref().map(kiln_spec::Directory::base) else { return Vec::new() };
    let password = context.secrets.value(&DIRECTORY_PASSWORD);
    let certificate = context.secrets.value(&CERTIFICATE);
    let part = |label: &str, at: usize| pem(certificate, label).get(at).copied().unwrap_or_default();
    let root_file = |path: &str, content: &str| file(path, content).owned_by("root", 0o600);
    let mut resources = vec![
        directory("/etc/kiln/directory", "root", 0o700),
        Resource::File(root_file("/etc/kiln/directory/key.pem", part("PRIVATE KEY", 0)).secret()),
        Resource::File(root_file(CERTIFICATE_FILE, part("CERTIFICATE", 0))),
        // Clients know the server by it, and the server itself wants to see the whole chain.
        Resource::File(file(CA_FILE, part("CERTIFICATE", 1))),
        Resource::File(root_file(PASSWORD_FILE, password).secret()),
        Resource::File(root_file(SETUP, &setup(spec, base, password)).secret()),
        Resource::File(root_file(ENTRIES, &entries(base))),
        Resource::File(unit_file()),
    ];
    resources.extend(commands_before(spec));
    let unit_file_id = format!("file:/etc/systemd/system/{UNIT}.d/kiln.conf");
    resources.push(Resource::Service(service(UNIT, &[&unit_file_id])));
    resources.extend([Resource::Command(answers()), Resource::Command(password_set())]);
    resources
}

/// What `dscreate` reads. A certificate of its own would take most of its time, and is replaced before the server is used.
fn setup(spec: &Spec, base: &str, password: &str) -> String {
    let (control, domain) = (&spec.control.node, &spec.domain);
    format!(
        "; Written by Kiln.\n[general]\nconfig_version = 2\nfull_machine_name = {control}.{domain}\n\
         strict_host_checking = False\nselinux = False\nstart = False\n\n\
         [slapd]\ninstance_name = kiln\nroot_dn = {MANAGER}\nroot_password = {password}\nport = 389\nsecure_port = 636\n\
         self_sign_cert = False\n\n\
         [backend-userroot]\nsuffix = {base}\ncreate_suffix_entry = True\nsample_entries = no\n"
    )
}

/// Settings and entries that a new directory begins with. Everybody on the cluster's network may read what every user of a node can see with
/// `getent`; only the manager changes anything. Nobody talks to it without TLS.
fn entries(base: &str) -> String {
    let readable = |what: &str| {
        format!(
            "aci: (targetattr=\"{what}\")(version 3.0; acl \"nodes read\"; allow (read, search, compare) userdn=\"ldap:///anyone\";)\n"
        )
    };
    let people = readable(
        "objectClass || uid || cn || displayName || uidNumber || gidNumber || homeDirectory || loginShell || gecos || nsSshPublicKey || modifyTimestamp || entryUSN",
    );
    let groups = readable("objectClass || cn || gidNumber || member || modifyTimestamp || entryUSN");
    let rules = readable("*");
    let suffix = readable("objectClass || dc || o || ou");
    format!(
        "dn: cn=config\nchangetype: modify\nreplace: nsslapd-port\nnsslapd-port: 0\n-\nreplace: nsslapd-security\nnsslapd-security: on\n-\nreplace: nsslapd-accesslog-maxlogsperdir\nnsslapd-accesslog-maxlogsperdir: 2\n\n\
         dn: {base}\nchangetype: modify\nadd: aci\n{suffix}\n\
         dn: ou=people,{base}\nchangetype: add\nobjectClass: organizationalUnit\nou: people\n{people}\n\
         dn: ou=groups,{base}\nchangetype: add\nobjectClass: organizationalUnit\nou: groups\n{groups}\n\
         dn: ou=sudoers,{base}\nchangetype: add\nobjectClass: organizationalUnit\nou: sudoers\n{rules}\n\
         dn: cn={ADMINS},ou=sudoers,{base}\nchangetype: add\nobjectClass: sudoRole\ncn: {ADMINS}\nsudoUser: %{ADMINS}\nsudoHost: ALL\n\
         sudoRunAsUser: ALL\nsudoRunAsGroup: ALL\nsudoCommand: ALL\nsudoOption: !authenticate\n\n\
         dn: cn=numbers,{base}\nchangetype: add\nobjectClass: nsContainer\nobjectClass: extensibleObject\ncn: numbers\nuidNumber: {FIRST_NUMBER}\n"
    )
}

/// A control node that was rebuilt has none of the directories that `dscreate` makes.
fn unit_file() -> kiln_wire::bundle::File {
    let mut unit_file = only_when_mounted(UNIT);
    unit_file.content += &not_half_restored();
    unit_file.content += "[Service]\nExecStartPre=/usr/bin/install -d -o dirsrv -g dirsrv -m 0770 /run/dirsrv /run/lock/dirsrv /run/lock/dirsrv/slapd-kiln /var/log/dirsrv/slapd-kiln\n";
    unit_file
}

/// The directory is made, or found on the volume, and has its present certificate.
fn commands_before(spec: &Spec) -> Vec<Resource> {
    let after_mount = |mut command: kiln_wire::bundle::Command| {
        command.needs.extend(restart_with(spec, Purpose::State));
        Resource::Command(command)
    };
    let new = command("new directory", &["sh", "-c", include_str!("new-directory.sh")]);
    let link = |path: &str, target: &str| {
        Resource::Link(Link { path: path.into(), target: format!("{STATE}/{target}") })
    };
    // Another image may have the user with another number.
    let owned = command(
        "the directory belongs to dirsrv",
        &["chown", "--recursive", "--no-dereference", "dirsrv:dirsrv", STATE],
    );
    let is_owned = format!("test -z \"$(find {STATE} ! -user dirsrv -print -quit)\"");
    let certificate = command("certificate of the directory", &["sh", "-c", include_str!("certificate.sh")]);
    let has_certificate = format!("cmp -s {CERTIFICATE_FILE} {STATE}/certificate.pem");
    vec![
        after_mount(new.unless(&["test", "-d", STATE])),
        link("/etc/dirsrv/slapd-kiln", "config"),
        link("/var/lib/dirsrv/slapd-kiln", "data"),
        after_mount(certificate.unless(&["sh", "-c", &has_certificate])),
        after_mount(owned.unless(&["sh", "-c", &is_owned])),
    ]
}

fn answers() -> kiln_wire::bundle::Command {
    let whoami = ["ldapwhoami", "-Q", "-Y", "EXTERNAL", "-H", SOCKET];
    command("the directory answers", &whoami).unless(&whoami).retry(60)
}

/// After a rotation.
fn password_set() -> kiln_wire::bundle::Command {
    let set = command("password of the directory", &["sh", "-c", include_str!("password.sh")]);
    set.unless(&["ldapwhoami", "-x", "-D", MANAGER, "-y", PASSWORD_FILE, "-H", SOCKET])
}

/// Whether it answers is asked where sssd is, on every node.
fn health(_: &Spec, _: Role) -> Vec<Question> {
    const MONTH: &str = "2592000";
    let good = ["openssl", "x509", "-noout", "-checkend", MONTH, "-in", CERTIFICATE_FILE];
    vec![Question::new(
        "the certificate of the directory ends within 30 days: `kiln configure` renews it",
        &good,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_reads_more_than_what_every_node_shows() {
        let entries = entries("dc=demo,dc=internal");
        assert!(!entries.contains("userPassword"), "{entries}");
        assert_eq!(
            entries.matches("allow (read, search, compare)").count(),
            entries.matches("aci: ").count()
        );
        for of in ["ou=people", "ou=groups", "ou=sudoers", "cn=numbers"] {
            assert!(entries.contains(&format!("dn: {of},dc=demo,dc=internal\n")), "{of}: {entries}");
        }
    }
}
