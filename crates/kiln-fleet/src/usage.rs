//! How long instances have run since kilnd was started, and what that has cost. The store keeps it by hour.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kiln_cloud::{Instance, InstanceStatus};

use crate::store::GroupUse;

/// Of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Instances that there are now.
    pub instances: u32,
    /// Of all its instances together.
    pub time: Duration,
    /// In the unit of the file's prices.
    pub cost: f64,
}

#[derive(Debug, Default)]
pub struct Usage(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last: Option<Instant>,
    groups: BTreeMap<String, Used>,
}

impl Usage {
    /// By group.
    pub fn groups(&self) -> BTreeMap<String, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).groups.clone()
    }

    /// What is there counts since the last look; at the first one since `before`, when another kilnd may have looked.
    /// `prices`: of an hour, by flavor, in millionths. What has been added, by group.
    pub fn note<'a>(
        &self,
        at: Instant,
        before: Duration,
        seen: impl Iterator<Item = (&'a str, &'a Instance)>,
        prices: &BTreeMap<String, u64>,
    ) -> BTreeMap<String, GroupUse> {
        let mut added: BTreeMap<String, GroupUse> = BTreeMap::new();
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = inner.last.map_or(before, |last| at.saturating_duration_since(last));
        inner.last = Some(at);
        inner.groups.values_mut().for_each(|group| group.instances = 0);
        let runs = |i: &Instance| !matches!(i.status, InstanceStatus::Stopped | InstanceStatus::Deleting);
        for (group, instance) in seen.filter(|(_, instance)| runs(instance)) {
            let used = inner.groups.entry(group.to_string()).or_default();
            used.instances += 1;
            used.time += passed;
            let millionths = prices.get(&instance.flavor).copied().unwrap_or(0);
            #[allow(clippy::cast_precision_loss, reason = "the file's prices are far smaller")]
            let price = millionths as f64 / 1e6;
            used.cost += price * passed.as_secs_f64() / 3600.0;
            let more = added.entry(group.to_string()).or_default();
            more.time += passed;
            more.cost +=
                millionths.saturating_mul(u64::try_from(passed.as_millis()).unwrap_or(0)) / 3_600_000;
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use kiln_cloud::testing;

    use super::*;

    #[test]
    fn instances_count_from_look_to_look() {
        let usage = Usage::default();
        let mut stopped = testing::instance("b");
        stopped.status = InstanceStatus::Stopped;
        let running =
            Instance { status: InstanceStatus::Active, flavor: "small".into(), ..testing::instance("a") };
        let prices = [("small".to_string(), 500_000)].into();
        let start = Instant::now();
        let seen = [("g", &running), ("g", &running), ("g", &stopped)];
        let first = usage.note(start, Duration::from_secs(60), seen.into_iter(), &prices);
        assert_eq!(
            usage.groups()["g"],
            Used { instances: 2, time: Duration::from_secs(120), cost: 1.0 / 60.0 }
        );
        assert_eq!(first["g"], GroupUse { time: Duration::from_secs(120), cost: 2 * 8333 });
        let then =
            usage.note(start + Duration::from_secs(3600), Duration::ZERO, seen.into_iter().take(1), &prices);
        assert_eq!(
            usage.groups()["g"],
            Used { instances: 1, time: Duration::from_secs(3720), cost: 0.5 + 1.0 / 60.0 }
        );
        assert_eq!(then["g"], GroupUse { time: Duration::from_secs(3600), cost: 500_000 });
        usage.note(start + Duration::from_secs(7200), Duration::ZERO, std::iter::empty(), &prices);
        assert_eq!(
            usage.groups()["g"],
            Used { instances: 0, time: Duration::from_secs(3720), cost: 0.5 + 1.0 / 60.0 }
        );
    }
}
