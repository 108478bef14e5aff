//! What every node has: names, MUNGE, users, SSH, limits, the site's own files and commands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kiln_spec::{ExtraFile, Role, Spec};

use crate::bundle::{Group, Resource, User};
use crate::inputs::{Inventory, NodeKeys, Secrets};
use crate::make::{command, directory, file, service};

/// Groups that Debian has from the start or that packages make; Kiln gives them no gid of its own.
const SYSTEM_GROUPS: &[&str] = &[
    "adm",
    "audio",
    "cdrom",
    "dialout",
    "disk",
    "docker",
    "games",
    "kvm",
    "netdev",
    "plugdev",
    "render",
    "staff",
    "sudo",
    "systemd-journal",
    "tape",
    "users",
    "video",
];

pub fn hosts(spec: &Spec, inventory: &Inventory) -> Resource {
    let mut text =
        String::from("# Written by Kiln.\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    for (name, facts) in &inventory.nodes {
        let _ = writeln!(text, "{} {name}.{} {name}", facts.address, spec.domain);
    }
    Resource::File(file("/etc/hosts", text))
}

/// The base of every node, and its own keys. They came with its metadata too; here they follow a rotation.
pub fn keys(keys: &NodeKeys, secrets: &Secrets) -> Vec<Resource> {
    vec![
        directory("/etc/kiln", "root", 0o755),
        directory("/etc/ssh/kiln-keys", "root", 0o755),
        Resource::File(
            file(kiln_wire::paths::SEAL_KEY, format!("{}\n", keys.seal_key)).owned_by("root", 0o600).secret(),
        ),
        Resource::File(file(kiln_wire::paths::SENDER_KEY, format!("{}\n", keys.sender_key))),
        Resource::File(
            file("/etc/ssh/ssh_host_ed25519_key", &keys.ssh_host_key).owned_by("root", 0o600).secret(),
        ),
        Resource::File(file("/etc/ssh/ssh_host_ed25519_key.pub", format!("{}\n", keys.ssh_host_public))),
        Resource::File(file("/etc/default/locale", "LANG=C.UTF-8\n")),
        Resource::File(file("/etc/ssh/kiln-keys/root", format!("{}\n", secrets.ssh_public_key))),
    ]
}

/// Users who go from node to node meet only keys that are known.
pub fn known_hosts(spec: &Spec, inventory: &Inventory) -> Resource {
    let mut text = String::from("# Written by Kiln.\n");
    for (name, facts) in &inventory.nodes {
        let _ = writeln!(text, "{name},{name}.{},{} {}", spec.domain, facts.address, facts.ssh_host_public);
    }
    Resource::File(file("/etc/ssh/ssh_known_hosts", text))
}

pub fn munge(secrets: &Secrets) -> Vec<Resource> {
    let mut key = file("/etc/munge/munge.key", &secrets.munge_key_base64).owned_by("munge", 0o400).secret();
    key.base64 = true;
    vec![Resource::File(key), Resource::Service(service("munge.service", &["file:/etc/munge/munge.key"]))]
}

pub fn journal() -> Vec<Resource> {
    vec![
        Resource::File(file(
            "/etc/systemd/journald.conf.d/kiln.conf",
            "# Written by Kiln: keep the journal across reboots, within bounds.\n[Journal]\nStorage=persistent\nSystemMaxUse=200M\n",
        )),
        Resource::Service(
            service("systemd-journald.service", &["file:/etc/systemd/journald.conf.d/kiln.conf"])
                .running_only(),
        ),
    ]
}

pub fn limits() -> Resource {
    Resource::File(file(
        "/etc/security/limits.d/kiln.conf",
        "# Written by Kiln: RDMA and MPI pin memory.\n* soft memlock unlimited\n* hard memlock unlimited\n",
    ))
}

