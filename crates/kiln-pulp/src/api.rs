//! Shapes that several answers share, and whether the server can work.

use serde::Deserialize;

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
    /// Whether a sync would be worked on, and what comes of it be served.
    pub async fn check(&self) -> Result<()> {
        let status: Status = self.get("tell its state", "status/", &[]).await?;
        let missing = |what| Err(Error::NotReady { what });
        if !status.versions.iter().any(|version| version.component == "deb") {
            return missing("plugin for Debian packages (pulp-deb)");
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
