//! Work requests: where Oracle says why something that it had accepted did not come to be.

use super::driver::Driver;
use super::region::Service::Core;
use super::wire::{WorkError, WorkRequest};
use crate::Result;
use crate::remote::encode;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    UnderWay,
    Over,
    /// In Oracle's words.
    Failed(String),
}

impl Driver {
    /// Why a launch failed, in Oracle's words.
    pub(super) async fn why_failed(&self, instance: &str, request: Option<&str>) -> Result<Option<String>> {
        let requests = match request {
            Some(id) => vec![id.to_string()],
            None => self.requests_of(instance).await?.into_iter().map(|request| request.id).collect(),
        };
        for id in requests {
            if let Some(reason) = self.errors_of(&id).await? {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }

    /// How the newest piece of work on an instance goes: its rebuild, where it is known to have had one.
    pub(super) async fn rebuild_of(&self, instance: &str) -> Result<Progress> {
        let all = self.requests_of(instance).await?;
        let Some(newest) = all.into_iter().max_by_key(|request| request.time_accepted) else {
            return Ok(Progress::UnderWay);
        };
        Ok(match newest.status.as_str() {
            "FAILED" | "CANCELED" => {
                let reason = self.errors_of(&newest.id).await?;
                Progress::Failed(reason.unwrap_or(format!("{} failed", newest.operation_type)))
            }
            "SUCCEEDED" => Progress::Over,
            _ => Progress::UnderWay,
        })
    }

    async fn requests_of(&self, resource: &str) -> Result<Vec<WorkRequest>> {
        let path = format!("{}&resourceId={}", self.in_compartment("workRequests"), encode(resource));
        self.client.list(Core, &path).await
    }

    async fn errors_of(&self, request: &str) -> Result<Option<String>> {
        let path = format!("/workRequests/{}/errors", encode(request));
        let errors: Vec<WorkError> = match self.client.list(Core, &path).await {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let words: Vec<String> = errors.iter().map(|e| format!("{}: {}", e.code, e.message)).collect();
        Ok((!words.is_empty()).then(|| words.join("; ")))
    }
}
