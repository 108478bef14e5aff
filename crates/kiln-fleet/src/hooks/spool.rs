//! Where hooks leave requests for the daemon: one file each, written whole or not at all.
//!
//! Hooks run as Slurm's user, who may put files into the directory but neither list it nor touch what is the daemon's. So
//! the daemon believes nothing here: it follows no link, and takes only what a hook may ask.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use kiln_spec::hostlist;
use kiln_wire::NodeNames;
use rustix::fs::OFlags;

use crate::error::{Error, Result, io};
use crate::store::{NewRequest, RequestKind, Store, now};

const DONE: &str = "json";
/// A hundred thousand nodes.
const LONGEST: u64 = 16 << 20;

/// Into the first spool that takes it: a volume may be full or not there.
pub fn put(spools: &[&Path], requests: &[NewRequest]) -> Result<()> {
    let text = serde_json::to_vec(requests).map_err(|e| Error::StoreContent(e.to_string()))?;
    let stem = format!("{}-{}", jiff::Timestamp::now().as_nanosecond(), std::process::id());
    let mut outcome = Ok(());
    for spool in spools {
        outcome = write(spool, &stem, &text).map_err(io(spool));
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// The directory has to be there: below the mount point of a volume that is missing, a file would vanish when it comes.
fn write(spool: &Path, stem: &str, text: &[u8]) -> std::io::Result<()> {
    let unfinished = spool.join(format!("{stem}.tmp"));
    let finish = || {
        // The daemon is another user than the hook, and nobody else gets through the directory.
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o644).open(&unfinished)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&unfinished, spool.join(format!("{stem}.{DONE}")))?;
        // A hook cannot open the directory; this writes the new name down as well.
        file.sync_all()
    };
    finish().inspect_err(|_| _ = fs::remove_file(&unfinished))
}

/// Moves requests from the spools into the store, all at once. `known` are the fleet's nodes, if that is known. After a
/// crash in between a file is enqueued twice, which is harmless.
pub fn pick_up(spools: &[PathBuf], known: Option<&NodeNames>, store: &Store) -> Result<usize> {
    let mut files = Vec::new();
    for spool in spools {
        files.extend(finished(spool)?);
    }
    let (mut requests, mut read) = (Vec::new(), Vec::new());
    for file in files {
        match content(&file) {
            Ok(more) => {
                requests.extend(more);
                read.push(file);
            }
            Err(problem) => set_aside(&file, &problem, store)?,
        }
    }
    let refused: Vec<NewRequest> =
        requests.extract_if(.., |request| known.is_some_and(|known| !known.has(&request.node))).collect();
    let moved = if requests.is_empty() { 0 } else { store.enqueue(&requests)? };
    if !refused.is_empty() {
        let names = hostlist::fold(refused.iter().map(|request| request.node.as_str()));
        let who = format!("{} hook", refused[0].kind.word());
        store.log(&names, &who, "asked by Slurm", "refused: not a node of this fleet")?;
    }
    for file in read {
        fs::remove_file(&file).map_err(io(&file))?;
    }
    Ok(moved)
}

/// In the order in which they were written.
fn finished(spool: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(spool) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(spool)(error)),
    };
    let paths = entries.filter_map(std::result::Result::ok).map(|entry| entry.path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == DONE)).collect();
    files.sort();
    Ok(files)
}

fn content(path: &Path) -> std::result::Result<Vec<NewRequest>, String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let open = || {
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("not a file"));
        }
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = open().map_err(|error| error.to_string())?;
    // The error of the parser may quote the file, which Slurm's user can read as it is.
    let mut requests: Vec<NewRequest> = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if let Some(request) = requests.iter().find(|request| !may_come_from_a_hook(request)) {
        return Err(format!("no hook asks for a {} of {:?}", request.kind.word(), request.node));
    }
    // A time that is yet to come would outlast what Slurm says later.
    for request in &mut requests {
        request.received = request.received.min(now());
    }
    Ok(requests)
}

/// The others are what the daemon asks of itself.
fn may_come_from_a_hook(request: &NewRequest) -> bool {
    let kind = match request.kind {
        RequestKind::Reboot | RequestKind::Resume | RequestKind::Suspend | RequestKind::GiveUp => true,
        RequestKind::Rebuild | RequestKind::TakeBack => false,
    };
    kind && request.image.is_none()
}

