//! The users of the file, their groups, keys and rights.

use std::collections::{BTreeMap, BTreeSet};

use kiln_spec::Role;
use kiln_wire::Resource;
use kiln_wire::bundle::{Group, User};
use kiln_wire::make::file;

use super::{Context, Service};
use crate::service_users::ServiceUser;
use crate::volumes::{Purpose, exists};

pub const USERS: Service = Service { name: "users", software: |_| &["sudo"], resources, ..Service::EMPTY };

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let spec = context.spec;
    // Of the nodes that share the home directories one makes them.
    let make_home = context.role == Role::Control || !exists(spec, Purpose::Home);
    let mut resources = groups(context);
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
            system: false,
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

fn groups(context: &Context<'_>) -> Vec<Resource> {
    let users = &context.spec.users;
    let names: BTreeSet<&str> = users.iter().flat_map(|u| u.groups.iter().map(String::as_str)).collect();
    let personal: BTreeSet<&str> = users.iter().map(|u| u.name.as_str()).collect();
    let mut taken: BTreeMap<u32, &str> = users.iter().map(|u| (u.uid, u.name.as_str())).collect();
    let mut resources = Vec::new();
    // The group of a service is in every image.
    let is_service = |name: &&str| ServiceUser::ALL.iter().any(|user| user.name == *name);
    for name in names.into_iter().filter(|n| !personal.contains(n) && !is_service(n)) {
        let system = context.family.system_groups.contains(&name);
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
