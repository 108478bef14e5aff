//! The cloud, as the control node itself sees it.

use serde::{Deserialize, Serialize};

use crate::format::{Format, Version};

/// The control node has asked the cloud and got an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudReached {
    #[serde(default)]
    pub format: Version<1>,
    /// How many instances of the cluster the cloud listed.
    pub instances: usize,
}

impl Format for CloudReached {
    const NAME: &'static str = "answer about the cloud";
    const VERSION: u32 = 1;
}
