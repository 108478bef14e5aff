//! Ctrl-C: the first asks running work to stop cleanly, the second ends the process at once.

use std::future::Future;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::Advise;
use crate::exit::Exit;
use crate::printer::Printer;

/// Runs `work`, which is given the token that is cancelled when it should stop. Work that ends with an error after that
/// makes Kiln exit as interrupted; work that still finished counts as finished.
pub async fn interruptible<T, F>(
    printer: &Printer,
    work: impl FnOnce(CancellationToken) -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let work = work(stop.clone());
    tokio::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => {
                return if stop.is_cancelled() { result.exit(Exit::Interrupted) } else { result };
            }
            () = signals.next() => {
                if stop.is_cancelled() {
                    std::process::exit(Exit::Interrupted.code().into());
                }
                stop.cancel();
                printer.say("stopping after the running operations; press again to quit at once");
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
    async fn an_interrupt_asks_and_then_counts_as_interrupted() {
        let printer = Printer::new(false, true, false);
        let result = interruptible::<(), _>(&printer, |stop| async move {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::INT)?;
            stop.cancelled().await;
            anyhow::bail!("stopped half way")
        });
        let error = result.await.expect_err("the work was stopped");
        assert_eq!(crate::error::exit_of(&error), Exit::Interrupted);
    }
}
