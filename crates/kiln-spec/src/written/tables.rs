//! Every table and key of `cluster.toml`.

use serde_json::json;

use super::Written;
use super::macros::table;
use super::reader::{Reader, Shape, Source};
use super::values::{At, Choice, List, Named, Scalar, Text};
use crate::{ConfigValue, ImageUpdate, Role};

table! {
    /// One Slurm cluster.
    File {
        /// The cluster as a whole.
        "cluster" => cluster: ClusterTable, required;
        /// Where the cluster runs.
        "cloud" => cloud: CloudTable, required;
        /// Images, by name. Default: one named `default`, from Debian bookworm.
        "image" => image: Named<ImageTable>;
        /// The control node.
        "control" => control: ControlTable;
        /// Groups of login nodes, by name.
        "login" => login: Named<LoginTable>;
        /// Groups of compute nodes, by name. At least one.
        "compute" => compute: Named<ComputeTable>;
        /// How many machines of which shape may be used where, by flavor: elastic groups are made of it. With it `compute` may be left out.
        "limits" => limits: Named<LimitTable>;
        /// Storage that outlives the nodes.
        "volumes" => volumes: VolumesTable;
        /// Slurm partitions, by name. Default: one per compute group, the first is the default partition.
        "partition" => partition: Named<PartitionTable>;
        /// Hidden partitions, for root only, over nodes that `kiln apply` does not rebuild, by name. Default: one named `rebuild` over all compute groups with `image_update = "slurm"`.
        "rebuild" => rebuild: Named<RebuildTable>;
        /// Slurm's own configuration.
        "slurm" => slurm: SlurmTable;
        /// Users of the cluster, by name.
        "user" => user: Named<UserTable>;
        /// What the site adds to the nodes of a role.
        "role" => role: RolesTable;
        /// How kilnd keeps Slurm and the cloud in agreement.
        "reconcile" => reconcile: ReconcileTable;
    }
}

table! {
    /// The cluster as a whole.
    ClusterTable {
        /// The cluster's name: lower-case letters, digits and `-`, a letter first and no `-` last, at most 31.
        "name" => name: Text, required;
        /// DNS domain of the nodes. Default: NAME.internal.
        "domain" => domain: Text;
        /// How many cloud or SSH operations run at a time, 1 to 200. Default: 10.
        "concurrency" => concurrency: At<i64>;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloudKind {
    Local,
    OpenStack,
}

impl Choice for CloudKind {
    const WORDS: &'static [(&'static str, Self)] =
        &[("local", CloudKind::Local), ("openstack", CloudKind::OpenStack)];
}

table! {
    /// Where the cluster runs.
    CloudTable {
        /// The kind of cloud: `local` boots the nodes on this machine, `openstack` in a project of an OpenStack cloud.
        "kind" => kind: At<CloudKind>, required;
        /// Private IPv4 network of the nodes, /16 to /28, e.g. 10.213.7.0/24. Default on `local`: a free one. On `openstack` Kiln makes a network with it, unless `network` names one.
        "subnet" => subnet: Text;
        /// OpenStack: entry of clouds.yaml. Default: OS_CLOUD, or the other OS_* variables.
        "cloud" => cloud: Text;
        /// OpenStack: region. Default: that of clouds.yaml, or the only one.
        "region" => region: Text;
        /// OpenStack: name of a network that exists, for the nodes to be in.
        "network" => network: Text;
        /// OpenStack: name of the network that login nodes get floating IPs from, and that the cluster's own network is connected to.
        "external_network" => external_network: Text;
        /// OpenStack: name of a key pair that exists. Default: Kiln makes one.
        "key_pair" => key_pair: Text;
        /// OpenStack: availability zone of nodes and volumes. Default: the cloud's choice.
        "availability_zone" => availability_zone: Text;
        /// OpenStack: root disks are volumes of this size and type. Default: they are on the hypervisor.
        "root_disk" => root_disk: RootDiskTable;
        /// OpenStack: policy of a server group for each group of nodes. Default: no server groups.
        "server_group" => server_group: At<ServerGroupPolicy>;
        /// OpenStack: names of security groups that exist, for every node, beside Kiln's own.
        "security_groups" => security_groups: List<Text>;
    }
}

