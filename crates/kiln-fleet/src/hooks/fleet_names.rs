//! The fleet's names, in a list beside the fleet file: a hook has no time for that one, which is a hundred times as long.

use std::collections::HashMap;
use std::path::Path;

use crate::error::{Result, io};

const LIST: &str = "nodes";
const ELASTIC: &str = "elastic";

/// A list that is behind does no harm: kilnd checks again.
pub struct FleetNames {
    /// Whether each is of an elastic group.
    nodes: HashMap<String, bool>,
}

impl FleetNames {
    /// One node per line, with the word `elastic` behind those of elastic groups.
    pub fn beside(fleet: &Path) -> Result<Self> {
        let path = fleet.with_file_name(LIST);
        let text = std::fs::read_to_string(&path).map_err(io(&path))?;
        let nodes = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            Some((words.next()?.to_string(), words.next() == Some(ELASTIC)))
        });
        Ok(FleetNames { nodes: nodes.collect() })
    }

    pub fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    pub fn is_elastic(&self, node: &str) -> bool {
        self.nodes.get(node).copied().unwrap_or_default()
    }
}
