//! Whether this control node reaches its cloud: asked while somebody configures the cluster and can mend it, rather than when
//! a job first needs a node.

use std::time::Duration;

use kiln_cloud::retry;
use kiln_wire::CloudReached;

use crate::error::Result;
use crate::fleet::Fleet;

/// One answer may get lost. A call that is tried for as long as kilnd tries would hold up `kiln configure` for minutes.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(2);

pub async fn reach(fleet: &Fleet) -> Result<CloudReached> {
    let mut attempt = 1;
    loop {
        match retry::once(fleet.cloud.instances(&fleet.file.cluster)).await {
            Ok(instances) => {
                return Ok(CloudReached { format: kiln_wire::Version, instances: instances.len() });
            }
            Err(error) if attempt == ATTEMPTS => return Err(error.into()),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        attempt += 1;
    }
}