table! {
    /// A root disk that is a volume.
    RootDiskTable {
        /// Its size, e.g. 20 GiB.
        "size" => size: Text, required;
        /// Its volume type. Default: the cloud's usual one.
        "type" => volume_type: Text;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerGroupPolicy {
    Affinity,
    AntiAffinity,
    SoftAffinity,
    SoftAntiAffinity,
}

impl Choice for ServerGroupPolicy {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("affinity", ServerGroupPolicy::Affinity),
        ("anti-affinity", ServerGroupPolicy::AntiAffinity),
        ("soft-affinity", ServerGroupPolicy::SoftAffinity),
        ("soft-anti-affinity", ServerGroupPolicy::SoftAntiAffinity),
    ];
}

table! {
    /// An image: a root disk with all software and no cluster configuration.
    ImageTable {
        /// Where the build starts: another image of this file, or on `local` a Debian suite (`bookworm`, `trixie`, `forky`; default: bookworm), on `openstack` an image of the cloud by name or id.
        "source" => source: Text;
        /// An image of the cloud, by name or id, to use as it is: nothing is built.
        "prebuilt" => prebuilt: Text;
        /// Roles whose software goes in. Default: all.
        "roles" => roles: List<At<Role>>;
        /// Debian packages to add.
        "packages" => packages: List<Text>;
        /// Commands to run as root at the end of the build, in order.
        "commands" => commands: List<Text>;
        /// URL of the package mirror to build from. Default: that of the source.
        "mirror" => mirror: Text;
    }
}

table! {
    /// The control node: slurmctld, slurmdbd and its database.
    ControlTable {
        /// The node's name. Default: control.
        "node" => node: Text;
        /// Size of the machine. Default: medium.
        "flavor" => flavor: Text;
        /// Name of an image. Default: `default`, or the only image there is.
        "image" => image: Text;
    }
}

table! {
    /// A group of equal login nodes.
    LoginTable {
        /// The nodes as a hostlist in lower case, e.g. login-[0-1].
        "nodes" => nodes: Text, required;
        /// Size of the machines. Default: medium.
        "flavor" => flavor: Text;
        /// Name of an image. Default: `default`, or the only image there is.
        "image" => image: Text;
        /// Settings for some of the nodes, by node name or hostlist.
        "override" => overrides: Named<LoginOverrideTable>;
    }
}

table! {
    /// A group of equal compute nodes.
    ComputeTable {
        /// The nodes as a hostlist in lower case, e.g. standard-[0-15].
        "nodes" => nodes: Text, required;
        /// Size of the machines. Default: medium.
        "flavor" => flavor: Text;
        /// Name of an image. Default: `default`, or the only image there is.
        "image" => image: Text;
        /// Slurm features of the nodes.
        "features" => features: List<Text>;
        /// What `kiln apply` does with a new image: rebuild the nodes at once (`apply`) or only record it (`slurm`). Default: slurm.
        "image_update" => image_update: At<ImageUpdate>;
        /// Availability zones the nodes may be in, the preferred one first. Default: the cloud decides.
        "zones" => zones: List<Text>;
        /// Makes the group elastic: Slurm powers its nodes up for jobs and down when they are idle. Without it they are always there.
        "elastic" => elastic: ElasticTable;
        /// Longest time from the reboot of a healthy node, onto a new image, until it is back in Slurm, e.g. 5m. Slurm's `ResumeTimeout` follows from it. Default: 5m.
        "rebuild_time" => rebuild_time: Text;
        /// Parameters for the nodes' `NodeName` line in slurm.conf, e.g. `CPUs` or `RealMemory`.
        "node_config" => node_config: Named<Scalar>;
        /// Settings for some of the nodes, by node name or hostlist.
        "override" => overrides: Named<ComputeOverrideTable>;
    }
}

table! {
    /// What makes a compute group elastic.
    ElasticTable {
        /// How long a node may be idle before it is deleted, e.g. 15m. Default: 15m.
        "idle" => idle: Text;
        /// How many of the group's nodes, its first ones, are kept up at all times. Default: 0.
        "min" => min: At<i64>;
        /// Flavors to take, in this order, where the cloud has no room for the group's own; they must not be smaller.
        "flavors" => flavors: List<Text>;
    }
}

table! {
    /// How many machines of one flavor may be used in which availability zone.
    LimitTable {
        /// Number of machines by availability zone: each zone becomes an elastic group FLAVOR-ZONE.
        "zones" => zones: Named<At<i64>>, required;
        /// Name of an image. Default: `default`, or the only image there is.
        "image" => image: Text;
        /// How long a node may be idle before it is deleted. Default: 15m.
        "idle" => idle: Text;
        /// Slurm features of the nodes, besides those Kiln gives them.
        "features" => features: List<Text>;
    }
}

table! {
    /// How kilnd keeps Slurm and the cloud in agreement.
    ReconcileTable {
        /// Time between two looks. Default: 30s.
        "every" => every: Text;
        /// How long an odd state must have lasted before something is done about it. Default: 2m.
        "grace" => grace: Text;
        /// How long an instance may be there that is younger than the last `kiln configure`, and no node's. Default: 1h.
        "newcomer" => newcomer: Text;
        /// How long an elastic group is left alone that the cloud has no room for, or that fails again and again. Default: 10m.
        "pause" => pause: Text;
        /// Failures in a row that make an elastic group pause, 1 to 100. Default: 5.
        "failures" => failures: At<i64>;
    }
}

table! {
    /// Settings for some nodes of a login group.
    LoginOverrideTable {
        /// Size of the machine.
        "flavor" => flavor: Text;
        /// Name of an image.
        "image" => image: Text;
        /// Fixed IPv4 address, inside the cloud's subnet.
        "address" => address: Text;
    }
}

table! {
    /// Settings for some nodes of a compute group.
    ComputeOverrideTable {
        /// Size of the machine.
        "flavor" => flavor: Text;
        /// Name of an image.
        "image" => image: Text;
        /// Slurm features, in place of the group's.
        "features" => features: List<Text>;
        /// Fixed IPv4 address, inside the cloud's subnet.
        "address" => address: Text;
    }
}

table! {
    /// Storage that outlives the nodes.
    VolumesTable {
        /// Slurm's state and the accounting database. Default: managed, 10 GiB.
        "state" => state: Volume;
        /// The users' home directories. Default: managed, 10 GiB.
        "home" => home: Volume;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeMode {
    Manage,
    Attach,
    None,
}

impl Choice for VolumeMode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("manage", VolumeMode::Manage), ("attach", VolumeMode::Attach), ("none", VolumeMode::None)];
}

table! {
    /// A volume: one that Kiln makes, one that exists, or none.
    VolumeTable {
        /// `manage`: Kiln makes and deletes it. `attach`: it exists and is kept. `none`: on each node's own root disk, so that with `home` every node has its own /home. Default: manage.
        "mode" => mode: At<VolumeMode>;
        /// Size of a managed volume, e.g. 20 GiB. Default: 10 GiB.
        "size" => size: Text;
        /// Name of the volume to attach: lower-case letters, digits and `-`.
        "name" => name: Text;
    }
}

/// A volume table, or its mode alone as a string.
#[derive(Debug, Default)]
pub(crate) struct Volume(pub VolumeTable);

impl Written for Volume {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        if matches!(source.shape, Shape::Table(_)) {
            return VolumeTable::read(source, reader).map(Volume);
        }
        if !matches!(source.shape, Shape::Value(toml_edit::Value::String(_))) {
            reader.wrong_type(source, "a table, or the volume's mode as a string");
            return None;
        }
        let mode = At::<VolumeMode>::read(source, reader)?;
        Some(Volume(VolumeTable { at: source.span.clone(), mode: Some(mode), ..VolumeTable::default() }))
    }

    fn schema() -> serde_json::Value {
        json!({"oneOf": [At::<VolumeMode>::schema(), VolumeTable::schema()]})
    }
}

