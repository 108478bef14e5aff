//! How many instances the cloud lets its user have.

use serde::Serialize;

use crate::{Flavor, Quota, QuotaKind};

/// One bound on how many instances of a flavor there can be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limit {
    pub flavor: String,
    /// As the cluster file can name it. `None`: in all zones together.
    pub zone: Option<String>,
    /// The cloud's own name for it.
    pub name: String,
    pub most: u64,
    /// `None`: the cloud does not say.
    pub used: Option<u64>,
    /// What is left, which others may share.
    pub free: u64,
    /// How much of it one instance takes.
    pub each: u64,
}

impl Limit {
    /// How many more instances of the flavor fit in.
    pub fn room(&self) -> u64 {
        self.free / self.each.max(1)
    }
}

/// What quotas mean for instances of one flavor.
pub(crate) fn of_quotas(quotas: &[Quota], flavor: &Flavor) -> Vec<Limit> {
    let limit = |quota: &Quota| Limit {
        flavor: flavor.name.clone(),
        zone: None,
        name: quota.kind.word().into(),
        most: quota.limit,
        used: Some(quota.used),
        free: quota.limit.saturating_sub(quota.used),
        each: match quota.kind {
            QuotaKind::Instances => 1,
            QuotaKind::Cpus => flavor.cpus.into(),
            QuotaKind::MemoryMib => flavor.memory_mib,
        },
    };
    quotas.iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_told_in_instances() {
        let quota = |kind, limit, used| Quota { kind, limit, used };
        let quotas = [
            quota(QuotaKind::Instances, 10, 4),
            quota(QuotaKind::Cpus, 20, 9),
            quota(QuotaKind::MemoryMib, 4096, 5000),
        ];
        let flavor = Flavor {
            name: "m".into(),
            cpus: 4,
            memory_mib: 1024,
            features: vec![],
            topology: None,
            gpus: None,
        };
        let room: Vec<u64> = of_quotas(&quotas, &flavor).iter().map(Limit::room).collect();
        assert_eq!(room, [6, 2, 0]);
    }
}
