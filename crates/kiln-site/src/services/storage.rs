//! The cluster's volumes, mounted. On the local cloud every node has the volumes themselves; elsewhere a volume is one
//! node's disk: the control node has them all and exports them over NFS. File systems that the cloud serves itself are
//! mounted from there, by all nodes.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::bundle::{Mount, MountSource};
use kiln_wire::checkup::Question;
use kiln_wire::make::directory;
use kiln_wire::paths::SHARE;

use super::{Context, Service, mounts, quota};
use crate::volumes::{Purpose, exists, has_backup_volume, on_file_storage, volume_name};

pub const STORAGE: Service = Service { name: "storage", resources, health, ..Service::EMPTY };

fn resources(context: &Context<'_>) -> Vec<Resource> {
    if context.role != Role::Control {
        return mounts::home(context).or_else(|| home(context)).into_iter().collect();
    }
    let volumes = Purpose::ALL.into_iter().filter_map(|purpose| volume(context, purpose));
    let mut resources: Vec<Resource> = volumes.chain(mounts::home(context)).collect();
    resources.push(directory(&format!("{SHARE}/bundles"), "root", 0o755));
    resources
}

/// A volume that the node itself has.
fn volume(context: &Context<'_>, purpose: Purpose) -> Option<Resource> {
    if on_file_storage(context.spec, purpose) {
        return served(context, purpose);
    }
    let name = volume_name(context.spec, purpose);
    // A disk shows the volume's id, not its name.
    let id = context.inventory.exports.as_ref().and_then(|e| e.volumes.get(&name)).cloned();
    let source = MountSource::Volume(id.unwrap_or(name));
    let format = purpose.size_gib(context.spec).is_some();
    let quota = purpose == Purpose::Home && context.role == Role::Control && quota::are_kept(context.spec);
    let mount = Mount { target: purpose.path().into(), source, read_only: false, format, quota };
    let there = match purpose {
        Purpose::Backup => has_backup_volume(context.spec, context.inventory),
        _ => exists(context.spec, purpose),
    };
    there.then_some(Resource::Mount(mount))
}

/// A file system of the cloud's own, which every node mounts from the same place.
fn served(context: &Context<'_>, purpose: Purpose) -> Option<Resource> {
    let name = volume_name(context.spec, purpose);
    let export = context.inventory.exports.as_ref()?.file_systems.get(&name)?;
    let (target, source) = (purpose.path().into(), MountSource::Nfs3(export.clone()));
    Some(Resource::Mount(Mount { target, source, read_only: false, format: false, quota: false }))
}

/// `/home` on another node than control, if it is on a volume.
fn home(context: &Context<'_>) -> Option<Resource> {
    let is_own = context.inventory.exports.is_none() || !exists(context.spec, Purpose::Home);
    if is_own || on_file_storage(context.spec, Purpose::Home) {
        return volume(context, Purpose::Home);
    }
    let control = context.inventory.nodes.get(&context.spec.control.node)?.address;
    let home = Purpose::Home.path();
    let source = MountSource::Nfs(format!("{control}:{home}"));
    Some(Resource::Mount(Mount {
        target: home.into(),
        source,
        read_only: false,
        format: false,
        quota: false,
    }))
}

/// A server that is gone makes the question hang, which is an answer as well. The volume for backups is asked for with
/// them: not every instance has it.
fn health(spec: &Spec, role: Role) -> Vec<Question> {
    let mounted = |purpose: &Purpose| match purpose {
        Purpose::Home => true,
        Purpose::State | Purpose::Share => role == Role::Control,
        Purpose::Backup => false,
    };
    let purposes = Purpose::ALL.into_iter().filter(mounted).filter(|purpose| exists(spec, *purpose));
    let paths = purposes.map(Purpose::path);
    paths.map(|path| Question::new(format!("{path} is not mounted"), &["mountpoint", path])).collect()
}
