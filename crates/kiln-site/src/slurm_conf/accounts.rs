//! What slurm.conf says about accounts, limits and shares.

use std::collections::BTreeSet;

use kiln_slurm::accounts::tracked_resources;
use kiln_spec::{ConfigValue, Partition, Spec};

use super::{PRIORITY_TYPE, gres};
use crate::inputs::Inventory;

/// More than all that Kiln sets besides, but for the partition's factor, which lets rebuild jobs go first.
const FAIRSHARE_WEIGHT: &str = "100000";

pub fn parameters(spec: &Spec, inventory: &Inventory) -> Vec<(&'static str, String)> {
    let accounts = &spec.accounts;
    let mut own = Vec::new();
    let enforced = accounts.enforced();
    if enforced {
        own.push(("AccountingStorageEnforce", "associations,limits,qos".to_string()));
    }
    let tracked = tracked(spec, inventory);
    if !tracked.is_empty() {
        own.push(("AccountingStorageTRES", tracked.into_iter().collect::<Vec<_>>().join(",")));
    }
    if !enforced {
        return own;
    }
    let of_members = accounts.accounts.iter().flat_map(|account| &account.members).map(|of| &of.settings);
    let mut all = accounts.accounts.iter().map(|account| &account.settings).chain(of_members);
    if all.any(|settings| settings.fairshare.is_some()) {
        // A cluster whose nodes are rebuilt has it anyway.
        if spec.rebuild.is_empty() {
            own.push((PRIORITY_TYPE.0, PRIORITY_TYPE.1.to_string()));
        }
        own.push(("PriorityWeightFairshare", FAIRSHARE_WEIGHT.to_string()));
    }
    own
}

/// Slurm can limit only what it accounts for. What the site names itself is joined to it.
fn tracked(spec: &Spec, inventory: &Inventory) -> BTreeSet<String> {
    let site = spec.slurm.config.iter().find(|(key, _)| key.eq_ignore_ascii_case("AccountingStorageTRES"));
    let named = match site {
        Some((_, ConfigValue::Set(text))) => text.to_lowercase(),
        Some((_, ConfigValue::List(items))) => items.join(",").to_lowercase(),
        Some((_, ConfigValue::Removed)) | None => String::new(),
    };
    let mut tracked: BTreeSet<String> = gres::tracked(spec, inventory).into_iter().collect();
    if spec.accounts.enforced() {
        tracked.extend(tracked_resources(spec));
    }
    tracked.retain(|resource| !named.split(',').any(|name| name.trim() == resource));
    tracked
}

/// Parameters of a partition's line.
pub fn partition(partition: &Partition) -> Vec<(String, String)> {
    let lists = [
        ("QoS", partition.qos.clone()),
        ("AllowAccounts", partition.allow_accounts.as_ref().map(|names| names.join(","))),
        ("AllowQos", partition.allow_qos.as_ref().map(|names| names.join(","))),
    ];
    lists.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))).collect()
}
