//! Slurm's hooks. Each checks its arguments, leaves a file for the daemon and returns: a slow hook stalls slurmctld. They run as
//! Slurm's user, who can read neither the store nor the fleet file.

pub mod spool;

use std::path::Path;

use jiff::Timestamp;
use kiln_spec::hostlist;
use kiln_wire::NodeNames;

use crate::error::{Error, Result};
use crate::store::{NewRequest, RequestKind, now};

/// Where a hook finds and leaves things.
#[derive(Debug, Clone, Copy)]
pub struct HookPaths<'a> {
    /// The first that can be written is used.
    pub spools: &'a [&'a Path],
    /// The list of nodes is beside it.
    pub fleet: &'a Path,
}

/// Slurm's `RebootProgram`. `nodes` is its first argument: a comma list or a ranged hostlist.
pub fn reboot(paths: HookPaths<'_>, nodes: &str) -> Result<()> {
    accept(paths, nodes, |_, node, received| NewRequest::new(RequestKind::Reboot, node, received))
}

/// Slurm's `ResumeProgram`. Some releases also call it to reboot a node for a job that asked for that. A fixed node is never
/// powered down, so for it a reboot is meant.
pub fn resume(paths: HookPaths<'_>, nodes: &str, resume_file: Option<&Path>) -> Result<()> {
    // Slurm deletes the file a moment later.
    let jobs = resume_file
        .and_then(|path| std::fs::read(path).ok())
        .map(|text| kiln_slurm::resume_file::jobs(&text));
    let jobs = jobs.unwrap_or_default();
    accept(paths, nodes, |fleet, node, received| {
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
pub fn suspend(paths: HookPaths<'_>, nodes: &str) -> Result<()> {
    accept(paths, nodes, |_, node, received| NewRequest::new(RequestKind::Suspend, node, received))
}

/// Slurm's `ResumeFailProgram`.
pub fn give_up(paths: HookPaths<'_>, nodes: &str) -> Result<()> {
    accept(paths, nodes, |_, node, received| NewRequest::new(RequestKind::GiveUp, node, received))
}

fn accept(
    paths: HookPaths<'_>,
    nodes: &str,
    request: impl Fn(Option<&NodeNames>, &str, Timestamp) -> NewRequest,
) -> Result<()> {
    let received = now();
    // Without the list nothing is lost: the daemon knows better what a node is.
    let known = NodeNames::beside(paths.fleet).ok();
    let names = hostlist::expand(nodes).map_err(|source| Error::Hostlist { list: nodes.into(), source })?;
    let requests: Vec<_> = names.iter().map(|node| request(known.as_ref(), node, received)).collect();
    spool::put(paths.spools, &requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::store::Store;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("nodes"), "n-0\nn-1\nn-2\ne-0 elastic\n").unwrap();
            std::fs::create_dir(dir.path().join("spool")).unwrap();
            Place { dir }
        }

        fn call(&self, hook: impl Fn(HookPaths<'_>) -> Result<()>) -> Result<()> {
            let dir = self.dir.path();
            hook(HookPaths { spools: &[&dir.join("spool")], fleet: &dir.join("fleet.json") })
        }

        fn reboot(&self, nodes: &str) -> Result<()> {
            self.call(|paths| reboot(paths, nodes))
        }

        /// What the daemon finds: node, kind, jobs.
        fn queued(&self) -> Vec<(String, RequestKind, Option<String>)> {
            let dir = self.dir.path();
            let store = Store::open(&dir.join("store.db")).unwrap();
            spool::pick_up(&[dir.join("spool")], None, &store).unwrap();
            let open = store.open_requests().unwrap();
            open.into_iter().map(|r| (r.node, r.kind, r.jobs)).collect()
        }

        fn queued_nodes(&self) -> Vec<String> {
            self.queued().into_iter().map(|(node, ..)| node).collect()
        }
    }

    #[test]
    fn both_shapes_of_a_list_are_understood() {
        for list in ["n-0,n-1,n-2", "n-[0-2]", "n-[0-1],n-2"] {
            let place = Place::new();
            place.reboot(list).unwrap();
            assert_eq!(place.queued_nodes(), ["n-0", "n-1", "n-2"]);
        }
    }

    #[test]
    fn a_node_that_is_never_off_is_rebooted_by_the_resume_hook() {
        let place = Place::new();
        let file = place.dir.path().join("resume.json");
        std::fs::write(&file, r#"{"jobs":[{"job_id":7,"nodes":"e-0,n-0"}],"all_nodes":"e-0,n-0"}"#).unwrap();
        place.call(|paths| resume(paths, "n-0,e-0", Some(&file))).unwrap();
        place.call(|paths| suspend(paths, "e-0")).unwrap();
        place.call(|paths| give_up(paths, "e-0")).unwrap();
        let seen = place.queued();
        let seen: Vec<_> =
            seen.iter().map(|(node, kind, jobs)| (node.as_str(), *kind, jobs.as_deref())).collect();
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
        place.reboot("n-0").unwrap();
        assert_eq!(place.queued_nodes(), ["n-0"]);
    }
}
