//! Where nodes have their home directories and the share from. On the local cloud every node has the volumes
//! themselves; elsewhere a volume is one node's disk: the control node has them all and exports them over NFS.

use kiln_spec::{Role, Spec, Volume};

use crate::bundle::{File, Mount, MountSource, Resource, Service};
use crate::inputs::{Exports, Inventory};
use crate::make::{command, file, service};
use crate::roles::{SHARE, volume_name};

const PATH: &str = "/etc/exports.d/kiln.exports";

/// A volume that the node itself has.
pub fn volume(spec: &Spec, inventory: &Inventory, purpose: &str, target: &str) -> Resource {
    let name = volume_name(spec, purpose);
    // A disk shows the volume's id, not its name.
    let id = inventory.exports.as_ref().and_then(|e| e.volumes.get(&name)).cloned();
    let source = MountSource::Volume(id.unwrap_or(name));
    Resource::Mount(Mount { target: target.into(), source, read_only: false })
}

/// Where slurmctld, slurmdbd's database and kilnd have what must outlive the control node's disk.
const STATE: &str = "/var/lib/state";

/// The state volume, if there is one.
pub fn state(spec: &Spec, inventory: &Inventory) -> Option<Resource> {
    (spec.volumes.state != Volume::None).then(|| volume(spec, inventory, "state", STATE))
}

/// A service with its data on the state volume. Should the volume come while it runs, it has seen the wrong data.
pub fn resident(spec: &Spec, mut service: Service) -> Service {
    if spec.volumes.state != Volume::None {
        service.restart_on.push(format!("mount:{STATE}"));
    }
    service
}

/// After a reboot such a service waits for the volume, and does not start without it: the mount table says `nofail`,
/// which orders nothing.
pub fn drop_in(unit: &str) -> File {
    file(
        format!("/etc/systemd/system/{unit}.d/kiln.conf"),
        format!("# Written by Kiln: not without the state volume.\n[Unit]\nRequiresMountsFor={STATE}\n"),
    )
}

/// `/home`, if it is on a volume.
pub fn home(spec: &Spec, inventory: &Inventory, role: Role) -> Option<Resource> {
    if spec.volumes.home == Volume::None {
        return None;
    }
    if inventory.exports.is_none() || role == Role::Control {
        return Some(volume(spec, inventory, "home", "/home"));
    }
    let control = inventory.nodes.get(&spec.control.node)?.address;
    let source = MountSource::Nfs(format!("{control}:/home"));
    Some(Resource::Mount(Mount { target: "/home".into(), source, read_only: false }))
}

/// On control, once its volumes are mounted.
pub fn exports(spec: &Spec, inventory: &Inventory) -> Vec<Resource> {
    let Some(Exports { network, .. }) = &inventory.exports else { return Vec::new() };
    let mut lines = vec!["# Written by Kiln.".to_string()];
    if spec.volumes.home != Volume::None {
        lines.push(format!("/home {network}(rw,sync,no_subtree_check,root_squash)"));
    }
    // Bundles are sealed, each to its node: reading another's yields nothing.
    lines.push(format!("{SHARE} {network}(ro,sync,no_subtree_check,root_squash)"));
    // What was exported before the volume came is the empty directory below it.
    let mut exported = command("exports", &["exportfs", "-ra"])
        .when_changed(&[&format!("file:{PATH}"), &format!("mount:{SHARE}")]);
    if spec.volumes.home != Volume::None {
        exported.when_changed.push("mount:/home".into());
    }
    vec![
        Resource::File(file(PATH, lines.join("\n") + "\n")),
        Resource::Service(service("nfs-server.service", &[])),
        Resource::Command(exported),
    ]
}
