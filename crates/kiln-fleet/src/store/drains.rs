//! Why Kiln has drained nodes. Slurm has that too, but may drop it.

use std::collections::BTreeMap;

use kiln_slurm::Node;
use rusqlite::params;

use super::Store;
use crate::error::Result;

impl Store {
    /// Kiln's reasons, by node.
    pub fn drains(&self) -> Result<BTreeMap<String, String>> {
        let connection = self.lock();
        let mut statement = connection.prepare("SELECT node, reason FROM drains")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Notes the reasons that nodes have now. A reason that Slurm dropped is kept; any other change ends it: the node is back
    /// in service, or somebody else has drained it.
    pub fn note_drains<'a>(&self, nodes: impl Iterator<Item = &'a Node>) -> Result<()> {
        let known = self.drains()?;
        for node in nodes {
            let reason = node.reason.as_deref().filter(|_| node.is_drained_by_kiln());
            match (reason, known.get(&node.name)) {
                (Some(reason), before) if before.map(String::as_str) != Some(reason) => {
                    self.lock().execute(
                        "INSERT OR REPLACE INTO drains (node, reason) VALUES (?1, ?2)",
                        params![node.name, reason],
                    )?;
                }
                (None, Some(_)) if !node.has_lost_reason() => {
                    self.lock().execute("DELETE FROM drains WHERE node = ?", [&node.name])?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_outlives_slurms_memory_but_no_other_drain() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        let see = |state: &str| {
            let node = kiln_slurm::parse_node(&format!("NodeName=n-0 State={state}")).unwrap();
            store.note_drains([&node].into_iter()).unwrap();
            store.drains().unwrap().remove("n-0")
        };
        let ours = "IDLE+DRAIN Reason=kiln: rollout 6: it did not come back [slurm@1]";
        let noted = Some("kiln: rollout 6: it did not come back".to_string());
        assert_eq!(see(ours), noted);
        assert_eq!(see("IDLE+DRAIN"), noted);
        assert_eq!(see("DOWN+DRAIN Reason=Node unexpectedly rebooted [slurm@1]"), noted);
        assert_eq!(see("IDLE"), None);
        assert_eq!(see("IDLE+DRAIN"), None, "somebody's, without a reason");
        assert_eq!(see(ours), noted);
        assert_eq!(see("IDLE+DRAIN Reason=bad fan [root@1]"), None);
        assert_eq!(see("IDLE+DRAIN"), None, "what was lost is not Kiln's");
    }
}
