//! Opens the cluster of the file for a verb, and shows its progress.

use std::collections::HashMap;
use std::io::{BufRead as _, IsTerminal as _};
use std::sync::Mutex;

use anyhow::bail;
use kiln_deploy::Deployment;
use kiln_image::{Event, Progress, State};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::harmless::harmless;
use crate::input;
use crate::progress::{self, Item};

/// Runs `work` on the cluster of the file; Ctrl-C stops it between operations.
pub fn with<T>(
    context: &Context,
    work: impl AsyncFnOnce(&Deployment<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let spec = input::spec(context)?;
    shown(context, async |progress, stop| {
        let deployment = Deployment::open(&spec, &context.file, progress, stop)?;
        work(&deployment).await
    })
}

/// Runs `work` and shows its progress; Ctrl-C cancels the token.
pub fn shown<T>(
    context: &Context,
    work: impl AsyncFnOnce(Progress<'_>, CancellationToken) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let board = Board::new(context.printer.progress());
    let show = |event: Event| board.show(event);
    context.interruptible(|stop| async { work(&show, stop).await.or_else(advised) })
}

fn advised<T>(error: anyhow::Error) -> anyhow::Result<T> {
    let known = error.downcast_ref::<kiln_deploy::Error>();
    let hint = known.and_then(kiln_deploy::Error::hint);
    match hint {
        Some(hint) => Err(error).hint(hint),
        None => Err(error),
    }
}

/// One line or spinner per item, kept until it is done.
struct Board {
    progress: progress::Progress,
    items: Mutex<HashMap<String, (Item, String)>>,
}

impl Board {
    fn new(progress: progress::Progress) -> Self {
        Board { progress, items: Mutex::default() }
    }

    fn show(&self, event: Event) {
        let event = Event { text: harmless(&event.text).into_owned(), ..event };
        let mut items = self.items.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (item, last) = items
            .entry(event.item.clone())
            .or_insert_with(|| (self.progress.item(&event.item), String::new()));
        match event.state {
            // Work that polls reports the same state repeatedly.
            State::Working if *last == event.text => {}
            State::Working => {
                item.set(&event.text);
                *last = event.text;
            }
            State::Done => {
                item.done(&event.text);
                items.remove(&event.item);
            }
            State::Failed => {
                item.fail(&event.text);
                items.remove(&event.item);
            }
        }
    }
}

/// Asks for confirmation before something is deleted or rebuilt. Without a terminal, `--yes` is required.
pub fn confirm(context: &Context, yes: bool, question: &str) -> anyhow::Result<()> {
    confirm_with(context, yes, question, "yes")
}

/// As [`confirm`], for what takes data with it: the cluster's name must be typed.
pub fn confirm_by_name(context: &Context, yes: bool, question: &str, cluster: &str) -> anyhow::Result<()> {
    confirm_with(context, yes, question, cluster)
}

fn confirm_with(context: &Context, yes: bool, question: &str, word: &str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || context.printer.is_json() {
        return Err(anyhow::anyhow!("{question} needs confirmation"))
            .exit(Exit::Usage)
            .hint("confirm with --yes");
    }
    let what = if word == "yes" { "yes".to_owned() } else { format!("the name of the cluster, {word},") };
    anstream::eprint!("{question}? Type {what} to continue: ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() != word {
        bail!("nothing was changed");
    }
    Ok(())
}

/// Volumes as a prompt names them.
pub fn volumes(names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("the volume {one}")),
        many => Some(format!("the volumes {}", many.join(", "))),
    }
}
