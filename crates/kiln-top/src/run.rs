//! From what kilnd tells and what somebody presses to the screen.

use std::time::Duration;

use jiff::Timestamp;
use kiln_web::view::{NodeDetail, Session};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::app::{App, Deed, Question};
use crate::error::Error;
use crate::screen;
use crate::sse::Message;
use crate::terminal::{Input, Screen, read_keys};
use crate::words::Palette;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What kilnd tells is drawn at most so often; what a key does is drawn at once.
    pub every: Duration,
    pub has_colour: bool,
}

/// So that times on the screen go on while nothing else changes.
const IDLE: Duration = Duration::from_secs(15);
/// Between two attempts to reach kilnd again.
const AGAIN: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(10)];

enum News {
    Input(Input),
    Told(Message),
    /// The connection is gone; it is tried again.
    Lost(String),
    /// There is no way back in.
    Over(Error),
    Node(Box<NodeDetail>),
    /// What came of something that was asked for, in words.
    Outcome(String),
}

/// Shows the cluster until somebody quits, the session is over, or `stop`.
pub async fn watch(
    api: Api,
    session: Session,
    options: Options,
    stop: CancellationToken,
) -> Result<(), Error> {
    let (sender, mut news) = mpsc::channel(64);
    let mut app = App::new(session, Palette { has_colour: options.has_colour });
    let mut screen = Screen::open().map_err(Error::Terminal)?;
    read_keys(sender.clone(), News::Input);
    let listening = tokio::spawn(listen(api.clone(), sender.clone()));
    let mut due = Instant::now();
    let ended = loop {
        if Instant::now() >= due {
            let drawn = screen.terminal.draw(|frame| screen::draw(frame, &mut app, Timestamp::now()));
            if let Err(error) = drawn {
                break Err(Error::Terminal(error));
            }
            due = Instant::now() + IDLE;
        }
        let next = tokio::select! {
            next = news.recv() => next,
            () = tokio::time::sleep_until(due) => continue,
            () = stop.cancelled() => break Ok(()),
        };
        let Some(next) = next else { break Ok(()) };
        let soon = Instant::now() + options.every;
        match next {
            News::Told(message) => {
                app.lost = None;
                app.model.take(message);
                due = due.min(soon);
                continue;
            }
            News::Input(Input::Key(key)) => match app.press(key) {
                Some(Deed::Quit) => break Ok(()),
                Some(Deed::Steer(question)) => steer(&api, question, &sender),
                Some(Deed::AskNode(name)) => ask_node(&api, name, &sender),
                None => {}
            },
            News::Input(Input::Resized) => {}
            News::Input(Input::Gone(error)) => break Err(Error::Terminal(error)),
            News::Lost(why) => _ = app.lost.get_or_insert((Timestamp::now(), why)),
            News::Over(error) => break Err(error),
            News::Node(detail) => app.told(*detail),
            News::Outcome(words) => app.message = Some(words),
        }
        due = Instant::now();
    };
    listening.abort();
    drop(screen);
    api.log_out().await;
    ended
}

/// Hears kilnd out, again and again.
async fn listen(api: Api, to: Sender<News>) {
    let mut failures = 0;
    loop {
        let error = match api.stream().await {
            Ok(mut stream) => loop {
                match stream.next().await {
                    Ok(message) => {
                        failures = 0;
                        if to.send(News::Told(message)).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => break error,
                }
            },
            Err(error) => error,
        };
        let lost = match error {
            over @ Error::Over(_) => News::Over(over),
            other => News::Lost(other.to_string()),
        };
        if to.send(lost).await.is_err() {
            return;
        }
        tokio::time::sleep(AGAIN[failures.min(AGAIN.len() - 1)]).await;
        failures += 1;
    }
}

fn steer(api: &Api, question: Question, to: &Sender<News>) {
    let (api, to) = (api.clone(), to.clone());
    tokio::spawn(async move {
        let words = match api.steer(question.rollout, question.order).await {
            Ok(detail) => format!("rollout {}: {}", question.rollout, detail.rollout.message),
            Err(error) => error.to_string(),
        };
        let _ = to.send(News::Outcome(words)).await;
    });
}

fn ask_node(api: &Api, name: String, to: &Sender<News>) {
    let (api, to) = (api.clone(), to.clone());
    tokio::spawn(async move {
        let news = match api.node(&name).await {
            Ok(detail) => News::Node(Box::new(detail)),
            Err(error) => News::Outcome(error.to_string()),
        };
        let _ = to.send(news).await;
    });
}
