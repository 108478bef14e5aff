//! `[limits.FLAVOR]`: how many machines of a flavor may be used where.

use super::{ComputeTable, ElasticTable, MergedGroup};
use crate::Role;
use crate::diagnostic::Findings;
use crate::written::table::table;
use crate::written::{At, List, Named, Text};

table! {
    /// How many machines of one flavor may be used in which availability zone.
    LimitTable {
        /// Number of machines by availability zone, 0 to 9999, e.g. `{ ad1 = 16, ad2 = 4 }`. Each zone with at least one becomes an elastic group `FLAVOR-ZONE`.
        "zones" => zones: Named<At<i64>>, required;
        /// Name of an image that has the role `compute`.
        "image" => image: Text, otherwise "`default`, or the only image";
        /// A node that has been idle for this long is deleted.
        "idle" => idle: Text, default "15m";
        /// Slurm features of the nodes, in addition to `shape=`, `zone=` and `arch=`.
        "features" => features: List<Text>, empty;
    }
}

/// One group for each zone, with its nodes numbered from 1: `vm-standard2-1-ad1-[0001-0016]`.
pub(crate) fn groups(flavor: &Text, table: LimitTable, findings: &mut Findings<'_>) -> Vec<MergedGroup> {
    let mut groups = Vec::new();
    for (zone, count) in table.zones.unwrap_or_default() {
        if !(0..=9999).contains(&count.value) {
            let message =
                format!("the limit of `{}` in `{}` cannot be {}", flavor.value, zone.value, count.value);
            findings.error("out-of-range", count.span.clone(), message).expected("0 to 9999");
            continue;
        }
        // A zone where none may be used yields no group.
        if count.value == 0 {
            continue;
        }
        let name = format!("{}-{}", plain(&flavor.value), plain(&zone.value));
        let nodes = format!("{name}-[0001-{:04}]", count.value);
        let elastic = ElasticTable { idle: table.idle.clone(), ..ElasticTable::default() };
        groups.push(MergedGroup {
            name: At::new(name, zone.span.clone()),
            role: Role::Compute,
            table: ComputeTable {
                nodes: Some(At::new(nodes, count.span.clone())),
                flavor: flavor.clone(),
                image: table.image.clone(),
                features: table.features.clone(),
                zones: Some(At::new(vec![zone.clone()], zone.span.clone())),
                elastic: Some(elastic),
                ..ComputeTable::default()
            },
            from_limits: true,
        });
    }
    groups
}

/// As a host's name may have it: `VM.Standard2.1` is `vm-standard2-1`.
fn plain(text: &str) -> String {
    let letters = text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    letters.collect::<String>().trim_matches('-').to_string()
}
