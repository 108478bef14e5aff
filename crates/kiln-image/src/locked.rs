//! The part of a build that is about a lock: only its packages can be installed, and the result is compared with it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use kiln_ssh::Host;

use crate::build::BuildError;
use crate::lock::{LockError, LockFile};
use crate::manifest::{Manifest, Package};
use crate::recipe::{Recipe, Source};
use crate::sequence::Sequence;

/// Where packages are on the build instance; emptied at the end of a build.
const THERE: &str = "/var/tmp/kiln-packages";

impl Recipe {
    /// The same with what the lock file says: for this image, and for those of the file that it is built on where they are locked.
    pub fn locked(mut self, file: &LockFile, path: &Path) -> Result<Recipe, LockError> {
        let missing = || LockError::NotLocked { path: path.to_path_buf(), image: self.name.clone() };
        self.lock = Some(file.images.get(&self.name).cloned().ok_or_else(missing)?);
        if let Source::Image(parent) = self.source {
            let is_locked = file.images.contains_key(&parent.name);
            let parent = if is_locked { parent.locked(file, path)? } else { *parent };
            self.source = Source::Image(Box::new(parent));
        }
        Ok(self)
    }
}

impl Sequence<'_> {
    /// Before anything is updated or installed. Names all packages that cannot be had.
    pub(crate) async fn apply_lock(&mut self, host: &Host, before: &[Package]) -> Result<(), BuildError> {
        let Some(lock) = &self.recipe.lock else { return Ok(()) };
        let step = &self.family.steps.lock;
        self.begin("lock", step.says);
        if Manifest::digest_of(before) != lock.source_digest {
            let text = "the source image came with other packages than at the time of the lock, whose packages replace them";
            self.builder.say(&self.recipe.name, text);
        }
        let kept = self.kept().filter(|dir| dir.is_dir());
        if let Some(dir) = &kept {
            self.send(host, dir).await?;
        }
        self.step(host, step, &[kept.map_or("", |_| THERE)], lock.lines().as_bytes()).await
    }

    pub(crate) fn check_lock(&self, packages: &[Package]) -> Result<(), BuildError> {
        let broken = self.recipe.lock.as_ref().map(|lock| lock.broken_by(packages)).unwrap_or_default();
        if broken.is_empty() { Ok(()) } else { Err(BuildError::NotAsLocked(broken)) }
    }

    /// Copies all packages to the directory that they are to be kept in, unless they came from there.
    pub(crate) async fn keep_packages(&mut self, host: &Host) -> Result<(), BuildError> {
        let Some(dir) = self.kept().filter(|dir| self.recipe.lock.is_none() || !dir.is_dir()) else {
            return Ok(());
        };
        let Some(step) = &self.family.steps.keep else { return Ok(()) };
        self.begin("keep", step.says);
        self.step(host, step, &[THERE], b"").await?;
        self.receive(host, &dir).await
    }

    fn kept(&self) -> Option<PathBuf> {
        self.builder.packages_dir.map(|dir| dir.join(&self.recipe.name))
    }

    async fn send(&self, host: &Host, dir: &Path) -> Result<(), BuildError> {
        let mut tar = std::process::Command::new("tar")
            .args(["--create", "--file", "-", "--directory"])
            .arg(dir)
            .arg(".")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| BuildError::Kept { path: dir.to_path_buf(), source })?;
        let archive = tar.stdout.take().map_or(Stdio::null(), Stdio::from);
        let script =
            format!("mkdir -p {THERE} && exec tar --extract --no-same-owner --file - --directory {THERE}");
        let argv = ["sh", "-c", &script];
        let builder = self.builder;
        let sent = self.in_time(builder.ssh.stream(host, &argv, archive, Stdio::null())).await;
        // Nobody reads from it any more.
        let _ = tar.kill();
        let _ = tar.wait();
        ended("sending packages", &sent??)
    }

    /// Into a directory of another name first, so that one that is there is whole.
    async fn receive(&self, host: &Host, dir: &Path) -> Result<(), BuildError> {
        let partial = dir.with_extension("partial");
        let archive = dir.with_extension("partial.tar");
        let result = self.receive_into(host, dir, &partial, &archive).await;
        let _ = std::fs::remove_file(&archive);
        let _ = std::fs::remove_dir_all(&partial);
        result
    }

    async fn receive_into(
        &self,
        host: &Host,
        dir: &Path,
        partial: &Path,
        archive: &Path,
    ) -> Result<(), BuildError> {
        let failed = |source| BuildError::Kept { path: dir.to_path_buf(), source };
        let _ = std::fs::remove_dir_all(partial);
        std::fs::create_dir_all(partial).map_err(failed)?;
        let file = std::fs::File::create(archive).map_err(failed)?;
        let argv = ["tar", "--create", "--file", "-", "--directory", THERE, "."];
        let builder = self.builder;
        let sent = self.in_time(builder.ssh.stream(host, &argv, Stdio::null(), file.into())).await;
        ended("copying packages", &sent??)?;
        let status = std::process::Command::new("tar")
            .args(["--extract", "--no-same-owner", "--file"])
            .arg(archive)
            .arg("--directory")
            .arg(partial)
            .status()
            .map_err(failed)?;
        if !status.success() {
            return Err(failed(std::io::Error::other("tar could not unpack them")));
        }
        let _ = std::fs::remove_dir_all(dir);
        std::fs::rename(partial, dir).map_err(failed)
    }
}

fn ended(step: &str, output: &kiln_ssh::Output) -> Result<(), BuildError> {
    match output.status {
        0 => Ok(()),
        status => Err(BuildError::Step {
            step: step.to_string(),
            message: format!("exit {status}\n{}", output.stderr),
        }),
    }
}
