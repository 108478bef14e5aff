//! Finding the daemon of a root, or starting it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use reqwest::Method;
use rustix::fs::{FlockOperation, flock};
use tokio::time::{Instant, sleep};

use super::client::Endpoint;
use super::wire::{Pong, Retired};
use super::{needs, predecessor, sys};
use crate::{Error, Result};

const START: Duration = Duration::from_secs(30);

/// A daemon that answers on the root's socket, if there is one. `http` connects there.
pub async fn find(http: &reqwest::Client) -> Option<Endpoint> {
    let endpoint = Endpoint::socket();
    let ping = endpoint.request(http, Method::GET, "/v1/ping").timeout(Duration::from_secs(5));
    ping.send().await.ok().filter(|r| r.status().is_success()).map(|_| endpoint)
}

/// Asks a daemon whose program was replaced to make way for the new one. `false`: it stays, because it is
/// up to date or has something under way. Instances run on in either case.
async fn made_way(endpoint: &Endpoint, http: &reqwest::Client) -> bool {
    let ask = async {
        let ping = endpoint.request(http, Method::GET, "/v1/ping");
        let Pong { outdated } = ping.send().await?.error_for_status()?.json().await?;
        if !outdated {
            return Ok(false);
        }
        let hand_over = endpoint.request(http, Method::POST, "/v1/hand-over");
        let answer: Retired = hand_over.send().await?.error_for_status()?.json().await?;
        Ok::<_, reqwest::Error>(answer.retired)
    };
    ask.await.unwrap_or(false)
}

/// Waits until the daemon of a root no longer answers.
pub async fn await_end(http: &reqwest::Client) {
    for _ in 0..250 {
        if find(http).await.is_none() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Starts the daemon unless it runs, and returns when it answers.
pub async fn ensure(root: &Path, program: &Path, http: &reqwest::Client) -> Result<Endpoint> {
    needs::root()?;
    needs::private(root)?;
    needs::short(root)?;
    if let Some(endpoint) = find(http).await {
        if !made_way(&endpoint, http).await {
            return Ok(endpoint);
        }
        await_end(http).await;
    }
    needs::all()?;
    let failed = |e: std::io::Error| {
        Error::failed(format!("cannot start the local cloud in {}", root.display())).because(e)
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(failed)?;
    // Two that start at the same time: the second waits and finds the first one's daemon.
    let path = root.join("start.lock");
    let _starting = tokio::task::spawn_blocking(move || -> std::io::Result<fs::File> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    })
    .await
    .map_err(|e| Error::failed("the lock cannot be waited for").because(e))?
    .map_err(failed)?;
    if let Some(endpoint) = find(http).await {
        return Ok(endpoint);
    }
    predecessor::end(root).await;

    let log = root.join("daemon.log");
    let output = OpenOptions::new().create(true).append(true).mode(0o600).open(&log).map_err(failed)?;
    let said_before = output.metadata().map_or(0, |m| m.len());
    let mut command = Command::new(program);
    command
        .arg0("kiln")
        .args(["local", "daemon", "--root"])
        .arg(root)
        .current_dir("/")
        .env("PATH", needs::search_path())
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed)?)
        .stderr(output);
    sys::own_session(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    let end = Instant::now() + START;
    let endpoint = loop {
        if let Some(endpoint) = find(http).await {
            break endpoint;
        }
        let ended = child.try_wait().map_err(failed)?;
        if ended.is_some() || Instant::now() >= end {
            let text = fs::read(&log).unwrap_or_default();
            let said = String::from_utf8_lossy(
                text.get(usize::try_from(said_before).unwrap_or(0)..).unwrap_or_default(),
            );
            return Err(Error::failed(format!("the local cloud's daemon did not start: {}", said.trim())));
        }
        sleep(Duration::from_millis(20)).await;
    };
    // A daemon that ends while this process lives must not linger as a zombie.
    std::thread::spawn(move || child.wait());
    Ok(endpoint)
}
