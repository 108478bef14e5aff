//! Work requests: where Oracle says why something that it had accepted did not come to be.

use super::client::encode;
use super::driver::Driver;
use super::region::Service::Core;
use super::wire::{WorkError, WorkRequest};
use crate::Result;

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

    /// `None`: it is still under way.
    pub(super) async fn why_rebuild_failed(&self, instance: &str) -> Result<Option<String>> {
        let newest =
            self.requests_of(instance).await?.into_iter().max_by_key(|request| request.time_accepted);
        match newest {
            Some(request) if request.status == "FAILED" => {
                let what = request.operation_type;
                Ok(Some(self.errors_of(&request.id).await?.unwrap_or(format!("{what} failed"))))
            }
            _ => Ok(None),
        }
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
