//! Waiting for slurmdbd while it converts its database, however long that takes.

use std::time::{Duration, Instant};

use kiln_image::Event;
use tokio::time::sleep;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::on_control::OnControl;

const CONVERSION: &str = include_str!("../scripts/conversion.sh");

/// A conversion that takes an hour is not looked at every second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long the control node may not be heard of before it counts as lost. slurmdbd does not need us.
const SILENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Look {
    answers: bool,
    /// It has ended, or was started again.
    ended: bool,
    seconds: Option<u64>,
    said: Vec<String>,
}

impl Look {
    fn parse(text: &str) -> Look {
        let mut look = Look::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            match key {
                "ActiveState" => look.ended |= matches!(value, "failed" | "inactive"),
                "NRestarts" => look.ended |= value != "0" && !value.is_empty(),
                "Answers" => look.answers = true,
                "Seconds" => look.seconds = value.parse().ok(),
                "Said" => look.said.push(value.trim().to_string()),
                _ => {}
            }
        }
        look
    }

    fn progress(&self) -> String {
        let time = self.seconds.map_or_else(String::new, |s| format!(" for {}", duration(s)));
        let said = self.said.last().map_or_else(String::new, |said| format!(": {}", short(said)));
        format!("converting the database{time}{said}")
    }
}

/// Without the name that slurmdbd gives itself.
fn short(said: &str) -> &str {
    said.strip_prefix("slurmdbd: ").unwrap_or(said)
}

fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

impl Deployment<'_> {
    /// Being asked to stop ends the waiting, not slurmdbd.
    pub(super) async fn convert_database(&self, control: &OnControl) -> Result<()> {
        (self.progress)(Event::working("slurmdbd", "starting"));
        control.run(&["systemctl", "start", "--no-block", "slurmdbd.service"]).await?;
        let (start, mut heard) = (Instant::now(), Instant::now());
        loop {
            match control.script(CONVERSION, &[]).await.map(|text| Look::parse(&text)) {
                Ok(look) if look.answers => {
                    let time = duration(look.seconds.unwrap_or_else(|| start.elapsed().as_secs()));
                    (self.progress)(Event::done("slurmdbd", format!("has taken over the database ({time})")));
                    return Ok(());
                }
                Ok(look) if look.ended => {
                    (self.progress)(Event::failed("slurmdbd", "has ended"));
                    let said: Vec<String> = look.said.iter().map(|line| format!("\n  {line}")).collect();
                    return Err(Error::NotReady(format!(
                        "slurmdbd could not take over the database:{}",
                        said.concat()
                    )));
                }
                Ok(look) => {
                    heard = Instant::now();
                    (self.progress)(Event::working("slurmdbd", look.progress()));
                }
                Err(error) if heard.elapsed() > SILENCE => return Err(error),
                Err(_) => {
                    (self.progress)(Event::working("slurmdbd", "waiting for the control node to answer"));
                }
            }
            let pause = (start.elapsed() / 20).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            if self.stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return Err(Error::Stopped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_words() {
        let look = Look::parse(
            "ActiveState=active\nNRestarts=0\nMainPID=12\nSeconds=75\nSaid=a\nSaid=slurmdbd: pre-converting job table for demo\n",
        );
        assert!(!look.answers && !look.ended);
        assert_eq!(
            look.progress(),
            "converting the database for 1 min 15 s: pre-converting job table for demo"
        );
        assert_eq!(duration(4000), "1 h 6 min");
    }

    #[test]
    fn an_end_is_seen() {
        assert!(Look::parse("ActiveState=failed\nNRestarts=0\n").ended);
        assert!(Look::parse("ActiveState=inactive\n").ended);
        assert!(Look::parse("ActiveState=activating\nNRestarts=2\n").ended, "it dies again and again");
        assert!(!Look::parse("ActiveState=activating\nNRestarts=0\n").ended);
        assert!(Look::parse("ActiveState=active\nAnswers=yes\n").answers);
    }
}
