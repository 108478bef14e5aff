//! How a cluster's control node reaches the cloud it lives in.

use serde::{Deserialize, Serialize};

use crate::openstack;

/// No `Debug` on purpose: secrets must not find their way into a log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Access {
    Local {
        url: String,
        /// Secret.
        token: String,
    },
    OpenStack(Box<openstack::Access>),
}
