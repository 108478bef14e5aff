//! Backups, as seen from the deploy host: the control node makes, keeps and loads them; here they are asked for, fetched
//! and brought back.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kiln_image::Event;
use kiln_ssh::{Host, Ssh};
use kiln_wire::backup::{BackupLoaded, BackupMade, MANIFEST};
use kiln_wire::{BackupList, BackupManifest, Format};

use crate::control::Refusal;
use crate::deployment::Deployment;
use crate::error::{Error, Result};

/// The control node's backups.
pub struct Backups<'a> {
    deployment: &'a Deployment<'a>,
    ssh: Ssh,
    control: Host,
}

impl Deployment<'_> {
    pub async fn backups(&self) -> Result<Backups<'_>> {
        let observed = self.observe().await?;
        self.check_owner(&observed)?;
        let control = self.hosts(&observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        Ok(Backups { deployment: self, ssh: self.ssh()?.patient(), control })
    }
}

impl Backups<'_> {
    pub async fn list(&self) -> Result<BackupList> {
        self.ask(&["list"]).await
    }

    pub async fn make(&self, reason: &str) -> Result<BackupMade> {
        self.working("making a backup");
        let made = self.ask::<BackupMade>(&["now", "--reason", reason]).await?;
        self.done(format!("made the backup {}", made.name));
        Ok(made)
    }

    /// How many jobs would be replaced by those of a backup; `None`: Slurm does not say.
    pub async fn jobs_in_queue(&self) -> Option<usize> {
        let argv = ["squeue", "--noheader", "--array", "--format=%i"];
        let output = self.ssh.output(&self.control, &argv, b"").await.ok()?;
        (output.status == 0).then(|| output.stdout.lines().count())
    }

    pub async fn load(&self, name: &str) -> Result<BackupLoaded> {
        self.working(&format!("restoring {name}"));
        let loaded = self.ask(&["load", name]).await?;
        self.done(format!("restored {name}"));
        Ok(loaded)
    }

    /// Copies a backup into a directory of this host, as a directory with its name.
    pub async fn fetch(&self, name: &str, into: &Path) -> Result<PathBuf> {
        let list = self.list().await?;
        let manifest =
            list.backups.iter().find(|b| b.name == name).ok_or_else(|| Error::NoBackup(name.to_string()))?;
        let path = into.join(&manifest.name);
        if path.exists() {
            return Err(Error::Exists(path));
        }
        let partial = into.join(format!(".{}.partial", manifest.name));
        let fetched = self.fetch_files(manifest, &list.directory.join(name), &partial).await;
        let named = fetched.and_then(|()| std::fs::rename(&partial, &path).map_err(failed("written", &path)));
        if let Err(error) = named {
            let _ = std::fs::remove_dir_all(&partial);
            return Err(error);
        }
        self.done(format!("fetched {name}"));
        Ok(path)
    }

    async fn fetch_files(&self, manifest: &BackupManifest, from: &Path, partial: &Path) -> Result<()> {
        if partial.exists() {
            std::fs::remove_dir_all(partial).map_err(failed("removed", partial))?;
        }
        std::fs::create_dir_all(partial).map_err(failed("created", partial))?;
        for file in manifest.files.keys().map(String::as_str).chain([MANIFEST]) {
            self.deployment.check_stop()?;
            self.working(&format!("fetching {file}"));
            let source = from.join(file);
            let target = partial.join(file);
            let copy = File::create(&target).map_err(failed("written", &target))?;
            let argv = ["cat", "--", &*source.to_string_lossy()];
            let output = self.ssh.stream(&self.control, &argv, Stdio::null(), copy.into()).await?;
            if output.status != 0 {
                return Err(Error::Node { message: output.stderr, hint: None });
            }
        }
        verified(partial).map(|_| ())
    }

    /// Brings a backup that was fetched before back to the control node; its name.
    pub async fn put(&self, directory: &Path) -> Result<String> {
        let manifest = verified(directory)?;
        let name = &manifest.name;
        self.working(&format!("sending {name}"));
        let mut tar = std::process::Command::new("tar")
            .args(["--create", "--file", "-", "--directory"])
            .arg(directory)
            .args(manifest.files.keys().map(String::as_str).chain([MANIFEST]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed("read", directory))?;
        let archive = tar.stdout.take().map_or(Stdio::null(), Stdio::from);
        let argv = ["kiln", "--json", "node", "backup", "receive", name];
        let sent = self.ssh.stream(&self.control, &argv, archive, Stdio::null()).await;
        // Nobody reads from it any more. What was sent is checked on the other side, so that a tar that failed shows there.
        let _ = tar.wait();
        let sent = sent?;
        if sent.status != 0 {
            return Err(Refusal::read(&sent.stderr).into());
        }
        self.done(format!("sent {name}"));
        Ok(name.clone())
    }

    async fn ask<T: Format>(&self, words: &[&str]) -> Result<T> {
        let argv: Vec<&str> =
            ["kiln", "--json", "node", "backup"].into_iter().chain(words.iter().copied()).collect();
        let output = self.ssh.output(&self.control, &argv, b"").await?;
        if output.status != 0 {
            return Err(Refusal::read(&output.stderr).into());
        }
        T::from_json(output.stdout.as_bytes()).map_err(|error| Error::NotReady(error.to_string()))
    }

    fn working(&self, text: &str) {
        (self.deployment.progress)(Event::working(&self.control.name, text));
    }

    fn done(&self, text: String) {
        (self.deployment.progress)(Event::done(&self.control.name, text));
    }
}

fn verified(directory: &Path) -> Result<BackupManifest> {
    BackupManifest::verified(directory)
        .map_err(|source| Error::DamagedBackup { path: directory.to_path_buf(), source })
}

fn failed<'a>(did: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> Error + 'a {
    move |source| Error::File { path: path.to_path_buf(), did, source }
}
