//! `[compute.NAME]`: a group of compute nodes.

use std::time::Duration;

use super::reconcile::at_least;
use super::{GpusTable, gpus, rebuild, slurm};
use crate::diagnostic::Findings;
use crate::validate::nodes::{check_feature, check_flavor};
use crate::validate::{names, overrides, switches};
use crate::written::table::table;
use crate::written::{At, List, Named, Scalar, Text};
use crate::{Elastic, Group, ImageUpdate, Role};

table! {
    /// A group of equal compute nodes.
    ComputeTable {
        /// The nodes as a hostlist in lower case, e.g. `standard-[0-15]`.
        "nodes" => nodes: Text, required;
        /// Size of the machines. It determines `CPUs` and `RealMemory` of the `NodeName` line.
        "flavor" => flavor: Text, default "medium";
        /// Name of an image that has the role `compute`.
        "image" => image: Text, otherwise "`default`, or the only image";
        /// Slurm features of the nodes (`Feature=`).
        "features" => features: List<Text>, empty;
        /// How existing nodes get a new image. `slurm`: `kiln apply` only records it, and `kiln rebuild` brings it through the queue. `apply`: `kiln apply` rebuilds the nodes at once, even if jobs are running.
        "image_update" => image_update: At<ImageUpdate>, default ImageUpdate::Slurm;
        /// The longest time that a healthy node takes from its reboot with a new image until it is back in Slurm, one minute or more. `ResumeTimeout` is derived from it.
        "rebuild_time" => rebuild_time: Text, default "5m";
        /// Availability zones for the nodes, the preferred one first. Groups that are not elastic use only the first.
        "zones" => zones: List<Text>, otherwise "the cloud decides";
        /// Makes the group elastic: Slurm powers its nodes up for jobs and down when they are idle. Not allowed with `image_update = "apply"`.
        "elastic" => elastic: ElasticTable, otherwise "the nodes always exist";
        /// GPUs that jobs can ask for, where the cloud does not say it or the file knows better. `{}`: as many as the cloud says of the flavor, and the image has the driver.
        "gpus" => gpus: GpusTable, otherwise "what the cloud says of the flavor, if the image has the set of software `nvidia`";
        /// The network switch of the nodes, for Slurm's `topology.conf`. With switches above it, `/` between them, the topmost first: `core/rack-1`.
        "switch" => switch: Text, otherwise "what the cloud says of the instance";
        /// Further parameters of the `NodeName` line in slurm.conf, e.g. `RealMemory`. They replace Kiln's values. `NodeName`, `NodeAddr`, `NodeHostname`, `Feature`, `State` and `Port` are not allowed.
        "node_config" => node_config: Named<Scalar>, empty;
        /// Settings for some of the nodes, by node name or hostlist.
        "override" => overrides: Named<ComputeOverrideTable>, empty;
    }
}

table! {
    /// What makes a compute group elastic.
    ElasticTable {
        /// A node that has been idle for this long is deleted, 10 s or more. Groups that share a partition have the longest `idle` among them.
        "idle" => idle: Text, default "15m";
        /// How many of the group's nodes are always kept up. These are its first nodes.
        "min" => min: At<i64>, default 0;
        /// Flavors to use, in this order, when the cloud has no capacity for the group's own flavor. They must not be smaller, because Slurm promises jobs what the group's flavor has.
        "flavors" => flavors: List<Text>, empty;
    }
}

table! {
    /// Settings for some nodes of a compute group.
    ComputeOverrideTable {
        /// Size of the machine.
        "flavor" => flavor: Text, otherwise "that of the group";
        /// Name of an image.
        "image" => image: Text, otherwise "that of the group";
        /// Slurm features, in place of the group's.
        "features" => features: List<Text>, otherwise "those of the group";
        /// Fixed IPv4 address inside the cloud's `subnet`, which must be set.
        "address" => address: Text, otherwise "Kiln or the cloud chooses one";
        /// GPUs, in place of the group's.
        "gpus" => gpus: GpusTable, otherwise "that of the group";
        /// The network switch, in place of the group's.
        "switch" => switch: Text, otherwise "that of the group";
        /// Further parameters of the `NodeName` line, over those of the group.
        "node_config" => node_config: Named<Scalar>, empty;
    }
}

