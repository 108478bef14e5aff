//! Rollouts and what they leave behind.

use rusqlite::{OptionalExtension as _, params};

use super::Store;
use crate::error::Result;

impl Store {
    /// The image a node should have: the fleet's, unless a rollout took the node back from exactly that one.
    pub fn target(&self, node: &str, wanted: Option<&str>) -> Result<Option<String>> {
        let Some(wanted) = wanted else {
            return Ok(None);
        };
        let pinned = self
            .lock()
            .prepare("SELECT image FROM pins WHERE node = ? AND instead_of = ?")?
            .query_row(params![node, wanted], |row| row.get(0))
            .optional()?;
        Ok(Some(pinned.unwrap_or_else(|| wanted.to_string())))
    }
}
