//! What control and login nodes report of their services: control's in a file, a login node's at a port, wrapped by MUNGE.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln_web::health::{Known, health_node};
use kiln_web::view::Health;
use kiln_wire::checkup::CheckupReport;
use kiln_wire::{FleetFile, Format as _, paths};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;
use crate::store::now;

const EVERY: Duration = Duration::from_secs(10);
/// For one node.
const SOON: Duration = Duration::from_secs(8);
/// A report is a few kilobytes.
const LARGEST: u64 = 1 << 20;
/// MUNGE's codes for what is not fresh, but whole and of whom it says. When it was made is in the report.
const OLD: [i32; 3] = [15, 16, 17];

#[derive(Debug)]
pub struct NodeReports {
    file: PathBuf,
    unmunge: PathBuf,
    port: u16,
    known: Mutex<BTreeMap<String, Known>>,
}

impl Default for NodeReports {
    fn default() -> Self {
        NodeReports {
            file: paths::REPORT.into(),
            unmunge: "/usr/bin/unmunge".into(),
            port: paths::REPORT_PORT,
            known: Mutex::default(),
        }
    }
}

impl NodeReports {
    pub fn health(&self, file: &FleetFile) -> Health {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (nothing, at) = (Known::default(), now());
        let node = |(name, node): (&String, &kiln_wire::WatchedNode)| {
            let role = if node.address.is_none() { "control" } else { "login" };
            health_node(name, role, known.get(name).unwrap_or(&nothing), at)
        };
        let mut nodes: Vec<_> = file.watched.iter().map(node).collect();
        nodes.sort_by_key(|node| node.role != "control");
        Health { nodes }
    }

    /// Asks all of them, again and again, until `stop`.
    pub async fn gather(
        self: Arc<Self>,
        fleet: watch::Receiver<Option<Arc<Fleet>>>,
        stop: CancellationToken,
    ) {
        loop {
            let now = fleet.borrow().clone();
            if let Some(fleet) = now {
                stop.run_until_cancelled(self.ask_all(&fleet.file)).await;
            }
            if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
                return;
            }
        }
    }

    async fn ask_all(&self, file: &FleetFile) {
        let asked = file.watched.iter().map(|(name, node)| async move {
            let answer = tokio::time::timeout(SOON, self.ask(node.address)).await;
            let late = || Err(format!("no answer within {} s", SOON.as_secs()));
            (name.clone(), answer.unwrap_or_else(|_| late()))
        });
        let answers = futures_util::future::join_all(asked).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| file.watched.contains_key(name));
        for (name, answer) in answers {
            let entry = known.entry(name).or_default();
            match answer {
                Ok((report, clock_ahead)) => {
                    *entry = Known { report: Some(report), clock_ahead, ..Known::default() };
                }
                Err(problem) => {
                    entry.problem = Some(problem);
                    entry.silent_since.get_or_insert_with(now);
                }
            }
        }
    }

    /// Its report, and how far its clock is ahead of this one.
    async fn ask(&self, address: Option<IpAddr>) -> Result<(CheckupReport, Option<i64>), String> {
        let Some(address) = address else {
            let text = std::fs::read(&self.file).map_err(|error| format!("there is no report: {error}"))?;
            return Ok((read(&text)?, None));
        };
        let (said, wrapped) = fetch(address, self.port).await?;
        let ahead = said - now().as_second();
        Ok((read(&unwrap(&self.unmunge, &wrapped).await?)?, Some(ahead)))
    }
}

fn read(text: &[u8]) -> Result<CheckupReport, String> {
    CheckupReport::from_json(text).map_err(|error| format!("its report cannot be used: {error}"))
}

/// The node's clock, and its report.
async fn fetch(address: IpAddr, port: u16) -> Result<(i64, String), String> {
    let lost = |error: std::io::Error| format!("it does not hand out its report: {error}");
    let stream = TcpStream::connect((address, port)).await.map_err(lost)?;
    let mut text = String::new();
    stream.take(LARGEST).read_to_string(&mut text).await.map_err(lost)?;
    let parts = text.split_once('\n').and_then(|(time, wrapped)| Some((time.parse().ok()?, wrapped)));
    let (time, wrapped) = parts.ok_or("it has handed out something else than a report")?;
    if wrapped.is_empty() {
        return Err("it has made no report yet".into());
    }
    Ok((time, wrapped.to_string()))
}

