//! What every verb is given.

use std::future::Future;
use std::path::PathBuf;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use crate::cli::Globals;
use crate::printer::Printer;
use crate::stop::interruptible;

pub struct Context {
    /// The cluster file.
    pub file: PathBuf,
    pub printer: Printer,
}

impl Context {
    pub fn new(globals: &Globals) -> Context {
        Context {
            file: globals.file.clone(),
            printer: Printer::new(globals.json, globals.quiet, globals.verbose > 0),
        }
    }

    /// Runs asynchronous work. The runtime is made here, not in `main`, because some verbs must start with a
    /// single thread.
    #[allow(clippy::unused_self, reason = "reads as the sibling of `interruptible`")]
    pub fn block_on<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the asynchronous runtime")?;
        runtime.block_on(work)
    }

    /// As [`Context::block_on`], for work that Ctrl-C should stop cleanly.
    pub fn interruptible<T, F>(&self, work: impl FnOnce(CancellationToken) -> F) -> anyhow::Result<T>
    where
        F: Future<Output = anyhow::Result<T>>,
    {
        self.block_on(interruptible(&self.printer, work))
    }
}
