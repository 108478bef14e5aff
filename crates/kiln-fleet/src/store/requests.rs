//! The queue between hooks and the daemon.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, Row, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

use super::{Store, millis, now, time};
use crate::error::{Error, Result};

/// An enum that is kept as a word.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$variant_meta])* $variant,)* }

        impl $name {
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            pub(super) fn from_word(word: &str) -> Result<Self> {
                match word {
                    $($word => Ok($name::$variant),)*
                    other => Err(Error::StoreContent(format!("{} {other:?}", stringify!($name)))),
                }
            }
        }
    };
}

words!(
    /// What is asked for a node.
    RequestKind {
        /// Slurm wants it rebooted: onto its target image, if it has another.
        Reboot = "reboot",
        /// A rollout takes it to the image the request names, without Slurm's help.
        Rebuild = "rebuild",
        /// Slurm wants a node of an elastic group powered up: it has no instance, or an old one.
        Resume = "resume",
        /// Slurm has powered the node down: its instance is to go.
        Suspend = "suspend",
        /// Slurm has given up waiting for the node: what came too late is to go.
        GiveUp = "give-up",
        /// The node is up, or about to be, for jobs that cannot have all their nodes: it is to be powered down.
        TakeBack = "take-back",
    }
);
words!(RequestState { Queued = "queued", Working = "working", Done = "done", Failed = "failed", });
words!(
    /// What the cloud was asked to do.
    CloudOperation {
        Rebuild = "rebuild",
        Reboot = "reboot",
        Start = "start",
        Create = "create",
        Delete = "delete",
    }
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewRequest {
    pub kind: RequestKind,
    pub node: String,
    /// For [`RequestKind::Rebuild`].
    pub image: Option<String>,
    pub received: Timestamp,
    /// For [`RequestKind::Resume`]: the jobs that wait for the node, with commas.
    #[serde(default)]
    pub jobs: Option<String>,
}

impl NewRequest {
    pub fn new(kind: RequestKind, node: &str, received: Timestamp) -> Self {
        NewRequest { kind, node: node.into(), image: None, received, jobs: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub id: i64,
    pub kind: RequestKind,
    pub node: String,
    pub image: Option<String>,
    pub received: Timestamp,
    pub state: RequestState,
    /// How often it was taken up; to power a node up, how many instances were ordered.
    pub attempts: u32,
    /// What went wrong last; of a request that is done, why nothing was done.
    pub error: Option<String>,
    pub next_try: Timestamp,
    /// Written before the cloud is asked, so that a restart knows what may have happened.
    #[serde(rename = "deed")]
    pub operation: Option<CloudOperation>,
    pub began: Option<Timestamp>,
    /// By the cloud's clock: when the instance had last been built, before a rebuild was asked for.
    pub built_before: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    pub jobs: Option<String>,
}

impl Request {
    pub fn is_open(&self) -> bool {
        matches!(self.state, RequestState::Queued | RequestState::Working)
    }

    /// Why it ended without anything being done, if it did.
    pub fn called_off(&self) -> Option<&str> {
        self.error.as_deref().filter(|_| self.state == RequestState::Done)
    }
}

/// When Slurm last asked for a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PowerTimes {
    /// To power it up.
    pub up: Option<Timestamp>,
    /// To power it down, or when it gave the node up: an instance older than that is no longer wanted.
    pub down: Option<Timestamp>,
}

/// No request is postponed for longer.
pub(super) const LONGEST_POSTPONEMENT: Duration = Duration::from_secs(2 * 3600);

const COLUMNS: &str = "id, kind, node, image, received, state, attempts, error, next_try, deed, began, finished, jobs, built_before";
/// Powering nodes up and down is done in bulk, see [`Store::power_requests`].
const POWER: &str = "kind IN ('resume', 'suspend', 'give-up', 'take-back')";
/// Finished requests are of use to rollouts and to people, for a while.
const KEEP_FINISHED: Duration = Duration::from_secs(30 * 24 * 3600);

impl Store {
    /// All or none. Asked for what the last open request of its node asks for already, a node is not queued twice; what lies
    /// further back does not count, because it was not the last word. Returns how many are new.
    pub fn enqueue(&self, requests: &[NewRequest]) -> Result<usize> {
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut added = 0;
        {
            let mut insert = transaction.prepare(
                "INSERT INTO requests (kind, node, image, received, state, next_try, jobs)
                 SELECT ?1, ?2, ?3, ?4, 'queued', ?4, ?5 WHERE NOT EXISTS (
                     SELECT 1 FROM (SELECT * FROM requests WHERE node = ?2 AND state IN ('queued', 'working')
                                    ORDER BY received DESC, id DESC LIMIT 1)
                     WHERE kind = ?1 AND image IS ?3 AND state = 'queued' AND deed IS NULL)",
            )?;
            for new in requests {
                added += insert.execute(params![
                    new.kind.word(),
                    new.node,
                    new.image,
                    millis(new.received),
                    new.jobs
                ])?;
            }
        }
        transaction.commit()?;
        Ok(added)
    }

    /// Takes up to `most` requests that are due, oldest first, and never two of one node at a time.
    pub fn claim(&self, most: usize) -> Result<Vec<Request>> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let mut connection = self.lock();
        let at = millis(now());
        // Most of the time nothing waits, and finding that out must cost no write.
        let waiting: bool = connection
            .prepare(&format!(
                "SELECT EXISTS (SELECT 1 FROM requests WHERE state = 'queued' AND next_try <= ?1 AND NOT {POWER})"
            ))?
            .query_row(params![at], |row| row.get(0))?;
        if !waiting {
            return Ok(Vec::new());
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let claimed = {
            let mut statement = transaction.prepare(&format!(
                "UPDATE requests SET state = 'working', attempts = attempts + 1 WHERE id IN (
                     SELECT min(id) FROM requests AS r WHERE state = 'queued' AND next_try <= ?1
                     AND NOT {POWER} AND NOT EXISTS (SELECT 1 FROM requests WHERE node = r.node AND state = 'working')
                     GROUP BY node ORDER BY 1 LIMIT ?2)
                 RETURNING {COLUMNS}"
            ))?;
            let rows =
                statement.query_map(params![at, i64::try_from(most).unwrap_or(i64::MAX)], row_values)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()?
        };
        transaction.commit()?;
        let mut requests = claimed.into_iter().map(RowValues::into_request).collect::<Result<Vec<_>>>()?;
        requests.sort_by_key(|r| r.id);
        Ok(requests)
    }

    /// Queues requests again that nobody works on: those of a daemon that is gone, and those whose end could not be written
    /// down, because the disk was full for a while. `owned`: what this daemon has in work.
    pub fn requeue_unowned(&self, owned: &HashSet<i64>, wait: Duration) -> Result<usize> {
        let working = self.requests("state = 'working'")?;
        let mut requeued = 0;
        for request in working.iter().filter(|request| !owned.contains(&request.id)) {
            let query =
                "UPDATE requests SET state = 'queued', next_try = ? WHERE id = ? AND state = 'working'";
            requeued += self.lock().execute(query, params![millis(now() + wait), request.id])?;
        }
        Ok(requeued)
    }

    /// A rebuild is known to have happened when the instance has been built at another time than before.
    pub fn note_built_before(&self, id: i64, built: Option<Timestamp>) -> Result<()> {
        let query = "UPDATE requests SET built_before = ? WHERE id = ?";
        self.lock().execute(query, params![built.map(millis), id])?;
        Ok(())
    }

    pub fn begin(&self, id: i64, operation: CloudOperation) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let node: Option<String> = transaction
            .query_row(
                "UPDATE requests SET deed = ?, began = ? WHERE id = ? RETURNING node",
                params![operation.word(), millis(now()), id],
                |row| row.get(0),
            )
            .optional()?;
        if let Some(node) = node {
            super::cloud_operations::put(&transaction, &node, operation)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// The name of the launch that is meant next. It stays the same, over restarts too, until the cloud is known to have
    /// accepted the launch: if the answer got lost, the next attempt is known as the same one.
    pub fn launch(&self, id: i64) -> Result<String> {
        let new = format!("{:032x}", rand::random::<u128>());
        let query = "UPDATE requests SET launch = coalesce(launch, ?) WHERE id = ? RETURNING launch";
        Ok(self.lock().query_row(query, params![new, id], |row| row.get(0))?)
    }

    /// Counts an instance that the cloud has accepted and may still fail to build. Another one is another launch.
    pub fn count_build(&self, id: i64) -> Result<()> {
        let query = "UPDATE requests SET attempts = attempts + 1, launch = NULL WHERE id = ?";
        self.lock().execute(query, [id])?;
        Ok(())
    }

    pub fn finish(&self, id: i64) -> Result<()> {
        self.lock().execute(
            "UPDATE requests SET state = 'done', error = NULL, finished = ? WHERE id = ?",
            params![millis(now()), id],
        )?;
        self.settled.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Ends a request without anything having been done, because nobody waits for it any more.
    pub fn call_off(&self, id: i64, why: &str) -> Result<()> {
        self.lock().execute(
            "UPDATE requests SET state = 'done', error = ?, finished = ? WHERE id = ?",
            params![why, millis(now()), id],
        )?;
        self.settled.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Drops requests that have been over for long.
    /// By kind and state.
    pub fn count_requests(&self) -> Result<Vec<(String, String, u64)>> {
        let connection = self.lock();
        let mut statement = connection.prepare(
            "SELECT kind, state, count(*) FROM requests GROUP BY kind, state ORDER BY kind, state",
        )?;
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?.unsigned_abs())))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub fn prune(&self) -> Result<usize> {
        let dropped = self.lock().execute(
            "DELETE FROM requests WHERE state IN ('done', 'failed') AND finished < ?",
            [millis(now() - KEEP_FINISHED)],
        )?;
        Ok(dropped)
    }

    pub fn fail(&self, id: i64, error: &str) -> Result<()> {
        self.lock().execute(
            "UPDATE requests SET state = 'failed', error = ?, finished = ? WHERE id = ?",
            params![error, millis(now()), id],
        )?;
        self.settled.send_modify(|count| *count += 1);
        Ok(())
    }

    pub fn postpone(&self, id: i64, wait: Duration, error: &str) -> Result<()> {
        self.lock().execute(
            "UPDATE requests SET state = 'queued', error = ?, next_try = ? WHERE id = ?",
            params![error, millis(now() + wait.min(LONGEST_POSTPONEMENT)), id],
        )?;
        Ok(())
    }

    pub fn open_requests(&self) -> Result<Vec<Request>> {
        self.requests("state IN ('queued', 'working')")
    }

    /// Open requests to power nodes up or down, in the order in which Slurm asked: those from the spool are stored late.
    pub fn power_requests(&self) -> Result<Vec<Request>> {
        self.requests(&format!("state IN ('queued', 'working') AND {POWER}"))
    }

    /// To power nodes up or down, in the order in which Slurm asked.
    pub fn power_requests_since(&self, since: Timestamp) -> Result<Vec<Request>> {
        self.requests(&format!("received >= {} AND {POWER}", millis(since)))
    }

    /// When Slurm last asked for each of these nodes.
    pub fn power_times<'a>(
        &self,
        nodes: impl Iterator<Item = &'a str>,
    ) -> Result<BTreeMap<String, PowerTimes>> {
        let connection = self.lock();
        let mut statement =
            connection.prepare("SELECT max(received) FROM requests WHERE node = ? AND kind = ?")?;
        let mut last = |node: &str, kind: RequestKind| -> Result<Option<Timestamp>> {
            let millis: Option<i64> = statement.query_row([node, kind.word()], |row| row.get(0))?;
            Ok(millis.map(time))
        };
        nodes
            .map(|node| {
                let up = last(node, RequestKind::Resume)?;
                let down = last(node, RequestKind::Suspend)?.max(last(node, RequestKind::GiveUp)?);
                Ok((node.to_string(), PowerTimes { up, down }))
            })
            .collect()
    }

    /// The newest of each node.
    pub fn latest_requests(&self) -> Result<Vec<Request>> {
        self.requests("id IN (SELECT max(id) FROM requests GROUP BY node)")
    }

    fn requests(&self, condition: &str) -> Result<Vec<Request>> {
        let connection = self.lock();
        let mut statement = connection
            .prepare(&format!("SELECT {COLUMNS} FROM requests WHERE {condition} ORDER BY received, id"))?;
        let rows = statement.query_map([], row_values)?.collect::<rusqlite::Result<Vec<_>>>()?;
        rows.into_iter().map(RowValues::into_request).collect()
    }
}

/// A row before its words are understood.
struct RowValues {
    request: Request,
    kind: String,
    state: String,
    operation: Option<String>,
}

fn row_values(row: &Row<'_>) -> rusqlite::Result<RowValues> {
    let moment = |index| row.get::<_, Option<i64>>(index).map(|value| value.map(time));
    Ok(RowValues {
        kind: row.get(1)?,
        state: row.get(5)?,
        operation: row.get(9)?,
        request: Request {
            id: row.get(0)?,
            kind: RequestKind::Reboot,
            node: row.get(2)?,
            image: row.get(3)?,
            received: time(row.get(4)?),
            state: RequestState::Queued,
            attempts: row.get(6)?,
            error: row.get(7)?,
            next_try: time(row.get(8)?),
            operation: None,
            began: moment(10)?,
            finished: moment(11)?,
            jobs: row.get(12)?,
            built_before: moment(13)?,
        },
    })
}

impl RowValues {
    fn into_request(self) -> Result<Request> {
        Ok(Request {
            kind: RequestKind::from_word(&self.kind)?,
            state: RequestState::from_word(&self.state)?,
            operation: self.operation.as_deref().map(CloudOperation::from_word).transpose()?,
            ..self.request
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        (dir, store)
    }

    fn reboot(node: &str) -> NewRequest {
        NewRequest::new(RequestKind::Reboot, node, now())
    }

    #[test]
    fn a_clock_that_was_set_back_parks_no_request() {
        let (_dir, store) = store();
        store.enqueue(&[reboot("a")]).unwrap();
        let id = store.claim(1).unwrap()[0].id;
        // Longer than anything can be postponed.
        store.postpone(id, Duration::MAX, "throttled").unwrap();
        assert!(store.claim(1).unwrap().is_empty());
        let in_a_year = millis(now() + Duration::from_secs(365 * 86400));
        store.lock().execute("UPDATE requests SET next_try = ?", [in_a_year]).unwrap();
        store.catch_up().unwrap();
        assert_eq!(store.claim(1).unwrap().len(), 1);
    }

    #[test]
    fn a_request_goes_through_its_life() {
        let (_dir, store) = store();
        assert_eq!(store.enqueue(&[reboot("a"), reboot("b")]).unwrap(), 2);
        let taken = store.claim(1).unwrap();
        assert_eq!((taken.len(), taken[0].node.as_str(), taken[0].attempts), (1, "a", 1));
        store.begin(taken[0].id, CloudOperation::Rebuild).unwrap();
        store.finish(taken[0].id).unwrap();
        let b = &store.claim(5).unwrap()[0];
        store.fail(b.id, "no image").unwrap();
        assert!(store.open_requests().unwrap().is_empty());
        let latest = store.latest_requests().unwrap();
        assert_eq!(latest[0].state, RequestState::Done);
        assert_eq!(latest[0].operation, Some(CloudOperation::Rebuild));
        assert_eq!(latest[1].error.as_deref(), Some("no image"));
    }

    #[test]
    fn a_launch_keeps_its_name_until_it_is_accepted() {
        let (dir, store) = store();
        let new = |node: &str| NewRequest::new(RequestKind::Resume, node, now());
        store.enqueue(&[new("a"), new("b")]).unwrap();
        let ids: Vec<i64> = store.power_requests().unwrap().iter().map(|r| r.id).collect();
        let first = store.launch(ids[0]).unwrap();
        assert_ne!(first, store.launch(ids[1]).unwrap());
        drop(store);
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        store.postpone(ids[0], Duration::ZERO, "no answer").unwrap();
        assert_eq!(store.launch(ids[0]).unwrap(), first);
        store.count_build(ids[0]).unwrap();
        assert_ne!(store.launch(ids[0]).unwrap(), first);
    }

    #[test]
    fn a_node_is_queued_once_and_worked_on_once() {
        let (_dir, store) = store();
        assert_eq!(store.enqueue(&[reboot("a"), reboot("a")]).unwrap(), 1);
        let first = store.claim(9).unwrap();
        // It may be about the boot that is going on, or about another one: it is kept, and waits.
        assert_eq!(store.enqueue(&[reboot("a")]).unwrap(), 1);
        assert!(store.claim(9).unwrap().is_empty());
        store.finish(first[0].id).unwrap();
        assert_eq!(store.claim(9).unwrap().len(), 1);
    }

    #[test]
    fn only_the_last_request_of_a_node_is_not_repeated() {
        let (_dir, store) = store();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let ask = |kind, second| store.enqueue(&[NewRequest::new(kind, "e", at(second))]).unwrap();
        assert_eq!([ask(RequestKind::Resume, 1), ask(RequestKind::Resume, 2)], [1, 0]);
        assert_eq!(
            [ask(RequestKind::GiveUp, 3), ask(RequestKind::Resume, 4), ask(RequestKind::Resume, 5)],
            [1, 1, 0]
        );
        // Stored late, from the spool.
        ask(RequestKind::Suspend, 3);
        let order: Vec<RequestKind> = store.power_requests().unwrap().iter().map(|r| r.kind).collect();
        assert_eq!(
            order,
            [RequestKind::Resume, RequestKind::GiveUp, RequestKind::Suspend, RequestKind::Resume]
        );
    }

    #[test]
    fn old_requests_are_dropped() {
        let (_dir, store) = store();
        store.enqueue(&[reboot("a"), reboot("b"), reboot("c")]).unwrap();
        let ids: Vec<i64> = store.claim(2).unwrap().iter().map(|r| r.id).collect();
        store.finish(ids[0]).unwrap();
        store.fail(ids[1], "no image").unwrap();
        assert_eq!(store.prune().unwrap(), 0);
        let long_ago = millis(now() - KEEP_FINISHED - Duration::from_secs(1));
        store
            .lock()
            .execute("UPDATE requests SET received = ?1, finished = ?1 WHERE id < 3", [long_ago])
            .unwrap();
        assert_eq!(store.prune().unwrap(), 2);
        assert_eq!(store.open_requests().unwrap().len(), 1);
    }

    #[test]
    fn what_nobody_works_on_is_queued_again() {
        let (_dir, store) = store();
        store.enqueue(&[reboot("a")]).unwrap();
        let id = store.claim(1).unwrap()[0].id;
        store.begin(id, CloudOperation::Reboot).unwrap();
        assert_eq!(store.requeue_unowned(&HashSet::from([id]), Duration::ZERO).unwrap(), 0);
        assert_eq!(store.requeue_unowned(&HashSet::new(), Duration::ZERO).unwrap(), 1);
        let again = &store.claim(1).unwrap()[0];
        assert_eq!((again.attempts, again.operation), (2, Some(CloudOperation::Reboot)));
    }

    #[test]
    fn a_postponed_request_is_not_due() {
        let (_dir, store) = store();
        store.enqueue(&[reboot("a")]).unwrap();
        let id = store.claim(1).unwrap()[0].id;
        store.postpone(id, Duration::from_secs(60), "busy").unwrap();
        assert!(store.claim(1).unwrap().is_empty());
        assert_eq!(store.open_requests().unwrap()[0].error.as_deref(), Some("busy"));
    }
}
