//! One cluster as seen from the deploy host: its file, its secrets, its cloud, SSH access to its nodes.

use std::fs;
use std::path::{Path, PathBuf};

use kiln_cloud::Cloud;
use kiln_image::{Progress, instance_name};
use kiln_site::services::{NODE_SEED, SSH_KEY};
use kiln_spec::Spec;
use kiln_ssh::Ssh;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::keys::{KeyRing, public_key};
use crate::secrets::SecretStore;

pub struct Deployment<'a> {
    pub spec: &'a Spec,
    pub cloud: Cloud,
    pub secrets: SecretStore,
    pub progress: Progress<'a>,
    /// Cancelled when the work is to stop.
    pub stop: CancellationToken,
    /// The binary that nodes run: the one that is running now.
    pub kiln: PathBuf,
    dir: PathBuf,
}

impl<'a> Deployment<'a> {
    /// `file`: the cluster file, which has `.kiln` beside it. Changes nothing.
    pub fn open(
        spec: &'a Spec,
        file: &Path,
        progress: Progress<'a>,
        stop: CancellationToken,
    ) -> Result<Self> {
        let parent = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = fs::canonicalize(parent).map_err(|source| Error::File {
            path: parent.to_path_buf(),
            did: "found",
            source,
        })?;
        let dir = parent.join(".kiln");
        let cloud = Cloud::open(&spec.cloud)?;
        let kiln = std::env::current_exe().map_err(|source| Error::File {
            path: "kiln".into(),
            did: "found",
            source,
        })?;
        let secrets = SecretStore::new(dir.join("secrets"), spec);
        Ok(Deployment { spec, cloud, secrets, progress, stop, kiln, dir })
    }

    /// The same cluster with other content of its file.
    pub(crate) fn with_spec<'s>(&'s self, spec: &'s Spec) -> Deployment<'s> {
        Deployment {
            spec,
            cloud: self.cloud.clone(),
            secrets: self.secrets.clone(),
            progress: self.progress,
            stop: self.stop.clone(),
            kiln: self.kiln.clone(),
            dir: self.dir.clone(),
        }
    }

    /// Whether the images come with cloud-init.
    pub(crate) fn has_cloud_init(&self) -> bool {
        !self.spec.cloud.facts().makes_source_images
    }

    /// Where the cluster file is, which paths in it are relative to.
    pub(crate) fn file_dir(&self) -> &Path {
        self.dir.parent().unwrap_or(&self.dir)
    }

    /// Called between operations, so that work stops where it can be continued.
    pub fn check_stop(&self) -> Result<()> {
        if self.stop.is_cancelled() { Err(Error::Stopped) } else { Ok(()) }
    }

    pub(crate) fn keys(&self) -> Result<KeyRing> {
        Ok(KeyRing::new(&self.secrets.read(&NODE_SEED)?))
    }

    pub(crate) fn ssh_public_key(&self) -> Result<String> {
        public_key(&self.secrets.read(&SSH_KEY)?)
    }

    pub(crate) fn kiln_bytes(&self) -> Result<Vec<u8>> {
        fs::read(&self.kiln).map_err(|source| Error::File { path: self.kiln.clone(), did: "read", source })
    }

    /// SSH access to the nodes. The host keys of all of them are written to known_hosts first, so that no unknown key is ever
    /// accepted.
    pub fn ssh(&self) -> Result<Ssh> {
        self.secrets.ensure()?;
        let ring = self.keys()?;
        let before = self.secrets.read_previous(&NODE_SEED).map(|seed| KeyRing::new(&seed));
        let build = instance_name(&self.spec.name);
        let mut text = String::new();
        for node in self.spec.nodes().map(|n| n.name).chain([build.as_str()]) {
            for ring in std::iter::once(&ring).chain(&before) {
                text.push_str(&ring.known_host(node)?);
                text.push('\n');
            }
        }
        let known_hosts = self.dir.join("known_hosts");
        let unchanged = fs::read_to_string(&known_hosts).is_ok_and(|now| now == text);
        if !unchanged {
            let temporary = self.dir.join(format!(".known_hosts.{}", std::process::id()));
            fs::write(&temporary, text)
                .and_then(|()| fs::rename(&temporary, &known_hosts))
                .map_err(|source| Error::File { path: known_hosts.clone(), did: "written", source })?;
        }
        let previous = self.secrets.previous_path(&SSH_KEY);
        let keys = [self.secrets.path(&SSH_KEY), previous];
        let keys = keys.into_iter().filter(|k| k.exists()).collect();
        Ok(Ssh { keys, known_hosts, patience: kiln_ssh::BRIEF })
    }
}
