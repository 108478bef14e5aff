//! Which instances nodes have, as far as kilnd has seen. A list of the cloud may lack some; and which instance is older than a
//! request is told by this host's clock alone, not by the cloud's.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_cloud::Instance;
use rusqlite::params;

use super::{Store, millis, now, time};
use crate::error::Result;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownInstance {
    pub node: String,
    /// In a list, or in the answer to its creation.
    pub first_seen: Timestamp,
}

impl Store {
    /// By id.
    pub fn known_instances(&self) -> Result<BTreeMap<String, KnownInstance>> {
        let connection = self.lock();
        let mut statement = connection.prepare("SELECT id, node, first_seen FROM instances")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get(0)?, KnownInstance { node: row.get(1)?, first_seen: time(row.get(2)?) }))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Notes instances with the nodes they are; those that are known stay as they are. All that are known then.
    pub fn note_instances<'a>(
        &self,
        seen: impl Iterator<Item = (&'a str, &'a Instance)>,
    ) -> Result<BTreeMap<String, KnownInstance>> {
        let mut known = self.known_instances()?;
        let new: Vec<_> = seen.filter(|(_, instance)| !known.contains_key(&instance.id)).collect();
        // Most of the time there is none, and that must cost no write.
        if new.is_empty() {
            return Ok(known);
        }
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let at = now();
        for (node, instance) in new {
            transaction.execute(
                "INSERT OR IGNORE INTO instances (id, node, first_seen) VALUES (?1, ?2, ?3)",
                params![instance.id, node, millis(at)],
            )?;
            known.insert(instance.id.clone(), KnownInstance { node: node.into(), first_seen: at });
        }
        transaction.commit()?;
        Ok(known)
    }

    /// It is gone: the cloud has said so of this very instance.
    pub fn forget_instance(&self, id: &str) -> Result<()> {
        self.lock().execute("DELETE FROM instances WHERE id = ?", [id])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_cloud::testing;

    use super::*;

    #[test]
    fn an_instance_is_first_seen_once_until_it_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        let (a, b) = (testing::instance("a"), testing::instance("b"));
        let first = store.note_instances([("n-0", &a)].into_iter()).unwrap();
        let then = store.note_instances([("n-0", &a), ("n-1", &b)].into_iter()).unwrap();
        assert_eq!((&then["a"], then["b"].node.as_str()), (&first["a"], "n-1"));
        // Written in whole milliseconds.
        assert_eq!(store.known_instances().unwrap().len(), 2);
        store.forget_instance("a").unwrap();
        assert_eq!(store.known_instances().unwrap().into_keys().collect::<Vec<_>>(), ["b"]);
    }
}
