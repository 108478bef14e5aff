//! What Kiln last did to each node's instance.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::requests::Deed;
use super::{Store, millis, now, time};
use crate::error::Result;

impl Store {
    /// To be called before the cloud is asked. Requests do it by themselves.
    pub fn note_deed(&self, node: &str, deed: Deed) -> Result<()> {
        Ok(put(&self.lock(), node, deed)?)
    }

    /// By node.
    pub fn deeds(&self) -> Result<BTreeMap<String, (Deed, Timestamp)>> {
        let connection = self.lock();
        let mut statement = connection.prepare("SELECT node, deed, time FROM deeds")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, time(row.get(2)?)))
        })?;
        rows.map(|row| {
            let (node, deed, time) = row?;
            Ok((node, (Deed::from_word(&deed)?, time)))
        })
        .collect()
    }
}

pub(super) fn put(connection: &Connection, node: &str, deed: Deed) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO deeds (node, deed, time) VALUES (?1, ?2, ?3)
         ON CONFLICT (node) DO UPDATE SET deed = ?2, time = ?3",
        params![node, deed.word(), millis(now())],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Kind, NewRequest};

    #[test]
    fn the_last_deed_counts_whoever_did_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        store.enqueue(&[NewRequest::new(Kind::Reboot, "a", now())]).unwrap();
        let id = store.claim(1).unwrap()[0].id;
        store.begin(id, Deed::Rebuild).unwrap();
        assert_eq!(store.deeds().unwrap()["a"].0, Deed::Rebuild);
        store.note_deed("a", Deed::Start).unwrap();
        assert_eq!(store.deeds().unwrap()["a"].0, Deed::Start);
        assert_eq!(store.deeds().unwrap().len(), 1);
    }
}
