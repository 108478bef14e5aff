//! What the second stage hands to the third.

use std::ops::Range;

use crate::tables::{
    CloudTable, ComputeOverrideTable, ImageTable, ReconcileTable, RolesTable, SlurmTable, UserTable,
    VolumeMode,
};
use crate::written::{At, List, Named, Scalar, Text};
use crate::{ImageUpdate, Role};

/// An `Option` is either optional in the spec too, or was reported as missing or wrong.
pub(crate) struct Merged {
    pub name: Option<Text>,
    pub domain: Option<Text>,
    pub concurrency: At<i64>,
    pub cloud: CloudTable,
    pub images: Vec<Image>,
    pub control: Control,
    pub login: Vec<Group>,
    pub compute: Vec<Group>,
    pub state: Disk,
    pub home: Disk,
    pub partitions: Vec<Partition>,
    pub rebuild: Vec<Rebuild>,
    pub slurm: SlurmTable,
    pub users: Named<UserTable>,
    pub roles: RolesTable,
    pub reconcile: ReconcileTable,
}

pub(crate) struct Image {
    pub name: Text,
    pub source: Text,
    /// Whether the user wrote the source.
    pub written: bool,
    pub table: ImageTable,
}

pub(crate) struct Control {
    pub node: Text,
    pub flavor: Text,
    pub image: Option<Text>,
}

pub(crate) struct Group {
    pub name: Text,
    pub role: Role,
    pub nodes: Option<Text>,
    pub flavor: Text,
    pub image: Option<Text>,
    pub features: Vec<Text>,
    pub image_update: ImageUpdate,
    pub zones: Vec<Text>,
    pub elastic: Option<Elastic>,
    pub rebuild_time: Text,
    pub node_config: Named<Scalar>,
    pub overrides: Named<ComputeOverrideTable>,
}

pub(crate) struct Elastic {
    pub idle: Text,
    pub min: At<i64>,
    pub flavors: Vec<Text>,
    /// Made from `[limits]`.
    pub from_limits: bool,
}

pub(crate) struct Disk {
    pub at: Range<usize>,
    pub mode: VolumeMode,
    /// As written: a size for a volume that Kiln does not make is an error.
    pub written_size: Option<Text>,
    pub size: Text,
    pub name: Option<Text>,
}

pub(crate) struct Partition {
    pub name: Text,
    /// Whether the user wrote it.
    pub written: bool,
    pub groups: Option<List<Text>>,
    pub default: At<bool>,
    pub max_time: Option<Text>,
    pub config: Named<Scalar>,
}

pub(crate) struct Rebuild {
    pub name: Text,
    /// Whether the user wrote it.
    pub written: bool,
    pub groups: Option<List<Text>>,
    pub max_time: Text,
}
