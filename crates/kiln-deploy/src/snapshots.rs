//! New snapshots of package sources on the Pulp server, and the file that names them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use kiln_distro::{Family, PackageFormat};
use kiln_image::{Event, Progress};
use kiln_pulp::{Limits, Login, Server, Source, Synced, Upstream};
use kiln_spec::{PulpSource, PulpSpec, SNAPSHOTS_FILE, Snapshots, SourceSpec, Spec};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::targets::credentials;

/// The snapshots of a cluster file.
pub struct Snapshotting<'a> {
    spec: &'a Spec,
    /// Where the cluster file is.
    dir: PathBuf,
    server: Server,
    progress: Progress<'a>,
}

/// What came of a source, or would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSnapshot {
    pub source: String,
    /// The snapshot that images are built from now.
    pub before: Option<String>,
    /// The one that they are built from next. `None`: a dry run cannot tell.
    pub after: Option<String>,
    /// The newest on the server, where a dry run has asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<String>,
    /// What the server fetches from; `None`: its newest snapshot is taken.
    pub upstream: Option<String>,
    /// The snapshot was made now.
    pub made: bool,
    pub packages: Option<Packages>,
    /// The server fetches packages when they are asked for, so the snapshot loses those that upstream loses.
    pub on_demand: bool,
}

/// Numbers of packages in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Packages {
    pub all: u64,
    pub added: u64,
    pub removed: u64,
}

impl SourceSnapshot {
    pub fn changes(&self) -> bool {
        self.after.is_some() && self.after != self.before
    }
}

impl<'a> Snapshotting<'a> {
    /// For the cluster file at this place. Nothing is asked or changed yet.
    pub fn open(spec: &'a Spec, file: &Path, progress: Progress<'a>) -> Result<Self> {
        let dir = file.parent().unwrap_or(Path::new("")).to_path_buf();
        let pulp = spec.pulp.as_ref().ok_or(Error::NoPulp)?;
        let server = server(pulp, &dir)?;
        Ok(Snapshotting { spec, dir, server, progress })
    }

    /// The sources with these names, or all whose snapshot is not fixed by the cluster file.
    pub fn sources(&self, names: &[String]) -> Result<Vec<&'a SourceSpec>> {
        let all = self.spec.sources.values();
        if names.is_empty() {
            let open: Vec<_> = all.filter(|s| s.pulp.as_ref().is_some_and(|pulp| !pulp.fixed)).collect();
            return if open.is_empty() { Err(Error::NoPulpSource) } else { Ok(open) };
        }
        let mut chosen = BTreeMap::new();
        for name in names {
            let source = self.spec.sources.get(name);
            let known = || all.clone().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
            let source = source.ok_or_else(|| Error::UnknownSource { name: name.clone(), known: known() })?;
            match &source.pulp {
                None => return Err(Error::NotOnPulp(name.clone())),
                Some(pulp) if pulp.fixed => return Err(Error::FixedSnapshot(name.clone())),
                Some(_) => chosen.insert(name, source),
            };
        }
        Ok(chosen.into_values().collect())
    }

    /// What a sync would begin with. Changes nothing.
    pub async fn outlook(&self, sources: &[&SourceSpec]) -> Result<Vec<SourceSnapshot>> {
        self.check(sources).await?;
        let each = sources.iter().map(|source| async {
            let Some((pulp, upstream)) = self.synced(source) else { return self.listed(source).await };
            let outlook =
                self.server.outlook(self.format(source), &pulp.path).await.map_err(about(source))?;
            Ok(SourceSnapshot {
                after: None,
                newest: outlook.latest,
                upstream: Some(upstream.to_string()),
                on_demand: outlook.on_demand,
                ..unchanged(source)
            })
        });
        join_all(each).await.into_iter().collect()
    }

    /// Syncs all at once, waits, and writes down the new snapshots. If one fails, none is written down.
    pub async fn sync(
        &self,
        sources: &[&SourceSpec],
        time: Duration,
        stop: &CancellationToken,
    ) -> Result<Vec<SourceSnapshot>> {
        self.check(sources).await?;
        let each = sources.iter().map(|source| self.sync_one(source, time, stop));
        let mut reports = Vec::new();
        let mut failed = Vec::new();
        for outcome in join_all(each).await {
            match outcome {
                Ok(report) => reports.push(report),
                Err(error) => failed.push(error),
            }
        }
        // With one error the others follow from it, or are seen next time.
        if let Some(error) = failed.into_iter().next() {
            return Err(error);
        }
        self.write(&reports)?;
        Ok(reports)
    }

    async fn sync_one(
        &self,
        source: &SourceSpec,
        time: Duration,
        stop: &CancellationToken,
    ) -> Result<SourceSnapshot> {
        let outcome = match self.synced(source) {
            Some((pulp, upstream)) => self.sync_from(source, pulp, upstream, time, stop).await,
            None => self.listed(source).await,
        };
        (self.progress)(match &outcome {
            Ok(report) => Event::done(&source.name, told(report)),
            Err(error) => Event::failed(&source.name, error.chain()),
        });
        outcome
    }

    async fn sync_from(
        &self,
        source: &SourceSpec,
        pulp: &PulpSource,
        upstream: &str,
        time: Duration,
        stop: &CancellationToken,
    ) -> Result<SourceSnapshot> {
        let key = source.key.as_ref().and_then(|key| std::str::from_utf8(&key.content).ok());
        let wanted = Source {
            path: &pulp.path,
            upstream: Upstream {
                format: self.format(source),
                url: upstream,
                suites: &source.suites,
                components: &source.components,
                architecture: architecture(),
                key,
            },
            stamp: source.snapshot.as_deref(),
        };
        let say = |text: &str| (self.progress)(Event::working(&source.name, text));
        say("asking for a sync");
        let synced = self.server.sync(&wanted, &Limits { time, stop }, &say).await.map_err(about(source))?;
        let Synced { stamp, is_new, packages, added, removed, on_demand } = synced;
        Ok(SourceSnapshot {
            after: Some(stamp),
            upstream: Some(upstream.to_string()),
            made: is_new,
            packages: Some(Packages { all: packages, added, removed }),
            on_demand,
            ..unchanged(source)
        })
    }

    /// For a source whose snapshots others make: the newest.
    async fn listed(&self, source: &SourceSpec) -> Result<SourceSnapshot> {
        let path = source.pulp.as_ref().map(|pulp| pulp.path.as_str()).unwrap_or_default();
        let latest = self.server.latest_listed(path).await.map_err(about(source))?;
        Ok(SourceSnapshot { after: Some(latest), ..unchanged(source) })
    }

    /// What the server is to fetch it from, if it is to.
    fn synced<'s>(&self, source: &'s SourceSpec) -> Option<(&'s PulpSource, &'s str)> {
        let pulp = source.pulp.as_ref()?;
        let upstream = pulp.upstream.as_deref().filter(|_| self.server.can_sync())?;
        Some((pulp, upstream))
    }

    /// That of the images which are built from it. One that none is built from is taken for Debian's.
    fn format(&self, source: &SourceSpec) -> PackageFormat {
        let mut images = self.spec.images.values().filter(|image| image.sources.contains(&source.name));
        images.next().map_or(PackageFormat::Deb, |image| Family::of_system(image.system).sources.format)
    }

    /// Only a server that is to do something has to be able to.
    async fn check(&self, sources: &[&SourceSpec]) -> Result<()> {
        let synced = sources.iter().filter(|source| self.synced(source).is_some());
        let formats: Vec<PackageFormat> = synced.map(|source| self.format(source)).collect();
        if !formats.is_empty() {
            self.server.check(&formats).await.map_err(Error::Pulp)?;
        }
        Ok(())
    }

    /// Nothing is written where nothing changes.
    fn write(&self, reports: &[SourceSnapshot]) -> Result<()> {
        let path = self.dir.join(SNAPSHOTS_FILE);
        // Read again: a sync takes long, and other files of this directory may have been synced meanwhile.
        let mut snapshots = match fs::read_to_string(&path) {
            Ok(text) => Snapshots::read(&text).map_err(|why| Error::Damaged { path: path.clone(), why })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Snapshots::default(),
            Err(source) => return Err(Error::File { path, did: "read", source }),
        };
        let before = snapshots.clone();
        for report in reports {
            if let Some(stamp) = &report.after {
                snapshots.0.insert(report.source.clone(), stamp.clone());
            }
        }
        if snapshots == before {
            return Ok(());
        }
        let unfinished = self.dir.join(format!(".{SNAPSHOTS_FILE}.new"));
        let written =
            write_whole(&unfinished, &snapshots.to_text()).and_then(|()| fs::rename(&unfinished, &path));
        written.map_err(|source| {
            let _ = fs::remove_file(&unfinished);
            Error::File { path, did: "written", source }
        })
    }
}

fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn server(pulp: &PulpSpec, dir: &Path) -> Result<Server> {
    let login = match &pulp.credentials {
        None => None,
        Some(reference) => {
            let text = credentials(reference, dir).map_err(Error::PulpCredentials)?;
            let parts = text.expose_secret().trim_end_matches(['\r', '\n']).split_once(':');
            let parts = parts.filter(|(user, password)| !user.is_empty() && !password.is_empty());
            let wrong = || Error::PulpCredentials("they are not `USER:PASSWORD`".into());
            let (user, password) = parts.ok_or_else(wrong)?;
            Some(Login { user: user.to_string(), password: password.to_string() })
        }
    };
    Server::new(&pulp.address, &pulp.content, login).map_err(Error::Pulp)
}

/// Nodes run the same `kiln` as this host, so they are of the same kind.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn unchanged(source: &SourceSpec) -> SourceSnapshot {
    SourceSnapshot {
        source: source.name.clone(),
        before: source.snapshot.clone(),
        after: source.snapshot.clone(),
        newest: None,
        upstream: None,
        made: false,
        packages: None,
        on_demand: false,
    }
}

fn about(source: &SourceSpec) -> impl Fn(kiln_pulp::Error) -> Error {
    let name = source.name.clone();
    move |error| match error {
        kiln_pulp::Error::Stopped { canceled } => Error::SyncStopped { canceled },
        // They are about the server, whatever was asked of it.
        kiln_pulp::Error::Unreachable { .. }
        | kiln_pulp::Error::NotPulp { .. }
        | kiln_pulp::Error::NoRights { .. } => Error::Pulp(error),
        error => Error::Sync { name: name.clone(), source: error },
    }
}

/// In one line.
fn told(report: &SourceSnapshot) -> String {
    let stamp = report.after.as_deref().unwrap_or_default();
    let count = report.packages.map(|packages| {
        let Packages { all, added, removed } = packages;
        if report.made {
            format!(", {all} packages ({added} added, {removed} removed)")
        } else {
            format!(", {all} packages")
        }
    });
    let count = count.unwrap_or_default();
    match (report.made, report.changes()) {
        (true, _) => format!("new snapshot {stamp}{count}"),
        (false, true) => format!("snapshot {stamp}{count}"),
        (false, false) => format!("nothing new since {stamp}{count}"),
    }
}
