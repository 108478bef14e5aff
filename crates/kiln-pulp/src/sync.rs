//! From a source to its snapshot: sync, publish, name.

use std::time::Duration;

use kiln_distro::PackageFormat;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::remote::Upstream;
use crate::server::Server;
use crate::snapshot::{Snapshot, stamp};
use crate::task::Watch;
use crate::{Error, Result};

/// A source of the cluster file that the server has snapshots of.
pub struct Source<'a> {
    /// Of its repository, below the server's content.
    pub path: &'a str,
    pub upstream: Upstream<'a>,
    /// The snapshot that is used now.
    pub stamp: Option<&'a str>,
}

/// When to give up.
pub struct Limits<'a> {
    pub time: Duration,
    pub stop: &'a CancellationToken,
}

/// What a sync would find on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The newest snapshot.
    pub latest: Option<String>,
    pub on_demand: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    pub stamp: String,
    /// The snapshot was made now: something was new.
    pub is_new: bool,
    /// Packages in it.
    pub packages: u64,
    /// Packages that the newest version of the repository added to the one before, and that it dropped.
    pub added: u64,
    pub removed: u64,
    /// Packages are fetched when they are asked for: those that go upstream go from the snapshot.
    pub on_demand: bool,
}

impl Server {
    /// Changes nothing.
    pub async fn outlook(&self, format: PackageFormat, path: &str) -> Result<Outlook> {
        let repository = self.find_repository(format, path).await?;
        let latest = self.snapshots(format, path).await?.pop().map(|snapshot| snapshot.stamp);
        let remote = match repository.as_ref().and_then(|repository| repository.remote.as_deref()) {
            Some(href) => Some(self.remote(href).await?),
            None => None,
        };
        let on_demand = remote.is_some_and(|remote| remote.does_not_pin());
        Ok(Outlook { latest, on_demand })
    }

    /// Fetches what is new upstream and makes a snapshot of it. Where nothing is new since the last snapshot, that one is
    /// the answer; so a run that was cut off behind the sync is continued by the next.
    pub async fn sync(
        &self,
        source: &Source<'_>,
        limits: &Limits<'_>,
        say: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Synced> {
        let watch = Watch { until: Instant::now() + limits.time, limit: limits.time, stop: limits.stop, say };
        let (path, format) = (source.path, source.upstream.format);
        let (repository, remote) = self.ensure_repository(path, &source.upstream, &watch).await?;
        self.sync_repository(format, path, &repository, &watch).await?;
        let Some(repository) = self.find_repository(format, path).await? else {
            return Err(Error::Empty { path: path.to_string() });
        };
        let version = repository.latest_version_href;
        let packages = self.packages(format, &version).await?;
        if packages.present == 0 {
            return Err(Error::Empty { path: path.to_string() });
        }
        let published = self.publications(format, &version).await?;
        let existing = self.snapshots(format, path).await?;
        let found = same(&existing, &published, source.stamp);
        let is_new = found.is_none();
        let stamp = if let Some(stamp) = found {
            stamp
        } else {
            let publication = if let Some(publication) = published.into_iter().next() {
                publication
            } else {
                say("publishing");
                self.publish(format, path, &version, &watch).await?
            };
            let stamp = stamp(jiff::Timestamp::now());
            self.make_snapshot(format, path, &stamp, &publication, &watch).await?;
            stamp
        };
        Ok(Synced {
            stamp,
            is_new,
            packages: packages.present,
            added: packages.added,
            removed: packages.removed,
            on_demand: remote.does_not_pin(),
        })
    }
}

/// A snapshot of one of these publications: the one in use, if it is among them, else the newest.
fn same(existing: &[Snapshot], published: &[String], used: Option<&str>) -> Option<String> {
    let is_one = |snapshot: &&Snapshot| {
        snapshot.publication.as_ref().is_some_and(|publication| published.contains(publication))
    };
    let mut all = existing.iter().filter(is_one);
    let found =
        all.clone().find(|snapshot| Some(snapshot.stamp.as_str()) == used).or_else(|| all.next_back());
    found.map(|snapshot| snapshot.stamp.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_new_keeps_its_snapshot() {
        let snapshot = |stamp: &str, publication: &str| Snapshot {
            stamp: stamp.into(),
            publication: Some(publication.into()),
        };
        let existing = [snapshot("1", "/a"), snapshot("2", "/b"), snapshot("3", "/b")];
        let published = ["/b".to_string()];
        assert_eq!(same(&existing, &published, Some("2")).as_deref(), Some("2"));
        assert_eq!(same(&existing, &published, Some("1")).as_deref(), Some("3"));
        assert_eq!(same(&existing, &published, None).as_deref(), Some("3"));
        assert_eq!(same(&existing, &["/c".to_string()], Some("3")), None);
        assert_eq!(same(&existing, &[], None), None);
    }
}
