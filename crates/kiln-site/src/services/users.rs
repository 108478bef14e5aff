//! The users of the file, their groups, keys and rights.

use kiln_spec::Role;
use kiln_wire::Resource;
use kiln_wire::bundle::{Group, User};
use kiln_wire::make::file;

use super::{Context, Service, mounts};
use crate::service_users::ServiceUser;
use crate::volumes::{Purpose, exists};

pub const USERS: Service = Service { name: "users", software: |_| &["sudo"], resources, ..Service::EMPTY };

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let spec = context.spec;
    // Of the nodes that share the home directories one makes them.
    let shared = exists(spec, Purpose::Home) || mounts::has_home(spec, context.role);
    let make_home = context.role == Role::Control || !shared;
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
    // The group of a service is in every image.
    let is_service = |name: &str| ServiceUser::ALL.iter().any(|user| user.name == name);
    let is_own = |name: &str| context.spec.users.iter().any(|user| user.name == name);
    (context.spec.user_groups.iter())
        .filter(|group| !is_own(&group.name) && !is_service(&group.name))
        .map(|group| {
            let system = context.family.system_groups.contains(&group.name.as_str());
            let gid = (group.given || !system).then_some(group.gid);
            Resource::Group(Group { name: group.name.clone(), gid, system })
        })
        .collect()
}
