//! What drivers of clouds across a network have in common: many calls at a time, waiting for what comes later, and words of
//! services.

use std::fmt::Write as _;
use std::future::Future;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use tokio::time::Instant;

use crate::{Error, Result};

/// How many calls of one bulk operation are under way at a time. Services work on few at once anyway; more would
/// only make them time out.
const AT_ONCE: usize = 16;

/// Runs `work` for every item, a bounded number at a time, and returns the results in the items' order.
pub(crate) async fn bounded<T, R, F: Future<Output = R>>(items: Vec<T>, work: impl Fn(T) -> F) -> Vec<R> {
    let all: Vec<F> = items.into_iter().map(work).collect();
    stream::iter(all).buffered(AT_ONCE).collect().await
}

/// Between two looks at what somebody waits for: at first so long, then twice as long each time, up to the last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub first: Duration,
    pub last: Duration,
}

impl Pace {
    pub const fn every(time: Duration) -> Pace {
        Pace { first: time, last: time }
    }

    /// Waits, and slows down.
    pub async fn step(&mut self) {
        tokio::time::sleep(self.first).await;
        self.first = (self.first * 2).min(self.last);
    }
}

/// Calls `look` until it says that there is nothing more to wait for.
pub(crate) async fn until<T, F: Future<Output = Result<Option<T>>>>(
    mut pace: Pace,
    limit: Duration,
    what: impl Fn() -> String,
    look: impl Fn() -> F,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(done) = look().await? {
            return Ok(done);
        }
        if Instant::now() >= deadline {
            return Err(Error::failed(format!("timed out waiting: {}", what())));
        }
        pace.step().await;
    }
}

/// For a query, or a part of a path.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// How long a service asks to be left alone.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// In characters: a message is for a person to read.
const LONGEST: usize = 400;

/// What a service says, or its status where it says nothing.
pub(crate) fn one_line(text: &str, status: StatusCode) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        _ if line.is_empty() => status.to_string(),
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encode("kiln_cluster=demo kiln_role=build"), "kiln_cluster%3Ddemo%20kiln_role%3Dbuild");
    }

    #[test]
    fn messages_are_one_line_and_not_too_long() {
        assert_eq!(one_line(" a\n  b ", StatusCode::OK), "a b");
        assert_eq!(one_line("", StatusCode::NOT_FOUND), "404 Not Found");
        assert_eq!(one_line(&"x".repeat(500), StatusCode::OK).len(), LONGEST + 3);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_become_rarer() {
        let begun = Instant::now();
        let mut pace = Pace { first: Duration::from_secs(1), last: Duration::from_secs(3) };
        for _ in 0..4 {
            pace.step().await;
        }
        assert_eq!(begun.elapsed().as_secs(), 1 + 2 + 3 + 3);
    }
}