/// A group of nodes of either role. A login group has the keys of a compute group, with their defaults.
pub(crate) struct MergedGroup {
    pub name: Text,
    pub role: Role,
    /// With the image that the nodes get if the file names none.
    pub table: ComputeTable,
    /// Made from `[limits]`.
    pub from_limits: bool,
}

/// The group with its nodes, which were checked before.
pub(crate) fn validate(group: &MergedGroup, nodes: Vec<String>, findings: &mut Findings<'_>) -> Group {
    let table = &group.table;
    for feature in &table.features.value {
        check_feature(feature, findings);
    }
    check_flavor(&table.flavor, findings);
    let zones = table.zones.iter().flat_map(|list| &list.value);
    for zone in zones.clone() {
        names::check_one_line("the zone", zone, findings);
    }
    let node_config = slurm::line_config(&table.node_config, slurm::NODE_KEYS, findings);
    if let Some(gpus) =
        table.gpus.as_ref().filter(|_| node_config.keys().any(|k| k.eq_ignore_ascii_case("Gres")))
    {
        let message = format!("group `{}` has `gpus`, and `Gres` in `node_config`", group.name.value);
        (findings.error("bad-gpus", gpus.at.clone(), message))
            .expected("one of them")
            .hint("with `Gres` in `node_config`, gres.conf is the site's own");
    }
    Group {
        name: group.name.value.clone(),
        role: group.role,
        overrides: overrides::overrides(group, &nodes, findings),
        zones: zones.map(|zone| zone.value.clone()).collect(),
        elastic: table.elastic.as_ref().map(|written| elastic(written, group, &nodes, findings)),
        nodes,
        flavor: table.flavor.value.clone(),
        image: table.image.as_ref().map(|image| image.value.clone()).unwrap_or_default(),
        features: table.features.value.iter().map(|feature| feature.value.clone()).collect(),
        image_update: table.image_update.value,
        rebuild_time: rebuild::time(&table.rebuild_time, findings),
        gpus: table.gpus.as_ref().map(|gpus| gpus::validate(gpus, table.elastic.is_some(), findings)),
        switch: table.switch.as_ref().and_then(|switch| switches::path(switch, findings)),
        node_config,
    }
}

/// Slurm looks for idle nodes every few seconds.
const SHORTEST_IDLE: Duration = Duration::from_secs(10);

fn elastic(
    written: &ElasticTable,
    group: &MergedGroup,
    nodes: &[String],
    findings: &mut Findings<'_>,
) -> Elastic {
    for flavor in &written.flavors.value {
        check_flavor(flavor, findings);
    }
    if group.table.image_update.value == ImageUpdate::Apply {
        let message = format!("group `{}` is elastic, and `image_update` is \"apply\"", group.name.value);
        (findings.error("bad-elastic", group.name.span.clone(), message))
            .expected("no `image_update`")
            .hint("nodes of an elastic group come back on the new image when Slurm powers them up again");
    }
    let min = usize::try_from(written.min.value).ok().filter(|min| *min <= nodes.len());
    if min.is_none() {
        let message = format!("`min` of group `{}` cannot be {}", group.name.value, written.min.value);
        (findings.error("out-of-range", written.min.span.clone(), message))
            .expected(format!("0 to {}, the number of the group's nodes", nodes.len()));
    }
    Elastic {
        idle: at_least("`idle`", &written.idle, SHORTEST_IDLE, findings),
        min: min.unwrap_or_default(),
        flavors: written.flavors.value.iter().map(|flavor| flavor.value.clone()).collect(),
    }
}
