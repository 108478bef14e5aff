//! What failed, told once more at the very end of a run: a record of it may have kept no more than that.

use std::fmt::Write as _;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, PoisonError};

/// Begins each line about a failure that a lane tells at its end.
pub const MARK: &str = "FAILED: ";

/// Enough of a message to see what it is about.
const LINES: usize = 20;

static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Keeps the message of every panic, which is printed as ever.
pub fn keep_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
        print(panic);
    }));
}

/// What failed, and the beginning of the last panic's message.
pub fn describe(what: &str) -> String {
    let panic = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
    let mut told = String::new();
    for line in std::iter::once(what).chain(panic.lines().take(LINES)) {
        let _ = writeln!(told, "{MARK}{line}");
    }
    told
}
