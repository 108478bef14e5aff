//! Ctrl-C: the first asks running work to stop cleanly, the second ends the process at once.

use std::future::Future;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::error::Advise;
use crate::exit::Exit;
use crate::printer::Printer;

/// A request to stop, shared by everyone who should heed it.
#[derive(Clone)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    pub fn new() -> Stop {
        Stop(watch::Sender::new(false))
    }

    pub fn request(&self) {
        self.0.send_replace(true);
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once stopping is requested.
    #[allow(dead_code, reason = "for work that waits")]
    pub async fn requested(&self) {
        // `self` holds the sender, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}

/// Runs `work`, which is handed the [`Stop`] it should heed. Work that ends with an error after it was asked to
/// stop makes Kiln exit as interrupted; work that still finished counts as finished.
pub async fn interruptible<T, F>(printer: &Printer, work: impl FnOnce(Stop) -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let stop = Stop::new();
    let mut signals = Signals::new()?;
    let work = work(stop.clone());
    tokio::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => {
                return if stop.is_requested() { result.exit(Exit::Interrupted) } else { result };
            }
            () = signals.next() => {
                if stop.is_requested() {
                    std::process::exit(Exit::Interrupted.code().into());
                }
                stop.request();
                printer.say("stopping after the running operations; press again to end at once");
            }
        }
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => (),
            _ = self.terminate.recv() => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_reaches_every_clone() {
        let stop = Stop::new();
        let waiting = tokio::spawn({
            let stop = stop.clone();
            async move { stop.requested().await }
        });
        assert!(!stop.is_requested());
        stop.request();
        waiting.await.expect("the task ends well");
        stop.requested().await;
    }

    #[tokio::test]
    async fn an_interrupt_asks_and_then_counts_as_interrupted() {
        let printer = Printer::new(false, true, false);
        let result = interruptible::<(), _>(&printer, |stop| async move {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::INT)?;
            stop.requested().await;
            anyhow::bail!("stopped half way")
        });
        let error = result.await.expect_err("the work was stopped");
        assert_eq!(crate::error::exit_of(&error), Exit::Interrupted);
    }
}
