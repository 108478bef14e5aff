//! Long work of the server: waiting for it, telling how far it is, ending it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::server::Server;
use crate::{Error, Result};

/// The answer to a request that takes long. Where the server had it done at once, there is no task.
#[derive(Deserialize)]
pub(crate) struct Started {
    task: Option<String>,
}

#[derive(Deserialize)]
struct Task {
    state: String,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    progress_reports: Vec<Report>,
    #[serde(default)]
    created_resources: Vec<Option<String>>,
}

#[derive(Deserialize)]
struct Report {
    message: String,
    state: String,
    done: Option<u64>,
    total: Option<u64>,
}

/// How tasks are waited for.
pub(crate) struct Watch<'a> {
    pub until: Instant,
    pub limit: Duration,
    pub stop: &'a CancellationToken,
    pub say: &'a (dyn Fn(&str) + Send + Sync),
}

/// How long a server may be away that has been there, before its task is given up.
const PATIENCE: Duration = Duration::from_secs(60);

impl Watch<'_> {
    /// What the task made. Without time left, and when asked to stop, the task is canceled.
    pub async fn wait(&self, server: &Server, what: &str, started: &Started) -> Result<Vec<String>> {
        let Some(href) = &started.task else { return Ok(Vec::new()) };
        let mut pause = Duration::from_millis(100);
        let mut answered = Instant::now();
        loop {
            match server.get::<Task>(what, href, &[]).await {
                Ok(task) => {
                    answered = Instant::now();
                    if let Some(made) = task.made(what)? {
                        return Ok(made);
                    }
                    (self.say)(&task.how_far());
                }
                Err(error) if error.is_temporary() && answered.elapsed() < PATIENCE => {
                    (self.say)("the server does not answer at the moment");
                }
                Err(error) => return Err(error),
            }
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(Duration::from_secs(2)),
                () = self.stop.cancelled() => {
                    return Err(Error::Stopped { canceled: cancel(server, href).await });
                }
                () = tokio::time::sleep_until(self.until) => {
                    let canceled = cancel(server, href).await;
                    return Err(Error::TimedOut { what: what.to_string(), limit: self.limit, canceled });
                }
            }
        }
    }
}

/// Whether it was; nobody waits for long in that moment. A task that has ended meanwhile cannot be canceled any more.
async fn cancel(server: &Server, href: &str) -> bool {
    let what = "cancel a task";
    let body = json!({"state": "canceled"});
    let cancel = async {
        let ended = |task: &Task| !matches!(task.state.as_str(), "waiting" | "running" | "canceling");
        let mut asked = server.patch::<Task>(what, href, &body).await.is_ok();
        loop {
            if server.get::<Task>(what, href, &[]).await.is_ok_and(|task| ended(&task)) {
                return true;
            }
            sleep(Duration::from_millis(200)).await;
            asked = asked || server.patch::<Task>(what, href, &body).await.is_ok();
        }
    };
    timeout(Duration::from_secs(15), cancel).await.unwrap_or(false)
}

impl Task {
    /// `None`: not yet.
    fn made(&self, what: &str) -> Result<Option<Vec<String>>> {
        match self.state.as_str() {
            "completed" => Ok(Some(self.created_resources.iter().flatten().cloned().collect())),
            "failed" => {
                let why = self.error.as_ref().map_or_else(|| "it does not say why".into(), why);
                Err(Error::TaskFailed { what: what.to_string(), why })
            }
            "canceled" | "skipped" => Err(Error::Canceled { what: what.to_string() }),
            _ => Ok(None),
        }
    }

    fn how_far(&self) -> String {
        if self.state == "waiting" {
            return "waiting for a worker of the server".to_string();
        }
        let running = self.progress_reports.iter().rev().find(|report| report.state == "running");
        let Some(report) = running else { return "working".to_string() };
        let message = report.message.to_lowercase();
        match (report.done, report.total) {
            (Some(done), Some(total)) if total > 0 => format!("{message} {done} of {total}"),
            (Some(done), _) if done > 0 => format!("{message} {done}"),
            _ => message,
        }
    }
}

/// The part of a task's error that is for people; some plugins put the whole of a traceback into it.
fn why(error: &Value) -> String {
    let description = error["description"].as_str().unwrap_or_default().trim();
    let text =
        if description.is_empty() { error["traceback"].as_str().unwrap_or_default() } else { description };
    let last = text.trim().lines().last().unwrap_or_default().trim();
    if last.is_empty() { error.to_string() } else { last.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(value: Value) -> Task {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn how_far_a_task_is() {
        let report = |done: u64, total: Value| {
            let report =
                json!({"message": "Downloading Artifacts", "state": "running", "done": done, "total": total});
            task(json!({"state": "running", "progress_reports": [report]})).how_far()
        };
        assert_eq!(report(3, json!(38)), "downloading artifacts 3 of 38");
        assert_eq!(report(3, json!(null)), "downloading artifacts 3");
        assert_eq!(report(0, json!(null)), "downloading artifacts");
        assert_eq!(task(json!({"state": "waiting"})).how_far(), "waiting for a worker of the server");
        assert_eq!(task(json!({"state": "running"})).how_far(), "working");
    }

    #[test]
    fn how_a_task_ended() {
        let failed = json!({"state": "failed", "error": {"description": "404, message='Not Found'", "traceback": "x"}});
        let error = task(failed).made("sync debian").unwrap_err();
        assert_eq!(error.to_string(), "the Pulp server failed to sync debian: 404, message='Not Found'");
        let error = task(json!({"state": "canceled"})).made("sync debian").unwrap_err();
        assert!(error.to_string().starts_with("somebody canceled"), "{error}");
        let completed = json!({"state": "completed", "created_resources": ["/a", null]});
        assert_eq!(task(completed).made("x").unwrap(), Some(vec!["/a".to_string()]));
        assert_eq!(task(json!({"state": "canceling"})).made("x").unwrap(), None);
    }
}
