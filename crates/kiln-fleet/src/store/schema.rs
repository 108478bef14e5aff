//! The tables of the store. A migration, once released, is never changed; a new one is added behind it.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::{Error, Result};

/// The store's `user_version` is how many of these it has seen.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE requests (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        node TEXT NOT NULL,
        image TEXT,
        received INTEGER NOT NULL,
        state TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        error TEXT,
        next_try INTEGER NOT NULL,
        deed TEXT,
        began INTEGER,
        finished INTEGER
    ) STRICT;
    CREATE INDEX requests_by_state ON requests (state, next_try);
    CREATE INDEX requests_by_node ON requests (node, id);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        time INTEGER NOT NULL,
        node TEXT NOT NULL,
        what TEXT NOT NULL,
        why TEXT NOT NULL,
        outcome TEXT NOT NULL
    ) STRICT;
    CREATE INDEX events_by_node ON events (node, id);
    CREATE TABLE rollouts (
        id INTEGER PRIMARY KEY,
        created INTEGER NOT NULL,
        finished INTEGER,
        state TEXT NOT NULL,
        options TEXT NOT NULL
    ) STRICT;
    CREATE TABLE rollout_nodes (
        rollout INTEGER NOT NULL REFERENCES rollouts (id),
        position INTEGER NOT NULL,
        node TEXT NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (rollout, node)
    ) STRICT;
    -- Images that nodes were taken back to, in place of the target that failed there.
    CREATE TABLE pins (
        node TEXT PRIMARY KEY,
        image TEXT NOT NULL,
        instead_of TEXT NOT NULL
    ) STRICT;
", "
    -- Jobs that a node was powered up for.
    ALTER TABLE requests ADD COLUMN jobs TEXT;
    -- Elastic groups that the cloud refused something.
    CREATE TABLE troubles (
        grp TEXT PRIMARY KEY,
        failures INTEGER NOT NULL,
        paused_until INTEGER,
        problem TEXT NOT NULL
    ) STRICT;
    -- What the reconciler last saw, and since when it is so. The subject is a node, or an instance that is no node's.
    CREATE TABLE findings (
        subject TEXT NOT NULL,
        rule TEXT NOT NULL,
        since INTEGER NOT NULL,
        text TEXT NOT NULL,
        acted INTEGER,
        PRIMARY KEY (subject, rule)
    ) STRICT;
", "
    -- What Kiln last did to a node's instance, to know its own reboots from others'.
    CREATE TABLE deeds (
        node TEXT PRIMARY KEY,
        deed TEXT NOT NULL,
        time INTEGER NOT NULL
    ) STRICT;
    -- When the reconciler last looked, and what kept it from seeing.
    CREATE TABLE looks (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        time INTEGER NOT NULL,
        problem TEXT
    ) STRICT;
", "
    -- A success counts only if it is younger.
    ALTER TABLE troubles ADD COLUMN last_failure INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX requests_by_kind ON requests (node, kind, received);
", "
    -- Instances of compute nodes that were seen, or created, and are not known to be gone. Times are of this host's clock.
    CREATE TABLE instances (
        id TEXT PRIMARY KEY,
        node TEXT NOT NULL,
        first_seen INTEGER NOT NULL
    ) STRICT;
", "
    -- Why nodes are drained by Kiln, as Slurm last had it.
    CREATE TABLE drains (
        node TEXT PRIMARY KEY,
        reason TEXT NOT NULL
    ) STRICT;
    -- By the cloud's clock: when the instance had been built, before a rebuild was asked for.
    ALTER TABLE requests ADD COLUMN built_before INTEGER;
", "
    -- A random name for the launch that is meant next, which every attempt gives the cloud, whoever makes it.
    ALTER TABLE requests ADD COLUMN launch TEXT;
", "
    -- Who may look through kilnd's window: tokens, one-time logins and sessions.
    CREATE TABLE keys (
        hash TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        role TEXT NOT NULL,
        created INTEGER NOT NULL,
        expires INTEGER NOT NULL
    ) STRICT;
", "
    -- What people are told, and up to which event they were.
    CREATE TABLE notices (
        id INTEGER PRIMARY KEY,
        channel TEXT NOT NULL,
        title TEXT NOT NULL,
        text TEXT NOT NULL,
        time INTEGER NOT NULL,
        due INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        sent INTEGER
    ) STRICT;
    CREATE TABLE notified (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        event INTEGER NOT NULL
    ) STRICT;
", "
    -- How many jobs ran and waited, once a minute.
    CREATE TABLE queue_counts (
        time INTEGER PRIMARY KEY,
        running INTEGER NOT NULL,
        waiting INTEGER NOT NULL
    ) STRICT;
    -- How long instances of a group have run in an hour, together, and what that has cost, in millionths.
    CREATE TABLE usage (
        hour INTEGER NOT NULL,
        grp TEXT NOT NULL,
        millis INTEGER NOT NULL,
        cost INTEGER NOT NULL,
        PRIMARY KEY (hour, grp)
    ) STRICT;
"];

pub fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if version(connection)? == known {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been quicker.
    let found = version(&transaction)?;
    if found > known {
        return Err(Error::NewerStore { path: path.into(), found, known });
    }
    for migration in &MIGRATIONS[found as usize..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
