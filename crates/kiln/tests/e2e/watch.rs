//! Collects the arguments of every process on this machine for a while: those of the nodes are among them.

use std::collections::BTreeSet;
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
            let mut seen = BTreeSet::new();
            while !told.load(Ordering::Relaxed) {
                look(&mut seen);
                std::thread::sleep(Duration::from_millis(20));
            }
            seen
        });
        Watch { over, thread }
    }

    pub fn stop(self) -> BTreeSet<String> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch ends well")
    }
}

pub fn look(seen: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Ok(cmdline) = std::fs::read(entry.path().join("cmdline")) {
            seen.insert(String::from_utf8_lossy(&cmdline).replace('\0', " "));
        }
    }
}
