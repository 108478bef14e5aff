//! The journals of many nodes, read side by side.

use futures_util::future::join_all;
use jiff::Timestamp;
use kiln_cloud::InstanceStatus;
use kiln_ssh::Host;
use serde::Serialize;

use crate::deployment::Deployment;
use crate::error::Result;
use crate::nodes::bounded;
use crate::observe::Observed;

/// Which part of the journals.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Empty: of all units.
    pub units: Vec<String>,
    pub since: Option<Timestamp>,
    /// Of each node, the newest; `None`: all.
    pub lines: Option<u32>,
    /// As `journalctl --priority` takes it.
    pub priority: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    pub node: String,
    pub time: Timestamp,
    /// May have several lines.
    pub text: String,
}

/// Entries, oldest first, and the nodes that could not be read, with why.
#[derive(Debug, Default)]
pub struct Logs {
    pub entries: Vec<LogEntry>,
    pub failed: Vec<(String, String)>,
}

impl LogQuery {
    fn command(&self, follow: bool) -> Vec<String> {
        let mut argv: Vec<String> =
            ["journalctl", "--no-pager", "--quiet", "--no-hostname", "--output=short-unix"]
                .map(String::from)
                .into();
        argv.extend(self.units.iter().map(|unit| format!("--unit={unit}")));
        argv.extend(self.since.map(|since| format!("--since=@{}", since.as_second())));
        argv.extend(self.priority.iter().map(|priority| format!("--priority={priority}")));
        argv.push(self.lines.map_or("--lines=all".into(), |lines| format!("--lines={lines}")));
        argv.extend(follow.then(|| "--follow".to_string()));
        argv
    }
}

impl Deployment<'_> {
    /// The nodes that are up.
    pub fn nodes_up(&self, observed: &Observed) -> Vec<String> {
        let instances = observed.nodes();
        let is_up = |name: &str| instances.get(name).is_some_and(|i| i.status == InstanceStatus::Active);
        self.spec.nodes().map(|node| node.name).filter(|name| is_up(name)).map(String::from).collect()
    }

    /// Merged by time. Nodes that cannot be read do not keep the others from being shown.
    pub async fn logs(&self, hosts: Vec<Host>, query: &LogQuery) -> Result<Logs> {
        let (ssh, argv) = (self.ssh()?, query.command(false));
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let read = |host: Host| {
            let (ssh, argv) = (&ssh, &argv);
            async move {
                let text = ssh.run(&host, argv, b"").await.map_err(|error| error.to_string());
                (host.name, text)
            }
        };
        let mut logs = Logs::default();
        for (node, text) in bounded(hosts, self.spec.concurrency, read).await {
            match text {
                Ok(text) => logs.entries.extend(entries(&node, &text)),
                Err(error) => logs.failed.push((node, error)),
            }
        }
        // Of one node they keep their order.
        logs.entries.sort_by_key(|entry| entry.time);
        Ok(logs)
    }

    /// What is there, and what comes, until this process is asked to stop. The nodes that could not be read, with why.
    pub async fn follow_logs(
        &self,
        hosts: Vec<Host>,
        query: &LogQuery,
        each: impl Fn(LogEntry),
    ) -> Result<Vec<(String, String)>> {
        let (ssh, argv) = (self.ssh()?, query.command(true));
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let follow = |host: Host| {
            let (ssh, argv, each) = (&ssh, &argv, &each);
            async move {
                let mut last = Timestamp::UNIX_EPOCH;
                let shown = ssh.lines(&host, argv, |line| {
                    // A line without a time goes on with the entry before it.
                    let (time, text) = split(line).unwrap_or((last, line));
                    last = time;
                    each(LogEntry { node: host.name.clone(), time, text: text.to_owned() });
                });
                match shown.await {
                    Ok(output) if output.status == 0 => None,
                    Ok(output) => Some((host.name.clone(), output.stderr)),
                    Err(error) => Some((host.name.clone(), error.to_string())),
                }
            }
        };
        let all = join_all(hosts.into_iter().map(follow));
        tokio::select! {
            ended = all => Ok(ended.into_iter().flatten().collect()),
            () = self.stop.cancelled() => Ok(Vec::new()),
        }
    }
}

fn entries(node: &str, text: &str) -> Vec<LogEntry> {
    let mut entries: Vec<LogEntry> = Vec::new();
    for line in text.lines() {
        match (split(line), entries.last_mut()) {
            (Some((time, text)), _) => entries.push(LogEntry { node: node.into(), time, text: text.into() }),
            (None, Some(last)) => {
                last.text.push('\n');
                last.text.push_str(line);
            }
            (None, None) => {}
        }
    }
    entries
}

/// The time, in seconds and millionths, and what follows it.
fn split(line: &str) -> Option<(Timestamp, &str)> {
    let (time, text) = line.split_once(' ')?;
    let (seconds, millionths) = time.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.len() < 9 || millionths.len() != 6 || !digits(seconds) || !digits(millionths) {
        return None;
    }
    let microseconds =
        seconds.parse::<i64>().ok()?.checked_mul(1_000_000)? + millionths.parse::<i64>().ok()?;
    Some((Timestamp::from_microsecond(microseconds).ok()?, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_several_lines_stay_whole() {
        let text = "1763370000.000001 sshd[7]: one\n                 two\n1763370001.500000 kernel: 3.25 x\n";
        let read = entries("c-0", text);
        let shown: Vec<String> = read.iter().map(|e| format!("{} {}", e.time, e.text)).collect();
        assert_eq!(
            shown,
            [
                "2025-11-17T09:00:00.000001Z sshd[7]: one\n                 two",
                "2025-11-17T09:00:01.5Z kernel: 3.25 x"
            ]
        );
        assert_eq!(entries("c-0", "-- No entries --\n"), []);
    }

    #[test]
    fn a_query_is_a_command() {
        let query = LogQuery {
            units: vec!["slurmd".into()],
            since: "2025-11-17T09:00:00Z".parse().ok(),
            lines: None,
            priority: Some("warning".into()),
        };
        let argv = query.command(true).join(" ");
        assert!(
            argv.ends_with("--unit=slurmd --since=@1763370000 --priority=warning --lines=all --follow"),
            "{argv}"
        );
    }
}
