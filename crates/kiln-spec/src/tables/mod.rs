//! Every table of `cluster.toml`, one file each; `[cloud]` has a folder, [`crate::cloud`]. A file has its table's three stages: the keys as they are written
//! (`table!`), what is filled in from the rest of the file (`merge`), and the checks that make the spec (`validate`).

pub(crate) mod account;
pub(crate) mod accounting;
pub(crate) mod backup;
pub(crate) mod cluster;
pub(crate) mod compute;
mod control;
pub(crate) mod dashboard;
pub(crate) mod directory;
pub(crate) mod gpus;
pub(crate) mod health;
pub(crate) mod image;
mod image_build;
pub(crate) mod limits;
mod login;
pub(crate) mod monitoring;
pub(crate) mod mount;
pub(crate) mod notify;
pub(crate) mod partition;
pub(crate) mod pulp;
pub(crate) mod qos;
pub(crate) mod rebuild;
pub(crate) mod reconcile;
pub(crate) mod role;
pub(crate) mod slurm;
pub(crate) mod software;
pub(crate) mod source;
pub(crate) mod system;
pub(crate) mod time;
pub(crate) mod user;
pub(crate) mod user_group;
pub(crate) mod volumes;

pub(crate) use crate::cloud::CloudTable;
pub(crate) use account::AccountTable;
pub(crate) use accounting::AccountingTable;
pub(crate) use backup::BackupTable;
pub(crate) use cluster::ClusterTable;
pub(crate) use compute::{ComputeOverrideTable, ComputeTable, ElasticTable, MergedGroup};
pub(crate) use control::ControlTable;
pub(crate) use dashboard::DashboardTable;
pub(crate) use directory::DirectoryTable;
pub(crate) use gpus::GpusTable;
pub(crate) use health::HealthTable;
pub(crate) use image::{ImageTable, MergedImage};
pub(crate) use limits::LimitTable;
pub(crate) use login::LoginTable;
pub(crate) use monitoring::MonitoringTable;
pub(crate) use mount::MountTable;
pub(crate) use notify::NotifyTable;
pub(crate) use partition::{MergedPartition, PartitionTable};
pub(crate) use pulp::PulpTable;
pub(crate) use qos::QosTable;
pub(crate) use rebuild::{MergedRebuild, RebuildTable};
pub(crate) use reconcile::ReconcileTable;
pub(crate) use role::RolesTable;
pub(crate) use slurm::SlurmTable;
pub(crate) use software::SoftwareTable;
pub(crate) use source::SourceTable;
pub(crate) use system::SystemTable;
pub(crate) use time::TimeTable;
pub(crate) use user::UserTable;
pub(crate) use user_group::UserGroupTable;
pub(crate) use volumes::{Disk, VolumesTable};

use crate::written::table::table;
use crate::written::{List, Named};

table! {
    /// One Slurm cluster.
    File {
        /// The cluster as a whole.
        "cluster" => cluster: ClusterTable, required;
        /// Where the cluster runs.
        "cloud" => cloud: CloudTable, required;
        /// Images, by name.
        "image" => image: Named<ImageTable>, otherwise "one image named `default`, from Debian bookworm";
        /// Sets of software of the site's, which images have under one name.
        "software" => software: Named<SoftwareTable>;
        /// Repositories that packages come from while images are built, by name.
        "source" => source: Named<SourceTable>;
        /// A Pulp server, which has snapshots of repositories.
        "pulp" => pulp: PulpTable, otherwise "no Pulp server is used";
        /// The control node.
        "control" => control: ControlTable, otherwise "a control node with the defaults of this table";
        /// Groups of login nodes, by name.
        "login" => login: Named<LoginTable>, otherwise "no login nodes";
        /// Groups of compute nodes, by name. At least one is required, unless there is a table `limits`.
        "compute" => compute: Named<ComputeTable>;
        /// How many machines of a flavor may be used in which availability zone, by flavor. Kiln makes elastic groups from them.
        "limits" => limits: Named<LimitTable>;
        /// Storage that outlives the nodes.
        "volumes" => volumes: VolumesTable, otherwise "managed volumes of 10 GiB";
        /// When the control node makes backups, where it keeps them, and how many.
        "backup" => backup: BackupTable, otherwise "one every day, on a volume of 10 GiB";
        /// Where the accounts are, and whether Kiln manages them.
        "accounting" => accounting: AccountingTable, otherwise "slurmdbd and its database run on the control node";
        /// Accounts of Slurm's accounting, by name. With at least one, only members of accounts may submit jobs.
        "account" => account: Named<AccountTable>;
        /// Slurm's qualities of service, by name.
        "qos" => qos: Named<QosTable>;
        /// Prometheus on the control node, and whom its alerts are sent to.
        "monitoring" => monitoring: MonitoringTable, otherwise "nothing is monitored";
        /// Slurm partitions, by name.
        "partition" => partition: Named<PartitionTable>, otherwise "one per compute group; the first is Slurm's default partition";
        /// Hidden partitions, for root only, through which compute nodes get new images, by name.
        "rebuild" => rebuild: Named<RebuildTable>, otherwise "one named `rebuild` with all compute groups that have `image_update = \"slurm\"`";
        /// Slurm's own configuration.
        "slurm" => slurm: SlurmTable;
        /// Users of the cluster, by name.
        "user" => user: Named<UserTable>;
        /// Users and groups from a directory server, besides those of the file.
        "directory" => directory: DirectoryTable, otherwise "users and groups are those of the file";
        /// Groups that users are in, by name. Only those whose gid is to be chosen need a table.
        "user_group" => user_group: Named<UserGroupTable>;
        /// What the site adds to the nodes of a role.
        "role" => role: RolesTable;
        /// Who may look at the dashboard over the network, and the site's own logins.
        "dashboard" => dashboard: DashboardTable, otherwise "it is reached over SSH alone";
        /// Whom kilnd tells when something matters, and how.
        "notify" => notify: NotifyTable, otherwise "nobody is told";
        /// How often and how soon kilnd corrects differences between Slurm and the cloud.
        "reconcile" => reconcile: ReconcileTable;
        /// What Slurm's health check looks at on compute nodes.
        "health" => health: HealthTable;
        /// File systems of the site that nodes mount, each a table `[[mount]]`.
        "mount" => mount: List<MountTable>, empty;
        /// Settings of the operating system of every node.
        "system" => system: SystemTable;
        /// Time servers and time zone.
        "time" => time: TimeTable;
    }
}
