//! A repository on the server and its versions.

use std::collections::BTreeMap;

use kiln_distro::PackageFormat;
use serde::Deserialize;
use serde_json::json;

use crate::format::Plugin as _;
use crate::remote::{LABEL, Remote, Upstream};
use crate::server::Server;
use crate::task::{Started, Watch};
use crate::{Error, Result};

#[derive(Deserialize)]
pub(crate) struct Repository {
    pub pulp_href: String,
    pub latest_version_href: String,
    pub remote: Option<String>,
}

#[derive(Deserialize)]
struct Version {
    content_summary: Summary,
}

#[derive(Deserialize)]
struct Summary {
    added: BTreeMap<String, Count>,
    removed: BTreeMap<String, Count>,
    present: BTreeMap<String, Count>,
}

#[derive(Deserialize)]
struct Count {
    count: u64,
}

/// Numbers of packages of a version: all, and against the version before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packages {
    pub present: u64,
    pub added: u64,
    pub removed: u64,
}

impl Server {
    pub(crate) async fn find_repository(
        &self,
        format: PackageFormat,
        name: &str,
    ) -> Result<Option<Repository>> {
        let mut found: Vec<Repository> =
            self.all("list its repositories", format.repositories(), &[("name", name)]).await?;
        Ok(found.pop())
    }

    /// The repository of this name and what it is filled from; made if it is not there.
    pub(crate) async fn ensure_repository(
        &self,
        name: &str,
        upstream: &Upstream<'_>,
        watch: &Watch<'_>,
    ) -> Result<(Repository, Remote)> {
        let Some(repository) = self.find_repository(upstream.format, name).await? else {
            let remote = self.ensure_remote(name, upstream, watch).await?;
            let body = json!({"name": name, "remote": remote.pulp_href, "pulp_labels": { LABEL: "source" }});
            let made = {
                let what = format!("make the repository {name}");
                self.post(&what, upstream.format.repositories(), &body).await?
            };
            return Ok((made, remote));
        };
        let Some(remote) = &repository.remote else {
            return Err(Error::Refused {
                what: format!("sync {name}"),
                words: "the repository has no remote, so it was not made to be synced".into(),
            });
        };
        let remote = self.converge_remote(self.remote(remote).await?, upstream, watch).await?;
        Ok((repository, remote))
    }

    /// What is no longer upstream leaves the repository too; snapshots keep it.
    pub(crate) async fn sync_repository(
        &self,
        format: PackageFormat,
        name: &str,
        repository: &Repository,
        watch: &Watch<'_>,
    ) -> Result<()> {
        let what = format!("sync {name}");
        let path = format!("{}sync/", repository.pulp_href);
        let started: Started = self.post(&what, &path, &format.mirror()).await?;
        watch.wait(self, &what, &started).await.map(drop)
    }

    pub(crate) async fn packages(&self, format: PackageFormat, version: &str) -> Result<Packages> {
        let version: Version = self.get("show a repository's version", version, &[]).await?;
        let count = |of: &BTreeMap<String, Count>| of.get(format.package()).map_or(0, |found| found.count);
        let Summary { added, removed, present } = &version.content_summary;
        Ok(Packages { present: count(present), added: count(added), removed: count(removed) })
    }
}