table! {
    /// A Slurm partition for users' jobs.
    PartitionTable {
        /// Compute groups whose nodes belong to it.
        "groups" => groups: List<Text>, required;
        /// Whether jobs go here that name no partition. Default: the first partition.
        "default" => default: At<bool>;
        /// Longest run time of a job in Slurm's format, e.g. 1-00:00:00.
        "max_time" => max_time: Text;
        /// Further parameters for the `PartitionName` line in slurm.conf.
        "config" => config: Named<Scalar>;
    }
}

table! {
    /// A hidden partition, for root only, to rebuild nodes through.
    RebuildTable {
        /// Compute groups whose nodes are rebuilt through it.
        "groups" => groups: List<Text>, required;
        /// Longest time one node's rebuild may take, e.g. 30m. Default: 30m.
        "max_time" => max_time: Text;
    }
}

table! {
    /// Slurm's own configuration.
    SlurmTable {
        /// Parameters of slurm.conf, set over Kiln's own; `false` leaves Kiln's line out.
        "config" => config: Named<At<ConfigValue>>;
    }
}

table! {
    /// A user of the cluster.
    UserTable {
        /// Numeric id, 1000 to 60000.
        "uid" => uid: At<i64>, required;
        /// Supplementary groups.
        "groups" => groups: List<Text>;
        /// Public keys, as in `authorized_keys`; options may precede a key.
        "ssh_keys" => ssh_keys: List<Text>;
        /// Login shell. Default: /bin/bash.
        "shell" => shell: Text;
        /// Whether the user may become root on every node. Default: false.
        "sudo" => sudo: At<bool>;
    }
}

table! {
    /// What the site adds to the nodes of a role.
    RolesTable {
        /// The control node.
        "control" => control: ExtrasTable;
        /// Login nodes.
        "login" => login: ExtrasTable;
        /// Compute nodes.
        "compute" => compute: ExtrasTable;
    }
}

table! {
    /// Packages, files and commands for the nodes of one role.
    ExtrasTable {
        /// Debian packages, installed when the image is built.
        "packages" => packages: List<Text>;
        /// Commands that run as root when a node is configured, after everything else.
        "commands" => commands: List<Text>;
        /// Files to write.
        "file" => file: List<FileTable>;
    }
}

table! {
    /// A file on the nodes of a role.
    FileTable {
        /// Absolute path.
        "path" => path: Text, required;
        /// The whole content.
        "content" => content: Text, required;
        /// Permissions as an octal string. Default: 0644.
        "mode" => mode: Text;
        /// Default: root.
        "owner" => owner: Text;
        /// Default: root.
        "group" => group: Text;
    }
}
