//! Source images: a plain system, as a cloud's official image would be, made on this host.
//!
//! Two layers: the system, made by its family's own tool and kept for as long as its ingredients stay the same, and on
//! top of it the `kiln` program with its unit, which changes with every release.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kiln_distro::{Bootstrap, Family};
use kiln_spec::System;

use super::records::ImageRecord;
use super::{Daemon, layers, lock, store};
use crate::local::identity_unit;
use crate::local::names;
use crate::local::wire::{SourceRequest, SourceStatus};
use crate::{Error, Image, Result};

/// The image has no host keys: an instance that was given none makes its own. Only the quick kind; an RSA key takes seconds.
fn host_key_unit(family: &Family) -> String {
    format!(
        "[Unit]\n\
         Description=Make this instance's SSH host key\n\
         ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key\n\
         After=kiln-identity.service\n\
         Before={}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N \"\" -f /etc/ssh/ssh_host_ed25519_key\n\
         RemainAfterExit=yes\n",
        family.unit("sshd.service"),
    )
}

/// A system that the local cloud can make.
#[derive(Clone, Copy)]
struct Plain {
    family: &'static Family,
    bootstrap: &'static Bootstrap,
}

/// What is known of the system that a request names.
fn plain(request: &SourceRequest) -> Result<Plain> {
    let family = System::of(&request.suite).map(Family::of_system);
    let made = family.and_then(|family| Some(Plain { family, bootstrap: family.bootstrap.as_ref()? }));
    let unknown = || Error::unsupported(format!("the local cloud cannot make an image of {}", request.suite));
    made.ok_or_else(unknown)
}

/// Digest of what the system is made from.
pub const SYSTEM: &str = "kiln_source";
/// Digest of the program and the unit on top.
const PROGRAM: &str = "kiln_program";
/// The system's name.
const SUITE: &str = "suite";

pub fn is_source(image: &Image) -> bool {
    image.properties.contains_key(SYSTEM)
}

/// The suite a source image is of.
pub fn suite_of(image: &Image) -> Option<&str> {
    image.properties.get(SUITE).filter(|_| is_source(image)).map(String::as_str)
}

#[derive(Debug, Clone)]
pub enum Progress {
    Running(String),
    Ready,
    Failed(Error),
}

impl Progress {
    fn is_running(&self) -> bool {
        matches!(self, Progress::Running(_))
    }
}

impl Daemon {
    /// How far the image is. `true` if the caller has to run [`Daemon::make_source`] now.
    pub fn source_status(&self, request: &SourceRequest) -> Result<(SourceStatus, bool)> {
        names::check_name(&request.suite)?;
        let program = program_digest(&request.executable)?;
        let system = system_digest(plain(request)?, &request.suite);
        let found = self.hand_out(|i| {
            i.properties.get(SYSTEM) == Some(&system) && i.properties.get(PROGRAM) == Some(&program)
        })?;
        if let Some(image) = found {
            return Ok((SourceStatus::Ready { image: Box::new(image) }, false));
        }
        let mut sources = lock(&self.sources);
        let status = match sources.get(&request.suite) {
            Some(Progress::Running(step)) => {
                return Ok((SourceStatus::Running { step: step.clone() }, false));
            }
            // Told once; the next request tries again.
            Some(Progress::Failed(error)) => {
                let status = SourceStatus::Failed { fault: error.clone().into() };
                sources.remove(&request.suite);
                return Ok((status, false));
            }
            _ => SourceStatus::Running { step: "starting".into() },
        };
        sources.insert(request.suite.clone(), Progress::Running("starting".into()));
        Ok((status, true))
    }

    pub fn make_source(&self, request: &SourceRequest) {
        let progress = match self.try_make_source(request) {
            Ok(()) => Progress::Ready,
            Err(error) => {
                tracing::error!(suite = request.suite, %error, "cannot make a source image");
                Progress::Failed(error)
            }
        };
        lock(&self.sources).insert(request.suite.clone(), progress);
        self.drop_superseded();
        self.collect_layers();
    }

    fn try_make_source(&self, request: &SourceRequest) -> Result<()> {
        let plain = plain(request)?;
        let system = system_digest(plain, &request.suite);
        let program = program_digest(&request.executable)?;
        let older = self.find_image(|i| i.properties.get(SYSTEM) == Some(&system));
        let base = match older {
            Some(record) => self.layer_dir(&record.layers[0]),
            None => self.scratch(|dir| self.bootstrap(plain, &request.suite, dir))?,
        };
        let top = self.scratch(|dir| install_program(dir, &request.executable))?;
        let image = Image {
            id: names::new_id(),
            name: format!("{}-{}", plain.family.name, request.suite),
            labels: BTreeMap::new(),
            properties: [(SYSTEM, system), (PROGRAM, program), (SUITE, request.suite.clone())]
                .map(|(k, v)| (k.to_string(), v))
                .into(),
            size_bytes: layers::size(&base) + layers::size(&top),
            created: jiff::Timestamp::now(),
        };
        self.record_source(image, [base, top])
    }

    /// The directories become layers and the image that holds them is recorded under one lock: nothing
    /// collects them in between.
    fn record_source(&self, image: Image, dirs: [PathBuf; 2]) -> Result<()> {
        let mut world = self.world();
        let mut layers = Vec::new();
        for dir in dirs {
            // The name stays where the directory is a layer of another image already.
            let id = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let layer = self.layer_dir(&id);
            if dir != layer {
                fs::rename(&dir, &layer)
                    .map_err(|e| Error::failed(format!("cannot move {}", dir.display())).because(e))?;
            }
            layers.push(id);
        }
        let handed_out = Some(image.created);
        world.images.put(ImageRecord { image, layers, handed_out })
    }

