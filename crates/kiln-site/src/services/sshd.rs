//! sshd, which Kiln and the users log in by.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{file, service};

use super::{Context, OpenTo, Port, Service, Starts, Unit, metadata};
use crate::secret::{Form, Secret};

pub const SSHD: Service = Service {
    name: "sshd",
    software: |_| &["openssh-server"],
    units: &[Unit::new(UNIT).starts(Starts::AtBoot)],
    ports: &[
        Port { tcp: 22, open_to: OpenTo::Everyone },
        // Others on the network may try to log in, as on login nodes: the deploy host may be one of them.
        Port { tcp: 22, open_to: OpenTo::Network },
    ],
    secrets: &[SSH_KEY],
    resources,
    health,
    ..Service::EMPTY
};

pub const SSH_KEY: Secret = Secret {
    name: "ssh-key",
    purpose: "Kiln's own SSH access to the nodes",
    form: Form::SshKey,
    on_nodes: false,
};

const UNIT: &str = "sshd.service";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let config = file("/etc/ssh/sshd_config.d/kiln.conf", config(context));
    let unit = context.family.unit(UNIT);
    // Who logs in must not find the metadata open. Root's way in must not depend on it: where the unit fails, it closes the
    // node to everybody else.
    let after_metadata = file(
        format!("/etc/systemd/system/{unit}.d/kiln.conf"),
        format!(
            "# Written by Kiln.\n[Unit]\nWants={METADATA}\nAfter={METADATA}\n",
            METADATA = metadata::UNIT
        ),
    );
    let mut ssh = service(unit, &[]);
    ssh.reload_on =
        vec!["file:/etc/ssh/sshd_config.d/kiln.conf".into(), "file:/etc/ssh/ssh_host_ed25519_key".into()];
    vec![Resource::File(config), Resource::File(after_metadata), Resource::Service(ssh)]
}

fn config(context: &Context<'_>) -> String {
    // On control only the file says who gets in, and with which keys: the home directories are shared with nodes whose root
    // could write any key there.
    let (keys, allowed) = if context.role == Role::Control {
        let admins = context.spec.users.iter().filter(|user| user.sudo).map(|user| user.name.as_str());
        let allowed = ["root"].into_iter().chain(admins).collect::<Vec<_>>().join(" ");
        (
            "/etc/ssh/kiln-keys/%u",
            format!("# Users of the cluster log in to login nodes.\nAllowUsers {allowed}\n"),
        )
    } else {
        (".ssh/authorized_keys /etc/ssh/kiln-keys/%u", directory_keys(context))
    };
    let root_alone =
        if allowed.starts_with("AuthorizedKeysCommand") { "    AuthorizedKeysCommand none\n" } else { "" };
    format!(
        "# Written by Kiln.\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nUsePAM yes\n\
         AuthorizedKeysFile {keys}\n\
         HostKey /etc/ssh/ssh_host_ed25519_key\n\
         {allowed}\
         # Kiln reaches all nodes at once, where need be through one of them.\n\
         MaxStartups 300:30:600\n\
         # Root's keys are Kiln's alone, so that a rotated one is really gone.\n\
         Match User root\n    AuthorizedKeysFile /etc/ssh/kiln-keys/root\n{root_alone}"
    )
}

/// Of users of a directory. On control none of them log in.
fn directory_keys(context: &Context<'_>) -> String {
    match context.spec.directory {
        Some(_) => {
            "AuthorizedKeysCommand /usr/bin/sss_ssh_authorizedkeys %u\nAuthorizedKeysCommandUser nobody\n"
                .into()
        }
        None => String::new(),
    }
}

/// A session that is open says nothing of the next one.
fn health(_: &Spec, _: Role) -> Vec<Question> {
    vec![Question::new("sshd would refuse its configuration at the next start", &["sshd", "-t"])]
}
