//! Rollouts, and the pins they leave behind.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Params, Row, TransactionBehavior, params};

use super::{Store, millis, now, time};
use crate::error::{Error, Result};
use kiln_wire::rollout::{NodeStep, Options, Rollout, RolloutId, RolloutNode, RolloutState};

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

    /// By node: the image it was taken back to, and instead of which.
    pub fn pins(&self) -> Result<HashMap<String, (String, String)>> {
        let connection = self.lock();
        let mut statement = connection.prepare("SELECT node, image, instead_of FROM pins")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub fn pin(&self, node: &str, image: &str, instead_of: &str) -> Result<()> {
        self.lock().execute(
            "INSERT OR REPLACE INTO pins (node, image, instead_of) VALUES (?, ?, ?)",
            params![node, image, instead_of],
        )?;
        Ok(())
    }

    /// Refused if a node is in another rollout that is not over. A node that is skipped in either rollout is in nobody's
    /// way. A new rollout ends its nodes' pins.
    pub fn add_rollout(&self, options: &Options, nodes: &[RolloutNode]) -> Result<RolloutId> {
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for other in &read(&transaction, OPEN, [])? {
            let touched = |n: &RolloutNode| !matches!(n.step, NodeStep::Skipped { .. });
            let common =
                |n: &&RolloutNode| touched(n) && other.nodes.iter().any(|o| o.node == n.node && touched(o));
            if let Some(node) = nodes.iter().find(common) {
                return Err(Error::Refused(format!(
                    "rollout {} is not over and has {} too: wait for its end or abort it",
                    other.id, node.node
                )));
            }
        }
        transaction.execute(
            "INSERT INTO rollouts (created, state, options) VALUES (?, ?, ?)",
            params![millis(now()), encode(&RolloutState::Running)?, encode(options)?],
        )?;
        let id = transaction.last_insert_rowid();
        for (position, node) in (0i64..).zip(nodes) {
            transaction.execute(
                "INSERT INTO rollout_nodes (rollout, position, node, record) VALUES (?, ?, ?, ?)",
                params![id, position, node.node, encode(node)?],
            )?;
            transaction.execute("DELETE FROM pins WHERE node = ?", [&node.node])?;
        }
        transaction.commit()?;
        Ok(id)
    }

    /// Newest first.
    pub fn rollouts(&self) -> Result<Vec<Rollout>> {
        let mut all = read(&self.lock(), "true", [])?;
        all.reverse();
        Ok(all)
    }

    /// Oldest first. The others, of which there are more and more, are not even read.
    pub fn open_rollouts(&self) -> Result<Vec<Rollout>> {
        read(&self.lock(), OPEN, [])
    }

    /// The newest, and those that are not over; newest first.
    pub fn newest_rollouts(&self, most: u32) -> Result<Vec<RolloutId>> {
        let connection = self.lock();
        let mut statement = connection.prepare(&format!(
            "SELECT id FROM rollouts WHERE {OPEN} OR id > (SELECT max(id) FROM rollouts) - ? ORDER BY id DESC"
        ))?;
        let rows = statement.query_map([most], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub fn rollout(&self, id: RolloutId) -> Result<Option<Rollout>> {
        Ok(read(&self.lock(), "id = ?", [id])?.pop())
    }

    /// Only if it is still in the state it was seen in; `false` if it is not.
    pub fn change_rollout(&self, id: RolloutId, from: &RolloutState, to: &RolloutState) -> Result<bool> {
        let finished = (!to.is_open()).then(|| millis(now()));
        let changed = self.lock().execute(
            "UPDATE rollouts SET state = ?, finished = ? WHERE id = ? AND state = ?",
            params![encode(to)?, finished, id, encode(from)?],
        )?;
        Ok(changed == 1)
    }

    pub fn save_rollout_node(&self, id: RolloutId, node: &RolloutNode) -> Result<()> {
        self.lock().execute(
            "UPDATE rollout_nodes SET record = ? WHERE rollout = ? AND node = ?",
            params![encode(node)?, id, node.node],
        )?;
        Ok(())
    }
}

/// As [`Store::change_rollout`] keeps it.
const OPEN: &str = "finished IS NULL";

fn read(connection: &Connection, condition: &str, values: impl Params) -> Result<Vec<Rollout>> {
    let mut statement = connection.prepare(&format!(
        "SELECT id, created, finished, state, options FROM rollouts WHERE {condition} ORDER BY id"
    ))?;
    let rows = statement.query_map(values, |row: &Row<'_>| {
        Ok((
            row.get(0)?,
            row.get(1)?,
            row.get::<_, Option<i64>>(2)?,
            row.get::<_, String>(3)?,
            row.get::<_, String>(4)?,
        ))
    })?;
    let mut rollouts = Vec::new();
    for row in rows {
        let (id, created, finished, state, options) = row?;
        rollouts.push(Rollout {
            id,
            created: time(created),
            finished: finished.map(time),
            state: decode(&state)?,
            options: decode(&options)?,
            nodes: read_nodes(connection, id)?,
        });
    }
    Ok(rollouts)
}

fn read_nodes(connection: &Connection, id: RolloutId) -> Result<Vec<RolloutNode>> {
    let mut statement =
        connection.prepare("SELECT record FROM rollout_nodes WHERE rollout = ? ORDER BY position")?;
    let rows = statement.query_map([id], |row| row.get::<_, String>(0))?;
    rows.map(|record| decode(&record?)).collect()
}

fn encode(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::StoreContent(e.to_string()))
}

