//! The last cloud operation that Kiln began on each node's instance. The table keeps its first name, `deeds`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::requests::CloudOperation;
use super::{Store, millis, now, time};
use crate::error::Result;

impl Store {
    /// To be called before the cloud is asked. Requests do it by themselves.
    pub fn note_operation(&self, node: &str, operation: CloudOperation) -> Result<()> {
        Ok(put(&self.lock(), node, operation)?)
    }

    /// By node.
    pub fn cloud_operations(&self) -> Result<BTreeMap<String, (CloudOperation, Timestamp)>> {
        let connection = self.lock();
        let mut statement = connection.prepare("SELECT node, deed, time FROM deeds")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, time(row.get(2)?)))
        })?;
        rows.map(|row| {
            let (node, operation, time) = row?;
            Ok((node, (CloudOperation::from_word(&operation)?, time)))
        })
        .collect()
    }
}

pub(super) fn put(connection: &Connection, node: &str, operation: CloudOperation) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO deeds (node, deed, time) VALUES (?1, ?2, ?3)
         ON CONFLICT (node) DO UPDATE SET deed = ?2, time = ?3",
        params![node, operation.word(), millis(now())],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewRequest, RequestKind};

    #[test]
    fn the_last_operation_counts_whoever_did_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        store.enqueue(&[NewRequest::new(RequestKind::Reboot, "a", now())]).unwrap();
        let id = store.claim(1).unwrap()[0].id;
        store.begin(id, CloudOperation::Rebuild).unwrap();
        assert_eq!(store.cloud_operations().unwrap()["a"].0, CloudOperation::Rebuild);
        store.note_operation("a", CloudOperation::Start).unwrap();
        assert_eq!(store.cloud_operations().unwrap()["a"].0, CloudOperation::Start);
        assert_eq!(store.cloud_operations().unwrap().len(), 1);
    }
}
