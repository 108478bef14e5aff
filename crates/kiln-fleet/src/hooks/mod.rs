//! Slurm's hooks. Each validates, enqueues and returns: a slow hook stalls slurmctld.

pub mod spool;

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use kiln_spec::hostlist;
use kiln_wire::NodeNames;

use crate::error::{Error, Result};
use crate::store::{NewRequest, RequestKind, Store, now};

/// How long a hook waits for a locked store; after that the request goes to the spool.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub nodes: Vec<String>,
    /// Not of this fleet.
    pub refused: Vec<String>,
    /// The store could not be written, with its reason; the daemon will find the request in the spool.
    pub spooled: Option<String>,
}

/// Where a hook finds and leaves things.
#[derive(Debug, Clone, Copy)]
pub struct HookPaths<'a> {
    pub store: &'a Path,
    pub spool: &'a Path,
    pub fleet: &'a Path,
}

/// Slurm's `RebootProgram`. `nodes` is its first argument: a comma list or a ranged hostlist. Names that the
/// fleet file does not have are refused, the others go on.
pub fn reboot(paths: HookPaths<'_>, nodes: &str) -> Result<Accepted> {
    accept(paths, "reboot hook", nodes, |_, node, received| {
        NewRequest::new(RequestKind::Reboot, node, received)
    })
}

/// Slurm's `ResumeProgram`. Some releases also call it to reboot a node for a job that asked for that. A fixed node is never
/// powered down, so for it a reboot is meant.
pub fn resume(paths: HookPaths<'_>, nodes: &str, resume_file: Option<&Path>) -> Result<Accepted> {
    // Slurm deletes the file a moment later.
    let jobs = resume_file
        .and_then(|path| std::fs::read(path).ok())
        .map(|text| kiln_slurm::resume_file::jobs(&text));
    let jobs = jobs.unwrap_or_default();
    accept(paths, "resume hook", nodes, |fleet, node, received| {
        let kind = if fleet.is_some_and(|f| !f.is_elastic(node)) {
            RequestKind::Reboot
        } else {
            RequestKind::Resume
        };
        let jobs = jobs.get(node).filter(|_| kind == RequestKind::Resume).cloned();
        NewRequest { jobs, ..NewRequest::new(kind, node, received) }
    })
}

/// Slurm's `SuspendProgram`.
pub fn suspend(paths: HookPaths<'_>, nodes: &str) -> Result<Accepted> {
    accept(paths, "suspend hook", nodes, |_, node, received| {
        NewRequest::new(RequestKind::Suspend, node, received)
    })
}

/// Slurm's `ResumeFailProgram`.
pub fn give_up(paths: HookPaths<'_>, nodes: &str) -> Result<Accepted> {
    accept(paths, "resume-fail hook", nodes, |_, node, received| {
        NewRequest::new(RequestKind::GiveUp, node, received)
    })
}

fn accept(
    paths: HookPaths<'_>,
    who: &str,
    nodes: &str,
    request: impl Fn(Option<&NodeNames>, &str, Timestamp) -> NewRequest,
) -> Result<Accepted> {
    let received = now();
    // Without the list nothing is lost: the daemon checks again when it has it.
    let known = NodeNames::beside(paths.fleet).ok();
    let opened = Store::open_for_a_moment(paths.store, PATIENCE);
    let log = |node: &str, why: &str, outcome: &str| {
        if let Ok(store) = &opened {
            let _ = store.log(node, who, why, outcome);
        }
    };
    let names = match hostlist::expand(nodes) {
        Ok(names) => names,
        Err(source) => {
            log("", nodes, "refused: not a list of nodes");
            return Err(Error::Hostlist { list: nodes.into(), source });
        }
    };
    let (nodes, refused): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| known.as_ref().is_none_or(|known| known.has(name)));
    let requests: Vec<_> = nodes.iter().map(|node| request(known.as_ref(), node, received)).collect();
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
                spool::put(paths.spool, &requests)?;
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
            std::fs::write(dir.path().join("nodes"), "n-0\nn-1\nn-2\ne-0 elastic\n").unwrap();
            Place { dir }
        }

        fn store(&self) -> std::path::PathBuf {
            self.dir.path().join("store.db")
        }

        fn call(&self, hook: impl Fn(HookPaths<'_>) -> Result<Accepted>) -> Result<Accepted> {
            let dir = self.dir.path();
            hook(HookPaths {
                store: &self.store(),
                spool: &dir.join("spool"),
                fleet: &dir.join("fleet.json"),
            })
        }

        fn reboot(&self, nodes: &str) -> Result<Accepted> {
            self.call(|paths| reboot(paths, nodes))
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
    fn a_node_that_is_never_off_is_rebooted_by_the_resume_hook() {
        let place = Place::new();
        let file = place.dir.path().join("resume.json");
        std::fs::write(&file, r#"{"jobs":[{"job_id":7,"nodes":"e-0,n-0"}],"all_nodes":"e-0,n-0"}"#).unwrap();
        place.call(|paths| resume(paths, "n-0,e-0", Some(&file))).unwrap();
        place.call(|paths| suspend(paths, "e-0")).unwrap();
        place.call(|paths| give_up(paths, "e-0")).unwrap();
        let open = Store::open(&place.store()).unwrap().open_requests().unwrap();
        let seen: Vec<_> = open.iter().map(|r| (r.node.as_str(), r.kind, r.jobs.as_deref())).collect();
        assert_eq!(
            seen,
            [
                ("n-0", RequestKind::Reboot, None),
                ("e-0", RequestKind::Resume, Some("7")),
                ("e-0", RequestKind::Suspend, None),
                ("e-0", RequestKind::GiveUp, None),
            ]
        );
    }

    #[test]
    fn rubbish_is_an_error() {
        let place = Place::new();
        assert!(place.reboot("n-[0-").is_err());
        assert!(place.reboot("--help me").is_err());
        assert!(place.queued().is_empty());
    }

    #[test]
    fn without_a_list_the_request_is_kept() {
        let place = Place::new();
        std::fs::remove_file(place.dir.path().join("nodes")).unwrap();
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
    fn a_locked_store_leaves_the_request_in_the_spool() {
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
