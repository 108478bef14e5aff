//! The second stage: what was written, with every default filled in. A default has the place of the
//! table it belongs to, so that an error about it still points somewhere useful.

mod limits;
mod types;

use std::ops::Range;

pub(crate) use types::*;

use crate::diagnostic::Findings;
use crate::tables::{
    ComputeOverrideTable, ComputeTable, ControlTable, ElasticTable, File, ImageTable, LoginOverrideTable,
    PartitionTable, RebuildTable, Volume, VolumeMode,
};
use crate::words::and_list;
use crate::written::{At, Named, Text};
use crate::{ImageUpdate, Role, System};

pub(crate) const DEFAULT_IMAGE: &str = "default";
const DEFAULT_SIZE: &str = "10 GiB";
const DEFAULT_REBUILD: &str = "rebuild";
/// Of all the groups that `[limits]` yields.
const LIMITS_PARTITION: &str = "compute";

fn default_text(value: &str, at: &Range<usize>) -> Text {
    At::new(value.to_owned(), at.clone())
}

pub(crate) fn merge(file: File, findings: &mut Findings<'_>) -> Merged {
    let cluster = file.cluster.unwrap_or_default();
    let limits = file.limits.unwrap_or_default();
    match &file.compute {
        _ if !limits.is_empty() => {}
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
    let images = images(file.image.unwrap_or_default());
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
    for (flavor, table) in limits {
        let image = usual_image.unless(table.image.clone(), "[limits]", &flavor.span, findings);
        compute.extend(limits::groups(&flavor, image.as_ref(), table, findings));
    }
    let volumes = file.volumes.unwrap_or_default();
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
        state: disk(volumes.state, &volumes.at),
        home: disk(volumes.home, &volumes.at),
        partitions: partitions(file.partition, &compute),
        rebuild: rebuild(file.rebuild, &compute),
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

fn images(written: Named<ImageTable>) -> Vec<Image> {
    let written = if written.is_empty() {
        vec![(default_text(DEFAULT_IMAGE, &(0..0)), ImageTable::default())]
    } else {
        written
    };
    (written.into_iter())
        .map(|(name, mut table)| {
            let written = table.source.is_some();
            let source =
                table.source.take().unwrap_or_else(|| default_text(System::ALL[0].name(), &name.span));
            Image { name, source, written, table }
        })
        .collect()
}

/// The image of nodes that name none.
struct UsualImage {
    name: Option<String>,
    all: Vec<String>,
}

impl UsualImage {
    fn of(images: &[Image]) -> Self {
        let all: Vec<String> = images.iter().map(|image| image.name.value.clone()).collect();
        let name = match all.as_slice() {
            [only] => Some(only.clone()),
            all => all.iter().find(|name| *name == DEFAULT_IMAGE).cloned(),
        };
        UsualImage { name, all }
    }

    /// What was written, else the usual image, else an error at the table that needed it.
    fn unless(
        &self,
        written: Option<Text>,
        whose: &str,
        at: &Range<usize>,
        findings: &mut Findings<'_>,
    ) -> Option<Text> {
        if written.is_some() {
            return written;
        }
        if let Some(name) = &self.name {
            return Some(default_text(name, at));
        }
        let message = format!("{whose} has no `image`, and no image is named `{DEFAULT_IMAGE}`");
        (findings.error("missing-key", at.clone(), message))
            .expected(format!("`image = ...` for {whose}"))
            .hint(format!("the file has the images {}", and_list(&self.all)));
        None
    }
}

fn control(written: ControlTable, usual: &UsualImage, findings: &mut Findings<'_>) -> Control {
    let image = usual.unless(written.image, "[control]", &written.at, findings);
    Control { node: written.node, flavor: written.flavor, image }
}

fn login_override((name, table): (Text, LoginOverrideTable)) -> (Text, ComputeOverrideTable) {
    let LoginOverrideTable { at, flavor, image, address } = table;
    (name, ComputeOverrideTable { at, flavor, image, features: None, address })
}

fn disk(written: Option<Volume>, at: &Range<usize>) -> Disk {
    let Volume(table) = written.unwrap_or_default();
    let at = if table.at.is_empty() { at.clone() } else { table.at };
    Disk {
        mode: table.mode.map_or(VolumeMode::Manage, |mode| mode.value),
        size: table.size.clone().unwrap_or_else(|| default_text(DEFAULT_SIZE, &at)),
        written_size: table.size,
        name: table.name,
        at,
    }
}

fn partitions(written: Option<Named<PartitionTable>>, compute: &[Group]) -> Vec<Partition> {
    let mut written = written.unwrap_or_default();
    let by_default = written.is_empty();
    if by_default {
        let table = |groups: Vec<Text>, at: &Range<usize>| PartitionTable {
            groups: Some(At::new(groups, at.clone())),
            ..PartitionTable::default()
        };
        let (limited, own): (Vec<&Group>, Vec<&Group>) =
            compute.iter().partition(|g| g.elastic.as_ref().is_some_and(|e| e.from_limits));
        written = (own.into_iter())
            .map(|group| (group.name.clone(), table(vec![group.name.clone()], &group.name.span)))
            .collect();
        if let Some(first) = limited.first() {
            let at = first.name.span.clone();
            let groups = limited.iter().map(|group| group.name.clone()).collect();
            written.push((default_text(LIMITS_PARTITION, &at), table(groups, &at)));
        }
    }
    let some_default = written.iter().any(|(_, table)| table.default.as_ref().is_some_and(|flag| flag.value));
    // `default = false` is a choice too: the first partition without it is the default one.
    let first = written.iter().position(|(_, table)| table.default.is_none()).filter(|_| !some_default);
    (written.into_iter().enumerate())
        .map(|(i, (name, table))| Partition {
            written: !by_default,
            groups: table.groups,
            default: table.default.unwrap_or_else(|| At::new(first == Some(i), name.span.clone())),
            max_time: table.max_time,
            config: table.config,
            name,
        })
        .collect()
}

fn rebuild(written: Option<Named<RebuildTable>>, compute: &[Group]) -> Vec<Rebuild> {
    let written = written.unwrap_or_default();
    if !written.is_empty() {
        return (written.into_iter())
            .map(|(name, table)| Rebuild {
                written: true,
                groups: table.groups,
                max_time: table.max_time,
                name,
            })
            .collect();
    }
    let groups: Vec<Text> = (compute.iter())
        .filter(|group| group.image_update == ImageUpdate::Slurm)
        .map(|group| group.name.clone())
        .collect();
    let Some(first) = groups.first() else {
        return Vec::new();
    };
    let at = first.span.clone();
    vec![Rebuild {
        name: default_text(DEFAULT_REBUILD, &at),
        written: false,
        max_time: RebuildTable::default().max_time,
        groups: Some(At::new(groups, at)),
    }]
}
