//! Snapshots: distributions named `PATH/STAMP`.

use kiln_distro::PackageFormat;
use serde::Deserialize;
use serde_json::json;

use crate::Result;
use crate::format::Plugin as _;
use crate::remote::LABEL;
use crate::server::Server;
use crate::task::{Started, Watch};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub stamp: String,
    pub(crate) publication: Option<String>,
}

#[derive(Deserialize)]
struct Distribution {
    base_path: String,
    publication: Option<String>,
}

/// A new one's name. They sort by time.
pub(crate) fn stamp(now: jiff::Timestamp) -> String {
    now.strftime("%Y%m%dT%H%M%SZ").to_string()
}

impl Server {
    /// The snapshots of a path, oldest first.
    pub async fn snapshots(&self, format: PackageFormat, path: &str) -> Result<Vec<Snapshot>> {
        let prefix = format!("{path}/");
        let query = [("name__startswith", prefix.as_str()), ("fields", "base_path,publication")];
        let found: Vec<Distribution> = self.all("list its snapshots", format.distributions(), &query).await?;
        let snapshot = |found: Distribution| {
            let stamp = found.base_path.strip_prefix(&prefix).filter(|stamp| !stamp.contains('/'))?;
            Some(Snapshot { stamp: stamp.to_string(), publication: found.publication })
        };
        let mut all: Vec<Snapshot> = found.into_iter().filter_map(snapshot).collect();
        all.sort_unstable_by(|a, b| a.stamp.cmp(&b.stamp));
        Ok(all)
    }

    pub(crate) async fn make_snapshot(
        &self,
        format: PackageFormat,
        path: &str,
        stamp: &str,
        publication: &str,
        watch: &Watch<'_>,
    ) -> Result<()> {
        let place = format!("{path}/{stamp}");
        let what = format!("make the snapshot {place}");
        let body = json!({
            "name": place, "base_path": place, "publication": publication, "pulp_labels": { LABEL: "snapshot" },
        });
        let started: Started = self.post(&what, format.distributions(), &body).await?;
        watch.wait(self, &what, &started).await.map(drop)
    }
}
