//! Where bare-metal instances are in the RDMA network: an island has network blocks, which have local blocks.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::driver::Driver;
use super::region::Service::Core;
use crate::{Class, Instance, Result};

/// As much of a compute host as tells where its instance is.
#[derive(Debug, Clone, Deserialize)]
struct WireHost {
    #[serde(default, rename = "instanceId")]
    instance: Option<String>,
    #[serde(default, rename = "hpcIslandId")]
    island: Option<String>,
    #[serde(default, rename = "networkBlockId")]
    network_block: Option<String>,
    #[serde(default, rename = "localBlockId")]
    local_block: Option<String>,
}

impl WireHost {
    /// From the island down. What Oracle does not tell is left out.
    fn path(&self) -> Vec<String> {
        let parts =
            [("island", &self.island), ("network", &self.network_block), ("local", &self.local_block)];
        parts.into_iter().filter_map(|(what, id)| Some(format!("{what}-{}", tail(id.as_deref()?)?))).collect()
    }
}

/// Ids all begin in the same way, and end in their own.
fn tail(id: &str) -> Option<&str> {
    const LENGTH: usize = 12;
    let own = id.rsplit('.').next()?;
    let end = own.get(own.len().saturating_sub(LENGTH)..)?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (!end.is_empty() && end.bytes().all(is_plain)).then_some(end)
}

impl Driver {
    /// Only shapes with RDMA have a network that says more than the availability domain.
    pub async fn switches(&self, instances: &[Instance]) -> Result<BTreeMap<String, Vec<String>>> {
        let mut asked = Vec::new();
        for instance in instances {
            if self.sized_shape(&instance.flavor).await.is_ok_and(|(shape, _)| shape.has_rdma()) {
                asked.push(instance.id.as_str());
            }
        }
        if asked.is_empty() {
            return Ok(BTreeMap::new());
        }
        let hosts: Vec<WireHost> = match self.client.list(Core, &self.in_compartment("computeHosts")).await {
            Ok(hosts) => hosts,
            // Oracle answers this to those who may not see hosts, and for tenancies that have none of their own.
            Err(error) if error.is_not_found() || error.class == Class::NoRights => {
                return Ok(BTreeMap::new());
            }
            Err(error) => return Err(error),
        };
        let place = |host: &WireHost| {
            let id = host.instance.clone().filter(|id| asked.contains(&id.as_str()))?;
            Some((id, host.path())).filter(|(_, path)| !path.is_empty())
        };
        Ok(hosts.iter().filter_map(place).collect())
    }
}
