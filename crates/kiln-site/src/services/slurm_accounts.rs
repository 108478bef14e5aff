//! Accounts, limits and QOS, before slurmctld asks for them: with `AccountingStorageEnforce` it refuses jobs of users without an account, and with a
//! partition whose QOS it does not know it does not start.

use kiln_slurm::accounts::{Wanted, tracked_resources};
use kiln_spec::{AccountsMode, ConfigValue, Spec};
use kiln_wire::Resource;
use kiln_wire::bundle::Accounts;

use super::Service;

pub const SLURM_ACCOUNTS: Service = Service {
    name: "accounts",
    resources: |context| resource(context.spec).into_iter().collect(),
    ..Service::EMPTY
};

/// Limits of resources that slurmdbd has heard of only since slurmctld runs.
pub const TRACKED_RESOURCES: Service = Service {
    name: "limits of tracked resources",
    resources: |context| again(context.spec).into_iter().collect(),
    ..Service::EMPTY
};

/// How long slurmdbd may be away, in seconds.
const PATIENCE: u64 = 120;
/// How long slurmctld may take to tell slurmdbd of a resource.
const RESOURCE_PATIENCE: u64 = 30;

/// Whether Slurm refuses jobs of users without an account: as the site sets it, or because the file has accounts.
pub fn enforced(spec: &Spec) -> bool {
    let site = spec.slurm.config.iter().find(|(key, _)| key.eq_ignore_ascii_case("AccountingStorageEnforce"));
    match site {
        Some((_, ConfigValue::Removed)) => false,
        Some(_) => true,
        None => spec.accounts.enforced(),
    }
}

/// What the file says of accounts, for the control node; `None` where it says nothing.
pub fn resource(spec: &Spec) -> Option<Resource> {
    let wanted = Wanted::of(spec, enforced(spec))?;
    let name = spec.name.clone();
    Some(Resource::Accounts(Accounts { name, wanted, known_resources: true, patience: PATIENCE }))
}

/// The id of [`resource`].
pub fn id(spec: &Spec) -> Option<String> {
    resource(spec).map(|resource| resource.id())
}

fn again(spec: &Spec) -> Option<Resource> {
    if spec.accounts.mode == AccountsMode::Off || tracked_resources(spec).is_empty() {
        return None;
    }
    let Some(Resource::Accounts(accounts)) = resource(spec) else { return None };
    let name = format!("{} with all resources", accounts.name);
    Some(Resource::Accounts(Accounts {
        name,
        known_resources: false,
        patience: RESOURCE_PATIENCE,
        ..accounts
    }))
}