    pub fn is_making_source(&self) -> bool {
        lock(&self.sources).values().any(Progress::is_running)
    }

    /// A new directory, filled; gone if that fails.
    fn scratch(&self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let dir = self.root.join("tmp").join(names::new_id());
        fill(&dir).inspect_err(|_| drop(store::remove_tree(&dir)))?;
        Ok(dir)
    }

    fn find_image(&self, wanted: impl Fn(&Image) -> bool) -> Option<ImageRecord> {
        self.world().images.iter().find(|record| wanted(&record.image)).cloned()
    }

    fn bootstrap(&self, plain: Plain, suite: &str, dir: &Path) -> Result<()> {
        check_keyring(plain.bootstrap, suite)?;
        let argv = (plain.bootstrap.command)(suite, &dir.to_string_lossy());
        let program = argv.first().map_or("", String::as_str);
        let failed = |e: std::io::Error| Error::failed(format!("cannot run {program}")).because(e);
        let mut command = Command::new(program);
        command
            .args(&argv[1..])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut last = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            for line in BufReader::new(stderr).split(b'\n').map_while(std::io::Result::ok) {
                let line = String::from_utf8_lossy(&line).trim().to_string();
                if let Some(step) = line.strip_prefix(plain.bootstrap.step) {
                    lock(&self.sources).insert(suite.to_string(), Progress::Running(step.to_string()));
                }
                last.push(line);
                let excess = last.len().saturating_sub(12);
                last.drain(..excess);
            }
        }
        if !child.wait().map_err(failed)?.success() {
            return Err(Error::failed(format!("{program} failed: {}", last.join("\n"))));
        }
        generalize(plain, dir)
            .map_err(|e| Error::failed(format!("cannot prepare {}", dir.display())).because(e))
    }
}

fn system_digest(plain: Plain, suite: &str) -> String {
    // Wherever it is made.
    let command = (plain.bootstrap.command)(suite, "").join(" ");
    let ingredients = [command.trim_end(), &plain.bootstrap.masked.join(" "), &host_key_unit(plain.family)];
    names::sha256_hex(ingredients.join("\n").as_bytes())
}

/// In one sentence, before apt says it in many.
fn check_keyring(bootstrap: &Bootstrap, suite: &str) -> Result<()> {
    match bootstrap.keyring {
        Some(keys) if !Path::new(keys.path).is_file() => Err(Error::unsupported(format!(
            "the keys that packages of {suite} are signed with are missing: {}; install {}",
            keys.path, keys.package
        ))
        .with_hint(keys.hint)),
        _ => Ok(()),
    }
}

/// By size and time: reading a hundred megabytes on every request would be felt.
fn program_digest(executable: &Path) -> Result<String> {
    let data = fs::metadata(executable)
        .map_err(|e| Error::failed(format!("cannot use {}", executable.display())).because(e))?;
    let facts = format!("{} {}.{} {}", data.len(), data.mtime(), data.mtime_nsec(), identity_unit());
    Ok(names::sha256_hex(facts.as_bytes()))
}

/// Removes what must differ between instances and adds what makes one reachable.
fn generalize(Plain { family, bootstrap }: Plain, root: &Path) -> std::io::Result<()> {
    fs::write(root.join("etc/machine-id"), "")?;
    for entry in fs::read_dir(root.join("etc/ssh"))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("ssh_host_") {
            fs::remove_file(entry.path())?;
        }
    }
    for name in ["etc/hostname", "etc/resolv.conf"] {
        let _ = fs::remove_file(root.join(name));
    }
    let units = root.join("etc/systemd/system");
    for unit in bootstrap.masked {
        let path = units.join(unit);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink("/dev/null", path)?;
    }
    fs::write(units.join("ssh-host-key.service"), host_key_unit(family))?;
    let wants = units.join(format!("{}.wants", family.unit("sshd.service")));
    fs::create_dir_all(&wants)?;
    std::os::unix::fs::symlink("../ssh-host-key.service", wants.join("ssh-host-key.service"))
}

fn install_program(dir: &Path, executable: &Path) -> Result<()> {
    let install = || -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let bin = dir.join("usr/local/bin");
        let units = dir.join("etc/systemd/system");
        fs::create_dir_all(&bin)?;
        fs::create_dir_all(units.join("multi-user.target.wants"))?;
        for path in ["", "usr", "usr/local", "usr/local/bin", "etc", "etc/systemd", "etc/systemd/system"] {
            fs::set_permissions(dir.join(path), fs::Permissions::from_mode(0o755))?;
        }
        fs::copy(executable, bin.join("kiln"))?;
        fs::set_permissions(bin.join("kiln"), fs::Permissions::from_mode(0o755))?;
        fs::write(units.join("kiln-identity.service"), identity_unit())?;
        std::os::unix::fs::symlink(
            "/etc/systemd/system/kiln-identity.service",
            units.join("multi-user.target.wants/kiln-identity.service"),
        )
    };
    install().map_err(|e| Error::failed(format!("cannot install {}", executable.display())).because(e))
}

#[cfg(test)]
mod tests {
    use kiln_distro::Keyring;

    use super::*;

    #[test]
    fn missing_keys_are_told_with_their_package() {
        let with = |path| {
            let keyring = Some(Keyring { path, package: "some-keyring", hint: "it is over there" });
            Bootstrap { command: |_, _| Vec::new(), keyring, step: "", masked: &[] }
        };
        let missing = check_keyring(&with("/nonexistent/keys.gpg"), "noble").unwrap_err();
        assert_eq!(
            missing.to_string(),
            "the keys that packages of noble are signed with are missing: /nonexistent/keys.gpg; install some-keyring"
        );
        assert_eq!(missing.hint(), Some("it is over there"));
        assert!(check_keyring(&with("/proc/version"), "noble").is_ok());
    }
}
