//! Who may look through kilnd's window: hashes of tokens, of one-time logins and of sessions.

use kiln_web::auth::{Key, KeyKind};
use rusqlite::{OptionalExtension as _, Row, TransactionBehavior, params};

use super::{Store, millis, now, time};
use crate::error::{Error, Result};

const FIELDS: &str = "name, role, created, expires";

impl Store {
    /// Keys that have expired go, as new ones come. Two tokens never have the same name.
    pub fn add_key(&self, hash: &str, key: &Key) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("DELETE FROM keys WHERE expires <= ?", [millis(now())])?;
        let is_taken = "SELECT count(*) FROM keys WHERE kind = 'token' AND name = ?";
        if key.kind == KeyKind::Token
            && transaction.query_row(is_taken, [&key.name], |row| row.get::<_, i64>(0))? > 0
        {
            return Err(Error::Refused(format!(
                "there is a token named {} already: remove it first",
                key.name
            )));
        }
        transaction.execute(
            "INSERT INTO keys (hash, kind, name, role, created, expires) VALUES (?, ?, ?, ?, ?, ?)",
            params![
                hash,
                key.kind.word(),
                key.name,
                key.role.word(),
                millis(key.created),
                millis(key.expires)
            ],
        )?;
        transaction.commit()?;
        Ok(())
    }

    /// One that has expired is none.
    pub fn key(&self, kind: KeyKind, hash: &str) -> Result<Option<Key>> {
        let connection = self.lock();
        let mut statement = connection
            .prepare(&format!("SELECT {FIELDS} FROM keys WHERE kind = ? AND hash = ? AND expires > ?"))?;
        let found = statement.query_row(params![kind.word(), hash, millis(now())], |row| read(kind, row));
        found.optional()?.transpose()
    }

    /// As [`Store::key`], and it is gone: of two who ask, one gets it.
    pub fn take_key(&self, kind: KeyKind, hash: &str) -> Result<Option<Key>> {
        let connection = self.lock();
        let mut statement = connection.prepare(&format!(
            "DELETE FROM keys WHERE kind = ? AND hash = ? AND expires > ? RETURNING {FIELDS}"
        ))?;
        let found = statement.query_row(params![kind.word(), hash, millis(now())], |row| read(kind, row));
        found.optional()?.transpose()
    }

    /// By name.
    pub fn tokens(&self) -> Result<Vec<Key>> {
        let connection = self.lock();
        let mut statement = connection.prepare(&format!(
            "SELECT {FIELDS} FROM keys WHERE kind = 'token' AND expires > ? ORDER BY name"
        ))?;
        let rows = statement.query_map([millis(now())], |row| read(KeyKind::Token, row))?;
        rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().collect()
    }

    /// Ends a token, and the sessions of its name; `false` if there is none.
    pub fn remove_token(&self, name: &str) -> Result<bool> {
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let removed = transaction.execute("DELETE FROM keys WHERE kind = 'token' AND name = ?", [name])?;
        transaction.execute("DELETE FROM keys WHERE kind = 'session' AND name = ?", [name])?;
        transaction.commit()?;
        Ok(removed > 0)
    }
}

fn read(kind: KeyKind, row: &Row<'_>) -> rusqlite::Result<Result<Key>> {
    let role: String = row.get(1)?;
    let (name, created, expires) = (row.get(0)?, time(row.get(2)?), time(row.get(3)?));
    Ok(role.parse().map(|role| Key { kind, name, role, created, expires }).map_err(Error::StoreContent))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kiln_wire::dashboard::Role;

    use super::*;

    const LIFE: Duration = Duration::from_secs(60);

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        (dir, store)
    }

    #[test]
    fn a_key_is_of_one_kind_and_ends() {
        let (_dir, store) = store();
        store.add_key("a", &Key::new(KeyKind::Token, "ann", Role::Operator, LIFE)).unwrap();
        store.add_key("b", &Key::new(KeyKind::Login, "bob", Role::Viewer, Duration::ZERO)).unwrap();
        let found = store.key(KeyKind::Token, "a").unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.role), ("ann", Role::Operator));
        assert_eq!(store.key(KeyKind::Session, "a").unwrap(), None);
        assert_eq!(store.take_key(KeyKind::Login, "b").unwrap(), None);
    }

    #[test]
    fn a_login_is_taken_once() {
        let (_dir, store) = store();
        store.add_key("b", &Key::new(KeyKind::Login, "bob", Role::Viewer, LIFE)).unwrap();
        assert!(store.take_key(KeyKind::Login, "b").unwrap().is_some());
        assert_eq!(store.take_key(KeyKind::Login, "b").unwrap(), None);
    }

    #[test]
    fn a_token_has_its_name_for_itself_and_takes_its_sessions_with_it() {
        let (_dir, store) = store();
        let token = Key::new(KeyKind::Token, "ann", Role::Viewer, LIFE);
        store.add_key("a", &token).unwrap();
        assert!(store.add_key("b", &token).unwrap_err().to_string().contains("a token named ann already"));
        store.add_key("c", &Key { kind: KeyKind::Session, ..token }).unwrap();
        assert_eq!(store.tokens().unwrap().len(), 1);
        assert!(store.remove_token("ann").unwrap() && !store.remove_token("ann").unwrap());
        assert_eq!(store.key(KeyKind::Session, "c").unwrap(), None);
    }
}
