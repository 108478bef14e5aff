//! What the tenancy may have: service limits, and how much of them is left to the compartment.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::domains::short;
use super::driver::{Driver, PAGE};
use super::region::Service::Limits;
use crate::remote::{bounded, encode};
use crate::{Limit, Result};

const SERVICE: &str = "compute";

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LimitValue {
    #[serde(default)]
    availability_domain: Option<String>,
    #[serde(default)]
    value: Option<u64>,
}

/// Quotas of the compartment are counted in.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Availability {
    #[serde(default)]
    used: Option<u64>,
    #[serde(default)]
    available: Option<u64>,
    #[serde(default)]
    effective_quota_value: Option<f64>,
}

/// One limit in one place.
#[derive(Debug, Clone)]
struct Bound {
    zone: Option<String>,
    most: u64,
    used: Option<u64>,
    free: u64,
}

impl Driver {
    pub async fn limits(&self, flavors: &[String]) -> Result<Vec<Limit>> {
        let mut known: BTreeMap<String, Vec<Bound>> = BTreeMap::new();
        let mut limits = Vec::new();
        for flavor in flavors {
            let (shape, size) = self.sized_shape(flavor).await?;
            for name in shape.quota_names.iter().flatten() {
                if !known.contains_key(name) {
                    known.insert(name.clone(), self.bounds(name).await?);
                }
                limits.extend(known[name].iter().map(|bound| Limit {
                    flavor: flavor.clone(),
                    zone: bound.zone.clone(),
                    name: name.clone(),
                    most: bound.most,
                    used: bound.used,
                    free: bound.free,
                    each: shape.takes(name, size),
                }));
            }
        }
        Ok(limits)
    }

    /// Of one limit, in each availability domain, or in the region if Oracle counts it there.
    async fn bounds(&self, name: &str) -> Result<Vec<Bound>> {
        let tenancy = self.tenancy()?;
        let path = format!(
            "/limitValues?compartmentId={}&serviceName={SERVICE}&name={}&limit={PAGE}",
            encode(tenancy),
            encode(name)
        );
        let values: Vec<LimitValue> = self.client.list(Limits, &path).await?;
        let bounds = bounded(values, |value: LimitValue| self.bound(name, value)).await;
        bounds.into_iter().collect()
    }

    async fn bound(&self, name: &str, value: LimitValue) -> Result<Bound> {
        let mut path = format!(
            "/services/{SERVICE}/limits/{}/resourceAvailability?compartmentId={}",
            encode(name),
            encode(&self.settings.compartment)
        );
        if let Some(domain) = &value.availability_domain {
            path = format!("{path}&availabilityDomain={}", encode(domain));
        }
        let now: Availability = self.client.get(Limits, &path).await?;
        let limit = value.value.unwrap_or_default();
        let most = now.effective_quota_value.map_or(limit, |quota| limit.min(whole(quota)));
        Ok(Bound {
            zone: value.availability_domain.as_deref().map(short),
            most,
            used: now.used,
            free: now.available.unwrap_or_else(|| most.saturating_sub(now.used.unwrap_or_default())),
        })
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "how many there can be")]
fn whole(number: f64) -> u64 {
    number.max(0.0).floor() as u64
}
