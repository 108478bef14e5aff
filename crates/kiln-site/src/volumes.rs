//! The cluster's volumes: what each is for, its name in the cloud, and where nodes mount it.

use kiln_spec::{Spec, Volume};
use kiln_wire::bundle::File;
use kiln_wire::make::file;
use kiln_wire::paths::{BACKUPS, RESTORING, SHARE};

use crate::inputs::Inventory;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What slurmctld, slurmdbd's database and kilnd must find again when the control node is replaced.
    State,
    /// The users' home directories.
    Home,
    /// What compute nodes read when they boot.
    Share,
    /// Backups of what is on the state volume.
    Backup,
}

impl Purpose {
    /// In the order in which control mounts them.
    pub const ALL: [Purpose; 4] = [Purpose::State, Purpose::Home, Purpose::Share, Purpose::Backup];

    pub fn name(self) -> &'static str {
        match self {
            Purpose::State => "state",
            Purpose::Home => "home",
            Purpose::Share => "share",
            Purpose::Backup => "backup",
        }
    }

    /// Where it is mounted.
    pub fn path(self) -> &'static str {
        match self {
            Purpose::State => "/var/lib/state",
            Purpose::Home => "/home",
            Purpose::Share => SHARE,
            Purpose::Backup => BACKUPS,
        }
    }

    /// How large a volume Kiln makes for it; `None`: it makes none.
    pub fn size_gib(self, spec: &Spec) -> Option<u64> {
        if on_file_storage(spec, self) {
            return None;
        }
        let size_gib = match self.written(spec) {
            Some(Volume::Manage { size_gib }) => *size_gib,
            Some(Volume::Attach { .. } | Volume::FileStorage | Volume::None) => return None,
            None => 1,
        };
        Some(size_gib.max(spec.cloud.facts().smallest_volume_gib))
    }

    /// What the file says of it; `None`: it is Kiln's own affair.
    fn written(self, spec: &Spec) -> Option<&Volume> {
        match self {
            Purpose::State => Some(&spec.volumes.state),
            Purpose::Home => Some(&spec.volumes.home),
            Purpose::Share => None,
            Purpose::Backup => Some(&spec.backup.volume),
        }
    }
}

/// The name of a volume in the cloud.
pub fn volume_name(spec: &Spec, purpose: Purpose) -> String {
    match purpose.written(spec) {
        Some(Volume::Attach { name }) => name.clone(),
        _ => format!("{}-{}", spec.name, purpose.name()),
    }
}

/// Whether the cluster has this volume. Without, what it would hold is on the nodes' own disks.
pub fn exists(spec: &Spec, purpose: Purpose) -> bool {
    purpose.written(spec) != Some(&Volume::None)
}

/// Whether it is a file system that the cloud serves over NFS, and no disk of the control node. The share goes with the home
/// directories: the control node then exports nothing.
pub fn on_file_storage(spec: &Spec, purpose: Purpose) -> bool {
    matches!(purpose, Purpose::Home | Purpose::Share) && spec.volumes.home == Volume::FileStorage
}

/// Whether the control node serves its volumes to the others.
pub(crate) fn control_exports(spec: &Spec) -> bool {
    !spec.cloud.facts().shares_volumes && !on_file_storage(spec, Purpose::Share)
}

/// Whether the control node can mount the volume for backups. A volume is attached to an instance when it is created: one
/// that is older than this volume does not have it.
pub(crate) fn has_backup_volume(spec: &Spec, inventory: &Inventory) -> bool {
    exists(spec, Purpose::Backup) && inventory.backup_volume
}

/// What restarts a service that has its data on a volume: should the volume come while it runs, it has seen the wrong
/// data.
pub(crate) fn restart_with(spec: &Spec, purpose: Purpose) -> Option<String> {
    exists(spec, purpose).then(|| format!("mount:{}", purpose.path()))
}

/// After a reboot a service with its data on the state volume waits for it, and does not start without it: the mount
/// table says `nofail`, which orders nothing.
pub(crate) fn only_when_mounted(unit: &str) -> File {
    let state = Purpose::State.path();
    file(
        format!("/etc/systemd/system/{unit}.d/kiln.conf"),
        format!("# Written by Kiln: not without the state volume.\n[Unit]\nRequiresMountsFor={state}\n"),
    )
}

/// What keeps a unit from starting beside the state that a restore has left half way: it would start empty, or with another
/// time than the others.
pub(crate) fn not_half_restored() -> String {
    format!("AssertPathExists=!{RESTORING}\n")
}
