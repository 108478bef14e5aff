//! The NFS server, where a volume is one node's disk: control exports the home directories and the share, unless the cloud does.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{command, file, service};
use kiln_wire::paths::SHARE;

use super::{Context, OpenTo, Port, Service, Unit};
use crate::inputs::Exports;
use crate::volumes::{Purpose, control_exports, exists};

pub const NFS_SERVER: Service = Service {
    name: "nfs server",
    wanted: Some(control_exports),
    software: |_| &["nfs-server"],
    units: &[Unit::new(SERVER)],
    ports: &[Port { tcp: 2049, open_to: OpenTo::Cluster }],
    resources,
    health,
    ..Service::EMPTY
};

const SERVER: &str = "nfs-server.service";
const EXPORTS: &str = "/etc/exports.d/kiln.exports";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let Some(Exports { network, .. }) = &context.inventory.exports else { return Vec::new() };
    let home = exists(context.spec, Purpose::Home);
    let mut lines = vec!["# Written by Kiln.".to_string()];
    if home {
        lines.push(format!("/home {network}(rw,sync,no_subtree_check,root_squash)"));
    }
    // Bundles are sealed, each to its node: reading another's yields nothing.
    lines.push(format!("{SHARE} {network}(ro,sync,no_subtree_check,root_squash)"));
    // What was exported before the volume came is the empty directory below it.
    let mut exported = command("exports", &["exportfs", "-ra"])
        .when_changed(&[&format!("file:{EXPORTS}"), &format!("mount:{SHARE}")]);
    if home {
        exported.when_changed.push("mount:/home".into());
    }
    vec![
        Resource::File(file(EXPORTS, lines.join("\n") + "\n")),
        Resource::Service(service(context.family.unit(SERVER), &[])),
        Resource::Command(exported),
    ]
}

fn health(spec: &Spec, _: Role) -> Vec<Question> {
    let home = exists(spec, Purpose::Home).then(|| Purpose::Home.path());
    let paths = home.into_iter().chain([SHARE]);
    let asked = paths.map(|path| {
        Question::new(format!("{path} is not exported"), &["exportfs", "-s"]).shows(format!("{path} "))
    });
    asked.collect()
}
