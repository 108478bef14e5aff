//! A version of a repository with what apt needs to read it. `verbatim`: as it was upstream, with upstream's signature.

use serde::Deserialize;
use serde_json::json;

use crate::Result;
use crate::server::Server;
use crate::task::{Started, Watch};

#[derive(Deserialize)]
struct Publication {
    pulp_href: String,
}

const PUBLICATIONS: &str = "publications/deb/verbatim/";

impl Server {
    /// The publications of a version, newest first.
    pub(crate) async fn publications(&self, version: &str) -> Result<Vec<String>> {
        let query = [("repository_version", version), ("ordering", "-pulp_created")];
        let found: Vec<Publication> = self.all("list its publications", PUBLICATIONS, &query).await?;
        Ok(found.into_iter().map(|publication| publication.pulp_href).collect())
    }

    pub(crate) async fn publish(&self, name: &str, version: &str, watch: &Watch<'_>) -> Result<String> {
        let what = format!("publish {name}");
        let body = json!({"repository_version": version});
        let started: Started = self.post(&what, PUBLICATIONS, &body).await?;
        let made = watch.wait(self, &what, &started).await?;
        made.into_iter().next().ok_or_else(|| self.not_pulp("publishing made no publication".into()))
    }
}
