//! A version of a repository with what apt or dnf needs to read it.

use kiln_distro::PackageFormat;
use serde::Deserialize;
use serde_json::json;

use crate::Result;
use crate::format::Plugin as _;
use crate::server::Server;
use crate::task::{Started, Watch};

#[derive(Deserialize)]
struct Publication {
    pulp_href: String,
}

impl Server {
    /// The publications of a version, newest first.
    pub(crate) async fn publications(&self, format: PackageFormat, version: &str) -> Result<Vec<String>> {
        let query = [("repository_version", version), ("ordering", "-pulp_created")];
        let found: Vec<Publication> =
            self.all("list its publications", format.publications(), &query).await?;
        Ok(found.into_iter().map(|publication| publication.pulp_href).collect())
    }

    pub(crate) async fn publish(
        &self,
        format: PackageFormat,
        name: &str,
        version: &str,
        watch: &Watch<'_>,
    ) -> Result<String> {
        let what = format!("publish {name}");
        let body = json!({"repository_version": version});
        let started: Started = self.post(&what, format.publications(), &body).await?;
        let made = watch.wait(self, &what, &started).await?;
        made.into_iter().next().ok_or_else(|| self.not_pulp("publishing made no publication".into()))
    }
}
