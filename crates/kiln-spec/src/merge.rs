//! The second stage: what was written, with every default filled in. A default has the place of the
//! table it belongs to, so that an error about it still points somewhere useful.

use std::ops::Range;

use crate::diagnostic::Findings;
use crate::tables::image::UsualImage;
use crate::tables::{
    CloudTable, ComputeOverrideTable, ComputeTable, ControlTable, Disk, ElasticTable, File,
    LoginOverrideTable, MergedImage, MergedPartition, MergedRebuild, ReconcileTable, RolesTable, SlurmTable,
    UserTable, image, limits, partition, rebuild, volumes,
};
use crate::written::{At, Named, Scalar, Text};
use crate::{ImageUpdate, Role};

/// An `Option` is either optional in the spec too, or was reported as missing or wrong.
pub(crate) struct Merged {
    pub name: Option<Text>,
    pub domain: Option<Text>,
    pub concurrency: At<i64>,
    pub cloud: CloudTable,
    pub images: Vec<MergedImage>,
    pub control: Control,
    pub login: Vec<Group>,
    pub compute: Vec<Group>,
    pub state: Disk,
    pub home: Disk,
    pub partitions: Vec<MergedPartition>,
    pub rebuild: Vec<MergedRebuild>,
    pub slurm: SlurmTable,
    pub users: Named<UserTable>,
    pub roles: RolesTable,
    pub reconcile: ReconcileTable,
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

pub(crate) fn default_text(value: &str, at: &Range<usize>) -> Text {
    At::new(value.to_owned(), at.clone())
}

pub(crate) fn merge(file: File, findings: &mut Findings<'_>) -> Merged {
    let cluster = file.cluster.unwrap_or_default();
    let by_limits = file.limits.unwrap_or_default();
    match &file.compute {
        _ if !by_limits.is_empty() => {}
        None => {
            findings
                .error("missing-key", 0..0, "the file has no [compute.NAME] table")
                .expected("[compute.NAME]");
        }
        Some(groups) if groups.is_empty() => {
            (findings.error("missing-key", 0..0, "the cluster has no compute group"))
                .expected("a table [compute.NAME]");
        }
        Some(_) => {}
    }
    let images = image::merge(file.image.unwrap_or_default());
    let usual_image = UsualImage::of(&images);
    let control = control(file.control.unwrap_or_default(), &usual_image, findings);
    let login: Vec<Group> = (file.login.unwrap_or_default().into_iter())
        .map(|(name, table)| {
            let image = usual_image.unless(table.image, &group_title(&name), &name.span, findings);
            Group {
                role: Role::Login,
                nodes: table.nodes,
                flavor: table.flavor,
                image,
                features: Vec::new(),
                image_update: ImageUpdate::Apply,
                zones: Vec::new(),
                elastic: None,
                rebuild_time: ComputeTable::default().rebuild_time,
                node_config: Vec::new(),
                overrides: table.overrides.into_iter().map(login_override).collect(),
                name,
            }
        })
        .collect();
    let mut compute: Vec<Group> = (file.compute.unwrap_or_default().into_iter())
        .map(|(name, table)| {
            let image = usual_image.unless(table.image, &group_title(&name), &name.span, findings);
            Group {
                role: Role::Compute,
                nodes: table.nodes,
                flavor: table.flavor,
                image,
                features: table.features.value,
                image_update: table.image_update.value,
                zones: table.zones.map(|list| list.value).unwrap_or_default(),
                elastic: table.elastic.map(elastic),
                rebuild_time: table.rebuild_time,
                node_config: table.node_config,
                overrides: table.overrides,
                name,
            }
        })
        .collect();
    for (flavor, table) in by_limits {
        let image = usual_image.unless(table.image.clone(), "[limits]", &flavor.span, findings);
        compute.extend(limits::groups(&flavor, image.as_ref(), table, findings));
    }
    let disks = file.volumes.unwrap_or_default();
    Merged {
        domain: cluster.domain.or_else(|| {
            let name = cluster.name.as_ref()?;
            Some(At::new(format!("{}.internal", name.value), name.span.clone()))
        }),
        name: cluster.name,
        concurrency: cluster.concurrency,
        cloud: file.cloud.unwrap_or_default(),
        images,
        control,
        login,
        state: volumes::merge(disks.state, &disks.at),
        home: volumes::merge(disks.home, &disks.at),
        partitions: partition::merge(file.partition, &compute),
        rebuild: rebuild::merge(file.rebuild, &compute),
        compute,
        slurm: file.slurm.unwrap_or_default(),
        users: file.user.unwrap_or_default(),
        roles: file.role.unwrap_or_default(),
        reconcile: file.reconcile.unwrap_or_default(),
    }
}

fn elastic(table: ElasticTable) -> Elastic {
    Elastic { idle: table.idle, min: table.min, flavors: table.flavors.value, from_limits: false }
}

fn group_title(name: &Text) -> String {
    format!("group `{}`", name.value)
}

fn control(written: ControlTable, usual: &UsualImage, findings: &mut Findings<'_>) -> Control {
    let image = usual.unless(written.image, "[control]", &written.at, findings);
    Control { node: written.node, flavor: written.flavor, image }
}

fn login_override((name, table): (Text, LoginOverrideTable)) -> (Text, ComputeOverrideTable) {
    let LoginOverrideTable { at, flavor, image, address } = table;
    (name, ComputeOverrideTable { at, flavor, image, features: None, address })
}