fn decode<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::StoreContent(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_wire::rollout::NodeStep;

    fn node(name: &str) -> RolloutNode {
        let (previous, target) = (Some("old".into()), Some("new".into()));
        RolloutNode { previous, target, ..RolloutNode::pending(name, "rebuild", now()) }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        (dir, store)
    }

    #[test]
    fn a_rollout_is_read_as_it_was_written() {
        let (_dir, store) = store();
        let id = store.add_rollout(&Options::default(), &[node("b"), node("a")]).unwrap();
        let mut changed = node("a");
        changed.step = NodeStep::Submitted { job: 7 };
        store.save_rollout_node(id, &changed).unwrap();
        let rollout = store.rollout(id).unwrap().unwrap();
        assert_eq!(rollout.nodes[1].step, NodeStep::Submitted { job: 7 });
        assert_eq!(rollout.options, Options::default());
        assert!(store.rollout(id + 1).unwrap().is_none());
    }

    #[test]
    fn a_skipped_node_may_be_in_another_rollout() {
        let (_dir, store) = store();
        let skipped = RolloutNode { step: NodeStep::Skipped { reason: "has its image".into() }, ..node("a") };
        store.add_rollout(&Options::default(), &[skipped.clone(), node("b")]).unwrap();
        store.add_rollout(&Options::default(), &[node("a")]).unwrap();
        store.add_rollout(&Options::default(), &[skipped]).unwrap();
    }

    #[test]
    fn two_rollouts_never_share_a_node() {
        let (_dir, store) = store();
        let id = store.add_rollout(&Options::default(), &[node("a"), node("b")]).unwrap();
        let error = store.add_rollout(&Options::default(), &[node("c"), node("b")]).unwrap_err();
        assert!(error.to_string().contains(&format!("rollout {id} is not over and has b too")), "{error}");
        store.add_rollout(&Options::default(), &[node("c")]).unwrap();
        assert!(store.change_rollout(id, &RolloutState::Running, &RolloutState::Done).unwrap());
        store.add_rollout(&Options::default(), &[node("b")]).unwrap();
    }

    #[test]
    fn rollouts_that_are_over_are_not_read() {
        let (_dir, store) = store();
        let over = store.add_rollout(&Options::default(), &[node("a")]).unwrap();
        assert!(store.change_rollout(over, &RolloutState::Running, &RolloutState::Done).unwrap());
        let open = store.add_rollout(&Options::default(), &[node("a")]).unwrap();
        store.lock().execute("UPDATE rollout_nodes SET record = '?' WHERE rollout = ?", [over]).unwrap();
        assert!(store.rollouts().is_err());
        let found: Vec<_> = store.open_rollouts().unwrap().into_iter().map(|r| r.id).collect();
        assert_eq!(found, [open]);
        assert!(store.add_rollout(&Options::default(), &[node("b")]).is_ok());
    }

    #[test]
    fn a_state_that_changed_meanwhile_is_not_overwritten() {
        let (_dir, store) = store();
        let id = store.add_rollout(&Options::default(), &[node("a")]).unwrap();
        assert!(store.change_rollout(id, &RolloutState::Running, &RolloutState::Paused).unwrap());
        assert!(!store.change_rollout(id, &RolloutState::Running, &RolloutState::Done).unwrap());
    }

    #[test]
    fn a_pin_holds_until_the_target_changes_or_a_new_rollout() {
        let (_dir, store) = store();
        store.pin("a", "old", "bad").unwrap();
        assert_eq!(store.target("a", Some("bad")).unwrap().as_deref(), Some("old"));
        assert_eq!(store.target("a", Some("newer")).unwrap().as_deref(), Some("newer"));
        assert_eq!(store.target("a", None).unwrap(), None);
        store.add_rollout(&Options::default(), &[node("a")]).unwrap();
        assert_eq!(store.target("a", Some("bad")).unwrap().as_deref(), Some("bad"));
    }
}
