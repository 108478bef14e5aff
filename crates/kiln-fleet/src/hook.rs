//! Slurm's hooks. Each validates, enqueues and returns: a slow hook stalls slurmctld.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use kiln_spec::hostlist;

use crate::error::{Error, Result};
use crate::fleet_file::node_names;
use crate::spool;
use crate::store::{Kind, NewRequest, Store, now};

/// A store that is held for longer than this is passed by: the spool takes the request.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub nodes: Vec<String>,
    /// Not of this fleet.
    pub refused: Vec<String>,
    /// The store could not be written, with its reason; the daemon will find the request in the spool.
    pub spooled: Option<String>,
}

/// Slurm's `RebootProgram`. `nodes` is its first argument: a comma list or a ranged hostlist. Names that the
/// fleet file does not have are refused, the others go on.
pub fn reboot(store: &Path, spool: &Path, fleet: &Path, nodes: &str) -> Result<Accepted> {
    let received = now();
    let known = node_names(fleet);
    let opened = Store::open_with_patience(store, PATIENCE);
    let log = |node: &str, why: &str, outcome: &str| {
        if let Ok(store) = &opened {
            let _ = store.log(node, "reboot hook", why, outcome);
        }
    };
    let names = match hostlist::expand(nodes) {
        Ok(names) => names,
        Err(source) => {
            log("", nodes, "refused: no list of nodes");
            return Err(Error::Hostlist { list: nodes.into(), source });
        }
    };
    // Without the file nothing is lost: the daemon checks again when it has it.
    let known: Option<HashSet<String>> = known.ok().map(HashSet::from_iter);
    let (nodes, refused): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| known.as_ref().is_none_or(|known| known.contains(name)));
    let requests: Vec<_> = nodes
        .iter()
        .map(|node| NewRequest { kind: Kind::Reboot, node: node.clone(), image: None, received })
        .collect();
    let stored = match &opened {
        Ok(store) => store.enqueue(&requests).map(drop).map_err(|e| e.chain()),
        Err(error) => Err(error.chain()),
    };
    let spooled = match stored {
        Ok(()) => {
            if !refused.is_empty() {
                log(&hostlist::fold(&refused), "asked by Slurm", "refused: not a node of this fleet");
            }
            None
        }
        // A store that failed once would only cost more time.
        Err(problem) => {
            if !requests.is_empty() {
                spool::put(spool, &requests)?;
            }
            Some(problem)
        }
    };
    Ok(Accepted { nodes, refused, spooled })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let node = r#"{"group":"g","user_data":"","ssh_key":""}"#;
            let text = format!(
                r#"{{"cluster":"c","cloud":{{"kind":"local","url":"u","token":"t"}},
                "nodes":{{"n-0":{node},"n-1":{node},"n-2":{node}}}}}"#
            );
            std::fs::write(dir.path().join("fleet.json"), text).unwrap();
            Place { dir }
        }

        fn store(&self) -> std::path::PathBuf {
            self.dir.path().join("store.db")
        }

        fn reboot(&self, nodes: &str) -> Result<Accepted> {
            let dir = self.dir.path();
            reboot(&self.store(), &dir.join("spool"), &dir.join("fleet.json"), nodes)
        }

        fn queued(&self) -> Vec<String> {
            let open = Store::open(&self.store()).unwrap().open_requests().unwrap();
            open.into_iter().map(|r| r.node).collect()
        }
    }

    #[test]
    fn both_shapes_of_a_list_are_understood() {
        for list in ["n-0,n-1,n-2", "n-[0-2]", "n-[0-1],n-2"] {
            let place = Place::new();
            assert_eq!(place.reboot(list).unwrap().nodes.len(), 3);
            assert_eq!(place.queued(), ["n-0", "n-1", "n-2"]);
        }
    }

    #[test]
    fn unknown_nodes_are_refused_and_logged() {
        let place = Place::new();
        let accepted = place.reboot("n-1,other-7").unwrap();
        assert_eq!(accepted.refused, ["other-7"]);
        assert_eq!(place.queued(), ["n-1"]);
        let events = Store::open(&place.store()).unwrap().events(Some("other-7"), 9).unwrap();
        assert!(events[0].outcome.contains("not a node of this fleet"));
    }

    #[test]
    fn rubbish_is_an_error() {
        let place = Place::new();
        assert!(place.reboot("n-[0-").is_err());
        assert!(place.reboot("--help me").is_err());
        assert!(place.queued().is_empty());
    }

    #[test]
    fn without_a_fleet_file_the_request_is_kept() {
        let place = Place::new();
        std::fs::remove_file(place.dir.path().join("fleet.json")).unwrap();
        assert_eq!(place.reboot("n-0").unwrap().nodes, ["n-0"]);
        assert_eq!(place.queued(), ["n-0"]);
    }

    #[test]
    fn a_closed_store_leaves_the_request_in_the_spool() {
        let place = Place::new();
        std::fs::create_dir(place.store()).unwrap();
        assert!(place.reboot("n-[0-1]").unwrap().spooled.is_some());
        std::fs::remove_dir(place.store()).unwrap();
        let store = Store::open(&place.store()).unwrap();
        let spool = place.dir.path().join("spool");
        assert_eq!(spool::pick_up(&spool, &store).unwrap(), 2);
        assert_eq!(spool::pick_up(&spool, &store).unwrap(), 0);
        assert_eq!(place.queued(), ["n-0", "n-1"]);
    }

    #[test]
    fn a_locked_store_is_passed_by() {
        let place = Place::new();
        drop(Store::open(&place.store()).unwrap());
        let other = rusqlite::Connection::open(place.store()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert!(place.reboot("n-0").unwrap().spooled.is_some());
    }

    #[test]
    fn a_bad_file_in_the_spool_does_not_stop_the_others() {
        let place = Place::new();
        let spool = place.dir.path().join("spool");
        spool::put(&spool, &[]).unwrap();
        std::fs::write(spool.join("0.json"), "{").unwrap();
        let store = Store::open(&place.store()).unwrap();
        spool::pick_up(&spool, &store).unwrap();
        assert!(spool.join("0.bad").exists());
        assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 1);
    }
}
