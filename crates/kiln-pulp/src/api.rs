//! Shapes that several answers share, and whether the server can work.

use kiln_distro::PackageFormat;
use serde::Deserialize;

use crate::format::Plugin as _;
use crate::server::Server;
use crate::{Error, Result};

#[derive(Deserialize)]
pub(crate) struct Page<T> {
    pub next: Option<String>,
    pub results: Vec<T>,
}

#[derive(Deserialize)]
struct Status {
    versions: Vec<Version>,
    online_workers: Vec<serde_json::Value>,
    online_content_apps: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Version {
    component: String,
}

impl Server {
    /// Whether a sync of such packages would be worked on, and what comes of it be served.
    pub async fn check(&self, formats: &[PackageFormat]) -> Result<()> {
        let status: Status = self.get("tell its state", "status/", &[]).await?;
        let missing = |what| Err(Error::NotReady { what });
        let has = |format: PackageFormat| {
            status.versions.iter().any(|version| version.component == format.component())
        };
        if let Some(format) = formats.iter().find(|format| !has(**format)) {
            return missing(format.name());
        }
        if status.online_workers.is_empty() {
            return missing("worker online (pulpcore-worker)");
        }
        if status.online_content_apps.is_empty() {
            return missing("content app online (pulpcore-content)");
        }
        Ok(())
    }

    /// All pages of a list.
    pub(crate) async fn all<T: serde::de::DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>> {
        const PAGE: usize = 500;
        let mut all = Vec::new();
        loop {
            let (limit, offset) = (PAGE.to_string(), all.len().to_string());
            let page = [("limit", limit.as_str()), ("offset", offset.as_str())];
            let query: Vec<(&str, &str)> = query.iter().copied().chain(page).collect();
            let page: Page<T> = self.get(what, path, &query).await?;
            let is_last = page.next.is_none() || page.results.is_empty();
            all.extend(page.results);
            if is_last {
                return Ok(all);
            }
        }
    }
}
