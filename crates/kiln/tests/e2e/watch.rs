//! Collects the arguments of every process on this machine for a while: those of the nodes are among them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<BTreeSet<String>>,
}

impl Watch {
    pub fn start() -> Watch {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut looks = Looks::default();
            while !told.load(Ordering::Relaxed) {
                looks.look();
                std::thread::sleep(Duration::from_millis(20));
            }
            looks.seen
        });
        Watch { over, thread }
    }

    pub fn stop(self) -> BTreeSet<String> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch ends well")
    }
}

/// A process changes its arguments at most when it starts another program, which is mostly soon after it was made. From
/// then on it is read at every so many looks only: there are hundreds, of which few are new.
const EVERY: u32 = 25;

#[derive(Default)]
struct Looks {
    /// How often each process that is there was seen.
    known: HashMap<OsString, u32>,
    seen: BTreeSet<String>,
}

impl Looks {
    fn look(&mut self) {
        let mut present = HashMap::with_capacity(self.known.len());
        let entries =
            std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
        for pid in entries.filter(|name| name.as_encoded_bytes()[0].is_ascii_digit()) {
            let before = self.known.get(&pid).copied().unwrap_or_default();
            if before < EVERY || before.is_multiple_of(EVERY) {
                let path = std::path::Path::new("/proc").join(&pid).join("cmdline");
                if let Ok(cmdline) = std::fs::read(path) {
                    self.seen.insert(String::from_utf8_lossy(&cmdline).replace('\0', " "));
                }
            }
            present.insert(pid, before.wrapping_add(1));
        }
        self.known = present;
    }
}
