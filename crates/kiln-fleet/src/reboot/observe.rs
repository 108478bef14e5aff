//! What is read before each step of a request: the instance as it is now, and what Slurm knows of the node.

use std::time::Duration;

use kiln_cloud::Instance;
use kiln_slurm::{BOOT_TIME_ROUNDING, Slurm};

use crate::cloud_view;
use crate::error::Result;
use crate::fleet::Fleet;
use crate::store::{CloudOperation, Request, RequestKind, now};

/// A request that had to wait this long may be about a boot that Slurm does not wait for any more.
const STALE: Duration = Duration::from_secs(60);

/// One request's node, as it is now.
pub struct Observation {
    /// `None`: the cloud has none.
    pub instance: Option<Instance>,
    /// What this attempt has asked of the cloud.
    pub begun: Option<CloudOperation>,
    /// What an earlier attempt asked of the cloud and is known to have happened.
    pub done_before: Option<CloudOperation>,
    /// Since this attempt began.
    pub elapsed: Duration,
}

/// The node's instance in a list of all. The list may be old; [`refresh`] reads the instance itself.
pub async fn find(fleet: &Fleet, node: &str) -> Result<Option<Instance>> {
    Ok(cloud_view::instances(fleet).await?.remove(node))
}

pub async fn refresh(fleet: &Fleet, instance: Option<Instance>) -> Result<Option<Instance>> {
    let Some(instance) = instance else { return Ok(None) };
    match fleet.cloud.instance(&instance.id).await {
        Ok(instance) => Ok(Some(instance)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The daemon was away, and the node has gone back to work meanwhile: a reboot now would kill users' jobs.
pub async fn is_outdated(slurm: &Slurm, request: &Request) -> Result<bool> {
    let age = now().duration_since(request.received).unsigned_abs();
    if request.kind != RequestKind::Reboot || request.operation.is_some() || age < STALE {
        return Ok(false);
    }
    // While Slurm waits for the boot, the node has a flag that takes it out of service.
    Ok(slurm.node(&request.node).await?.is_some_and(|n| n.state.in_service()))
}

/// What an earlier attempt at this request, perhaps of another daemon, is known to have done. The record alone is no proof:
/// it was written before the cloud was asked.
pub async fn done_before(slurm: &Slurm, request: &Request, instance: &Instance) -> Option<CloudOperation> {
    let (operation, began) = (request.operation?, request.began?);
    let happened = match operation {
        // By the cloud's clock, which may differ from ours by less than a build takes.
        CloudOperation::Rebuild => instance.built.is_some_and(|built| built >= began - BOOT_TIME_ROUNDING),
        CloudOperation::Create | CloudOperation::Delete => false,
        CloudOperation::Reboot | CloudOperation::Start => {
            let node = slurm.node(&request.node).await.ok().flatten();
            node.and_then(|n| n.booted).is_some_and(|booted| booted >= began - BOOT_TIME_ROUNDING)
        }
    };
    happened.then_some(operation)
}