/// Kept for a person to look at, out of the way.
fn set_aside(file: &Path, problem: &str, store: &Store) -> Result<()> {
    store.log("", "spool", &file.to_string_lossy(), &format!("cannot be read: {problem}"))?;
    fs::rename(file, file.with_extension("bad")).map_err(io(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        store: Store,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in ["first", "second"] {
                fs::create_dir(dir.path().join(name)).unwrap();
            }
            let store = Store::open(&dir.path().join("store.db")).unwrap();
            Place { dir, store }
        }

        fn spools(&self) -> [PathBuf; 2] {
            ["first", "second"].map(|name| self.dir.path().join(name))
        }

        fn put(&self, node: &str) -> Result<()> {
            let spools = self.spools();
            put(&[&spools[0], &spools[1]], &[NewRequest::new(RequestKind::Reboot, node, now())])
        }

        fn pick_up(&self, known: Option<&NodeNames>) -> usize {
            pick_up(&self.spools(), known, &self.store).unwrap()
        }

        fn queued(&self) -> Vec<String> {
            self.store.open_requests().unwrap().into_iter().map(|r| r.node).collect()
        }

        fn names(&self, spool: usize) -> Vec<String> {
            let entries = fs::read_dir(&self.spools()[spool]).unwrap();
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    #[test]
    fn what_is_put_is_picked_up_once() {
        let place = Place::new();
        place.put("n-0").unwrap();
        place.put("n-1").unwrap();
        assert_eq!((place.pick_up(None), place.pick_up(None)), (2, 0));
        assert_eq!(place.queued(), ["n-0", "n-1"]);
        assert!(place.names(0).is_empty());
    }

    #[test]
    fn a_spool_that_is_not_there_leaves_the_request_in_the_next() {
        let place = Place::new();
        fs::remove_dir(&place.spools()[0]).unwrap();
        place.put("n-0").unwrap();
        assert_eq!(place.pick_up(None), 1);
        fs::remove_dir(&place.spools()[1]).unwrap();
        assert!(place.put("n-0").is_err(), "none is made");
        assert_eq!(place.pick_up(None), 0);
    }

    #[test]
    fn unknown_nodes_are_refused_and_logged() {
        let place = Place::new();
        place.put("n-1").unwrap();
        place.put("other-7").unwrap();
        place.pick_up(Some(&NodeNames::from_text("n-1\n")));
        assert_eq!(place.queued(), ["n-1"]);
        let event = place.store.events(Some("other-7"), 9).unwrap().remove(0);
        assert!(
            event.what == "reboot hook" && event.outcome.contains("not a node of this fleet"),
            "{event:?}"
        );
        assert!(place.names(0).is_empty());
    }

    #[test]
    fn a_time_that_is_yet_to_come_does_not_outlast_what_slurm_says_later() {
        let place = Place::new();
        let request = NewRequest::new(RequestKind::Reboot, "n-0", "2999-01-01T00:00:00Z".parse().unwrap());
        put(&[&place.spools()[0]], &[request]).unwrap();
        place.pick_up(None);
        assert!(place.store.open_requests().unwrap()[0].received <= now());
    }

    #[test]
    fn what_no_hook_writes_is_set_aside_and_does_not_stop_the_others() {
        let place = Place::new();
        place.put("n-0").unwrap();
        let spool = place.spools()[0].clone();
        let request = |kind: &str| {
            format!(r#"[{{"kind":"{kind}","node":"n-1","image":null,"received":"2020-01-01T00:00:00Z"}}]"#)
        };
        let secret = place.dir.path().join("secret.json");
        fs::write(&secret, request("reboot")).unwrap();
        for (name, text) in [
            ("1", "{".to_string()),
            ("2", request("rebuild")),
            ("3", request("reboot").replace("null", "\"evil\"")),
        ] {
            fs::write(spool.join(name).with_extension(DONE), text).unwrap();
        }
        std::os::unix::fs::symlink(&secret, spool.join("5.json")).unwrap();
        fs::create_dir(spool.join("4.json")).unwrap();
        let fifo = rustix::fs::mknodat(
            rustix::fs::CWD,
            spool.join("6.json"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        );
        fifo.unwrap();
        assert_eq!(place.pick_up(None), 1);
        assert_eq!(place.queued(), ["n-0"]);
        let mut names = place.names(0);
        names.sort();
        assert_eq!(names, ["1.bad", "2.bad", "3.bad", "4.bad", "5.bad", "6.bad"]);
        assert_eq!(place.store.events(None, 99).unwrap().len(), 6);
    }
}
