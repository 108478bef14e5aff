//! Which instances kilnd has seen and not seen go, for a deploy host whose list may lack some.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::format::{Format, Version};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownInstances {
    #[serde(default)]
    pub format: Version<1>,
    /// Ids, by compute node.
    pub nodes: BTreeMap<String, Vec<String>>,
}

impl Format for KnownInstances {
    const NAME: &'static str = "list of known instances";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let known = KnownInstances { nodes: [("n-0".into(), vec!["a".into()])].into(), ..Default::default() };
        assert_eq!(KnownInstances::from_json(&known.to_json().unwrap()), Ok(known));
    }
}
