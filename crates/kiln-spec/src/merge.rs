//! The second stage: what was written, with every default filled in. A default has the place of the
//! table it belongs to, so that an error about it still points somewhere useful.

use std::ops::Range;

use crate::Role;
use crate::diagnostic::Findings;
use crate::tables::image::UsualImage;
use crate::tables::{
    AccountTable, AccountingTable, BackupTable, CloudTable, ComputeTable, ControlTable, DashboardTable,
    DirectoryTable, Disk, File, HealthTable, MergedGroup, MergedImage, MergedPartition, MergedRebuild,
    MonitoringTable, MountTable, NotifyTable, PulpTable, QosTable, ReconcileTable, RolesTable, SlurmTable,
    SoftwareTable, SourceTable, SystemTable, TimeTable, UserGroupTable, UserTable, image, limits, partition,
    rebuild, volumes,
};
use crate::written::{At, List, Named, Text};

/// An `Option` is either optional in the spec too, or was reported as missing or wrong.
pub(crate) struct Merged {
    pub name: Option<Text>,
    pub domain: Option<Text>,
    pub concurrency: At<i64>,
    pub cloud: CloudTable,
    pub images: Vec<MergedImage>,
    pub software: Named<SoftwareTable>,
    pub sources: Named<SourceTable>,
    pub pulp: Option<PulpTable>,
    pub control: ControlTable,
    pub login: Vec<MergedGroup>,
    pub compute: Vec<MergedGroup>,
    pub state: Disk,
    pub home: Disk,
    pub backup: BackupTable,
    pub accounting: AccountingTable,
    pub accounts: Named<AccountTable>,
    pub qos: Named<QosTable>,
    pub monitoring: Option<MonitoringTable>,
    pub partitions: Vec<MergedPartition>,
    pub rebuild: Vec<MergedRebuild>,
    pub slurm: SlurmTable,
    pub users: Named<UserTable>,
    pub user_groups: Named<UserGroupTable>,
    pub directory: Option<DirectoryTable>,
    pub roles: RolesTable,
    pub dashboard: Option<DashboardTable>,
    pub notify: Option<NotifyTable>,
    pub reconcile: ReconcileTable,
    pub health: HealthTable,
    pub mounts: List<MountTable>,
    pub system: SystemTable,
    pub time: TimeTable,
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
    let mut control = file.control.unwrap_or_default();
    control.image = usual_image.unless(control.image, "[control]", &control.at, findings);
    let mut group = |name: Text, role: Role, mut table: ComputeTable| {
        let whose = format!("group `{}`", name.value);
        table.image = usual_image.unless(table.image, &whose, &name.span, findings);
        MergedGroup { name, role, table, from_limits: false }
    };
    let login: Vec<MergedGroup> = (file.login.unwrap_or_default().into_iter())
        .map(|(name, table)| group(name, Role::Login, table.into()))
        .collect();
    let mut compute: Vec<MergedGroup> = (file.compute.unwrap_or_default().into_iter())
        .map(|(name, table)| group(name, Role::Compute, table))
        .collect();
    for (flavor, mut table) in by_limits {
        table.image = usual_image.unless(table.image, "[limits]", &flavor.span, findings);
        compute.extend(limits::groups(&flavor, table, findings));
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
        software: file.software.unwrap_or_default(),
        sources: file.source.unwrap_or_default(),
        pulp: file.pulp,
        control,
        login,
        state: volumes::merge(disks.state, &disks.at),
        home: volumes::merge(disks.home, &disks.at),
        backup: file.backup.unwrap_or_default(),
        accounting: file.accounting.unwrap_or_default(),
        accounts: file.account.unwrap_or_default(),
        qos: file.qos.unwrap_or_default(),
        monitoring: file.monitoring,
        partitions: partition::merge(file.partition, &compute),
        rebuild: rebuild::merge(file.rebuild, &compute),
        compute,
        slurm: file.slurm.unwrap_or_default(),
        users: file.user.unwrap_or_default(),
        user_groups: file.user_group.unwrap_or_default(),
        directory: file.directory,
        roles: file.role.unwrap_or_default(),
        dashboard: file.dashboard,
        notify: file.notify,
        reconcile: file.reconcile.unwrap_or_default(),
        health: file.health.unwrap_or_default(),
        mounts: file.mount,
        system: file.system.unwrap_or_default(),
        time: file.time.unwrap_or_default(),
    }
}
