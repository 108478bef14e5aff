//! What the reconciler found wrong, and since when.

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::{Store, millis, now, time};
use crate::error::Result;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingRecord {
    /// A node, or an instance that belongs to no node.
    pub subject: String,
    /// Name of the rule.
    pub rule: String,
    pub since: Timestamp,
    /// What was seen, in words.
    pub text: String,
    /// When Kiln last did something about it.
    pub acted: Option<Timestamp>,
}

impl Store {
    /// By subject.
    pub fn findings(&self) -> Result<Vec<FindingRecord>> {
        let connection = self.lock();
        let mut statement = connection
            .prepare("SELECT subject, rule, since, text, acted FROM findings ORDER BY subject, rule")?;
        let rows = statement.query_map([], |row| {
            Ok(FindingRecord {
                subject: row.get(0)?,
                rule: row.get(1)?,
                since: time(row.get(2)?),
                text: row.get(3)?,
                acted: row.get::<_, Option<i64>>(4)?.map(time),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Replaces all: (subject, rule, text). One that was there before keeps its age.
    pub fn set_findings(&self, seen: &[(String, &str, String)]) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let at = millis(now());
        transaction.execute_batch(
            "CREATE TEMP TABLE IF NOT EXISTS seen (subject TEXT, rule TEXT); DELETE FROM seen",
        )?;
        {
            let mut put = transaction.prepare(
                "INSERT INTO findings (subject, rule, since, text) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (subject, rule) DO UPDATE SET text = ?4",
            )?;
            let mut keep = transaction.prepare("INSERT INTO seen VALUES (?1, ?2)")?;
            for (subject, rule, text) in seen {
                put.execute(params![subject, rule, at, text])?;
                keep.execute(params![subject, rule])?;
            }
        }
        transaction.execute(
            "DELETE FROM findings WHERE (subject, rule) NOT IN (SELECT subject, rule FROM seen)",
            [],
        )?;
        transaction.commit()?;
        Ok(())
    }

    /// That the reconciler looked just now, and what kept it from seeing.
    pub fn note_look(&self, problem: Option<&str>) -> Result<()> {
        self.lock().execute(
            "INSERT INTO looks (id, time, problem) VALUES (1, ?1, ?2)
             ON CONFLICT (id) DO UPDATE SET time = ?1, problem = ?2",
            params![millis(now()), problem],
        )?;
        Ok(())
    }

    /// When the reconciler last looked, and what kept it from seeing.
    pub fn last_look(&self) -> Result<Option<(Timestamp, Option<String>)>> {
        let connection = self.lock();
        let mut statement = connection.prepare("SELECT time, problem FROM looks")?;
        Ok(statement.query_row([], |row| Ok((time(row.get(0)?), row.get(1)?))).optional()?)
    }

    pub fn note_action(&self, subject: &str, rule: &str) -> Result<()> {
        self.lock().execute(
            "UPDATE findings SET acted = ? WHERE subject = ? AND rule = ?",
            params![millis(now()), subject, rule],
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_that_lasts_keeps_its_age() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        let gone = ("n-0".to_string(), "gone", "no instance".to_string());
        let stray = ("n-1".to_string(), "stray", "belongs to no node".to_string());
        store.set_findings(&[gone.clone(), stray]).unwrap();
        let first = store.findings().unwrap();
        store.note_action("n-0", "gone").unwrap();
        store.set_findings(&[(gone.0, gone.1, "still no instance".into())]).unwrap();
        let second = store.findings().unwrap();
        assert_eq!(second.len(), 1);
        assert_eq!(second[0].since, first[0].since);
        assert_eq!(second[0].text, "still no instance");
        assert!(second[0].acted.is_some());
    }
}