/// What root on a node of the cluster has wrapped for this user.
async fn unwrap(unmunge: &Path, wrapped: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("unmunge cannot be run: {error}");
    let mut command = Command::new(unmunge);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let stdin = child.stdin.take();
    let (written, output) = tokio::join!(
        async {
            match stdin {
                Some(mut pipe) => pipe.write_all(wrapped.as_bytes()).await,
                None => Ok(()),
            }
        },
        child.wait_with_output()
    );
    let output = output.map_err(failed)?;
    if !output.status.success() && !output.status.code().is_some_and(|code| OLD.contains(&code)) {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("it says nothing").trim();
        return Err(format!("MUNGE does not believe its report: {said}"));
    }
    written.map_err(failed)?;
    content(&output.stdout)
}

/// Lines about it, an empty one, then what was wrapped.
fn content(output: &[u8]) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(output);
    let strange = "unmunge has said something strange";
    let (about, content) = text.split_once("\n\n").ok_or(strange)?;
    let by = about.lines().find_map(|line| line.strip_prefix("UID:")).ok_or(strange)?.trim();
    if by != "0" && !by.ends_with("(0)") {
        return Err(format!("its report was not made by root, but by {by}"));
    }
    Ok(content.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const REPORT: &str =
        r#"{"format":1,"time":"2026-01-31T09:00:00Z","slurm":null,"problems":[],"places":[]}"#;

    /// A fake of unmunge: what was wrapped is behind the second line of what it is given, which is by whom.
    fn reports(dir: &Path, code: i32) -> NodeReports {
        let unmunge = dir.join("unmunge");
        let script = format!(
            "#!/bin/sh\nread -r by\necho 'STATUS: Success (0)'\necho \"UID:  $by\"\necho\ncat\necho no >&2\nexit {code}\n"
        );
        std::fs::write(&unmunge, script).unwrap();
        std::fs::set_permissions(&unmunge, std::fs::Permissions::from_mode(0o755)).unwrap();
        NodeReports { file: dir.join("report"), unmunge, ..NodeReports::default() }
    }

    async fn node(answer: String) -> u16 {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        port
    }

    #[tokio::test]
    async fn only_what_root_has_wrapped_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        for (by, code, believed) in
            [("root (0)", 0, true), ("0", 17, true), ("ann (1000)", 0, false), ("root (0)", 18, false)]
        {
            let seconds = now().as_second() + 60;
            let port = node(format!("{seconds}\n{by}\n{REPORT}")).await;
            let reports = NodeReports { port, ..reports(dir.path(), code) };
            let answer = reports.ask(Some([127, 0, 0, 1].into())).await;
            assert_eq!(answer.is_ok(), believed, "{by} {code}: {answer:?}");
            if let Ok((_, ahead)) = answer {
                assert!((1..=60).contains(&ahead.unwrap()), "{ahead:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_node_that_does_not_answer_keeps_its_last_report() {
        let dir = tempfile::tempdir().unwrap();
        let reports = reports(dir.path(), 0);
        let text = r#"{"cluster":"c","cloud":{"kind":"local","url":"http://10.0.0.1:1","token":"t"},"nodes":{},
            "watched":{"control":{}}}"#;
        let file = FleetFile::from_json(text.as_bytes()).unwrap();
        assert_eq!(reports.health(&file).nodes[0].problem, None, "nobody has been asked yet");
        std::fs::write(dir.path().join("report"), REPORT).unwrap();
        reports.ask_all(&file).await;
        std::fs::remove_file(dir.path().join("report")).unwrap();
        reports.ask_all(&file).await;
        let node = reports.health(&file).nodes.remove(0);
        assert_eq!((node.role.as_str(), node.is_stale), ("control", true));
        assert!(node.reported.is_some() && node.problem.is_some_and(|p| p.contains("no report")));
    }
}