/// Users, their groups, keys and rights. `make_home`: on one of the nodes that share the home directories.
pub fn users(spec: &Spec, make_home: bool) -> Vec<Resource> {
    let mut resources = groups(spec);
    for user in &spec.users {
        resources.push(Resource::Group(Group {
            name: user.name.clone(),
            gid: Some(user.uid),
            system: false,
        }));
        resources.push(Resource::User(User {
            name: user.name.clone(),
            uid: user.uid,
            gid: user.uid,
            groups: user.groups.clone(),
            home: format!("/home/{}", user.name),
            shell: user.shell.clone(),
            make_home,
        }));
        let keys = user.ssh_keys.iter().fold(String::new(), |text, key| text + key + "\n");
        resources.push(Resource::File(file(format!("/etc/ssh/kiln-keys/{}", user.name), keys)));
    }
    let admins = spec.users.iter().filter(|u| u.sudo);
    let sudoers = admins.fold(String::from("# Written by Kiln.\n"), |text, user| {
        text + &user.name + " ALL=(ALL:ALL) NOPASSWD: ALL\n"
    });
    resources.push(Resource::File(file("/etc/sudoers.d/kiln", sudoers).owned_by("root", 0o440)));
    resources
}

fn groups(spec: &Spec) -> Vec<Resource> {
    let names: BTreeSet<&str> = spec.users.iter().flat_map(|u| u.groups.iter().map(String::as_str)).collect();
    let personal: BTreeSet<&str> = spec.users.iter().map(|u| u.name.as_str()).collect();
    let mut taken: BTreeMap<u32, &str> = spec.users.iter().map(|u| (u.uid, u.name.as_str())).collect();
    let mut resources = Vec::new();
    for name in names.into_iter().filter(|n| !personal.contains(n)) {
        let system = SYSTEM_GROUPS.contains(&name);
        let gid = (!system).then(|| {
            let mut gid = gid_of(name);
            while taken.contains_key(&gid) {
                gid += 1;
            }
            taken.insert(gid, name);
            gid
        });
        resources.push(Resource::Group(Group { name: name.into(), gid, system }));
    }
    resources
}

/// A gid that depends on the name alone, so that a group keeps its files when other groups come and go.
fn gid_of(name: &str) -> u32 {
    let hash =
        name.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    40_000 + hash % 19_000
}

pub fn sshd() -> Vec<Resource> {
    let config = file(
        "/etc/ssh/sshd_config.d/kiln.conf",
        "# Written by Kiln.\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nUsePAM yes\n\
         AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/kiln-keys/%u\n\
         HostKey /etc/ssh/ssh_host_ed25519_key\n\
         # Kiln reaches all nodes at once, where need be through one of them.\n\
         MaxStartups 300:30:600\n\
         # Root's keys are Kiln's alone, so that a rotated one is really gone.\n\
         Match User root\n    AuthorizedKeysFile /etc/ssh/kiln-keys/root\n",
    );
    let mut ssh = service("ssh.service", &[]);
    ssh.reload_on =
        vec!["file:/etc/ssh/sshd_config.d/kiln.conf".into(), "file:/etc/ssh/ssh_host_ed25519_key".into()];
    vec![Resource::File(config), Resource::Service(ssh)]
}

pub fn site_file(extra: &ExtraFile) -> Resource {
    let mut resource = file(&extra.path, &extra.content);
    resource.mode = extra.mode;
    resource.owner.clone_from(&extra.owner);
    resource.group.clone_from(&extra.group);
    Resource::File(resource)
}

/// What the site adds to a role. The commands run again when their list or one of the files changed.
pub fn extras(spec: &Spec, role: Role) -> Vec<Resource> {
    let extras = spec.roles.of(role);
    let mut resources: Vec<Resource> = Vec::new();
    let mut watched: Vec<String> = Vec::new();
    for resource in extras.files.iter().map(site_file) {
        watched.push(resource.id());
        resources.push(resource);
    }
    if !extras.commands.is_empty() {
        let script = extras
            .commands
            .iter()
            .fold(String::from("#!/bin/sh\n# Written by Kiln.\nset -eu\n"), |text, line| text + line + "\n");
        let script = Resource::File(file("/etc/kiln/site-commands", script).owned_by("root", 0o700));
        watched.push(script.id());
        resources.push(script);
        let mut run = command("site commands", &["/etc/kiln/site-commands"]);
        run.when_changed = watched;
        resources.push(Resource::Command(run));
    }
    resources
}
