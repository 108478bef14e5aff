//! How a cluster's control node reaches its cloud, as the fleet file carries it. What is inside is the business of
//! the cloud's driver.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CloudAccess(Value);

/// Without detail: the detail would quote secrets.
#[derive(Debug, thiserror::Error)]
#[error("this kiln does not understand the fleet file's access to the cloud")]
pub struct CloudAccessError;

/// It holds secrets, and only the driver knows which part is one.
impl fmt::Debug for CloudAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudAccess").finish_non_exhaustive()
    }
}

impl CloudAccess {
    pub fn new(access: &impl Serialize) -> Result<Self, CloudAccessError> {
        serde_json::to_value(access).map(CloudAccess).map_err(|_| CloudAccessError)
    }

    pub fn open<T: DeserializeOwned>(&self) -> Result<T, CloudAccessError> {
        T::deserialize(&self.0).map_err(|_| CloudAccessError)
    }
}
