//! Looks into an image: what must not be there, and what must.

mod disk;
mod download;
mod tree;

use std::path::{Path, PathBuf};
use std::{fs, io};

use kiln_cloud::Layers;
use kiln_distro::Family;
use kiln_site::{ServiceUser, services, software};
use kiln_spec::Software;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::disk::{ExportError, stacked};
pub use download::{inspect_disk, work_dir};
use tree::{Directory, Kind, Tree};

/// Something in an image that should not be there, or is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// In the image.
    pub path: String,
    pub what: &'static str,
}

/// Of every family: patterns, and what it means if something is there. `*` stands for any part of a name, `**` at the
/// end for every file below.
const TRACES: &[(&str, &str)] = &[
    ("/etc/hostname", "the name of the build instance"),
    ("/etc/ssh/ssh_host_*", "an SSH host key"),
    ("/home/*/.ssh/*", "SSH keys of a user"),
    ("/home/*/.*_history", "a history of commands"),
    ("/root/.*_history", "a history of commands"),
    ("/root/.ssh/*", "SSH keys of root"),
    ("/tmp/**", "a temporary file"),
    ("/var/tmp/**", "a temporary file"),
    ("/usr/sbin/policy-rc.d", "a build's ban on starting services"),
    ("/var/lib/cloud/instance*/**", "what cloud-init was told"),
    ("/var/lib/NetworkManager/*.lease", "an address of the build instance"),
    ("/var/lib/NetworkManager/secret_key", "a secret of the build instance"),
    ("/var/lib/dbus/machine-id", "a machine id"),
    ("/var/lib/dhclient/*.lease*", "an address of the build instance"),
    ("/var/lib/dhcp/*.leases", "an address of the build instance"),
    ("/var/lib/kiln/**", "the state of a node"),
    ("/var/lib/systemd/credential.secret", "a secret of the build instance"),
    ("/var/lib/systemd/random-seed", "a seed of random numbers"),
    ("/var/log/**", "a log"),
    ("/etc/sudoers.d/90-cloud-init-users", "rights of a user of cloud-init's"),
];

const STARTS: &str = "a service that starts without its cluster";

/// Where addresses of package sources are.
const SOURCES: &[&str] = &["/etc/apt/**", "/etc/yum.repos.d/**", "/etc/dnf/**"];

/// Where somebody may have left a private key.
const KEY_PLACES: &[&str] = &["/etc/**", "/home/**", "/opt/**", "/root/**", "/srv/**", "/usr/local/etc/**"];
/// Of what is read as text. No list of users or of package sources is as long.
const LONGEST_TEXT: u64 = 16 << 20;
const PRIVATE_KEYS: [&[u8]; 2] = [b"PRIVATE KEY-----", b"PRIVATE KEY BLOCK-----"];

#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error(transparent)]
    Cloud(#[from] kiln_cloud::Error),
    #[error("{} cannot be used", dir.display())]
    NoWorkDir {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} has {} MiB free; the image needs {} MiB", dir.display(), free >> 20, needed.div_ceil(1 << 20))]
    NoRoom { dir: PathBuf, free: u64, needed: u64 },
    #[error("no ext4 file system of the image has a system on it{}", instead.map(|name| format!("; there is one of {name}")).unwrap_or_default())]
    NoSystem { instead: Option<&'static str> },
    #[error("the image cannot be read")]
    Unreadable(#[source] io::Error),
}

impl InspectError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            InspectError::Export(error) => error.hint(),
            InspectError::Cloud(error) => error.hint().map(String::from),
            InspectError::NoWorkDir { .. } | InspectError::NoRoom { .. } => {
                Some("`TMPDIR` names another directory".into())
            }
            InspectError::NoSystem { .. } => Some(
                "download the image, mount its root read-only, and name the directory with `--root`".into(),
            ),
            InspectError::Unreadable(_) => None,
        }
    }
}

/// All that is wrong with an image of the local cloud.
pub async fn inspect(
    layers: &Layers,
    family: &'static Family,
    stop: &CancellationToken,
) -> Result<Vec<Fault>, InspectError> {
    let faults = stacked(layers, stop, move |root| faults_in(&Directory(root), family)).await?;
    faults.map_err(InspectError::Unreadable)
}

/// All that is wrong with an image whose root file system is a directory of this machine. An error: there is none, or not all of it
/// can be read.
pub fn inspect_root(root: &Path, family: &Family) -> io::Result<Vec<Fault>> {
    fs::metadata(root.join("etc/passwd"))?;
    faults_in(&Directory(root), family)
}

/// All that is wrong with the image that is this tree.
fn faults_in(tree: &dyn Tree, family: &Family) -> io::Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for (pattern, what) in TRACES.iter().chain(family.traces) {
        faults.extend(find(tree, pattern)?.iter().map(|path| fault(path, what)));
    }
    // What services leave is removed by the build: a file, or all that is in a directory.
    for leftover in services::leftovers() {
        for path in find(tree, leftover)? {
            let left = if is_directory(tree, &path)? { entries(tree, &path, "*")? } else { vec![path] };
            faults.extend(left.iter().map(|path| fault(path, "left by the installation of a service")));
        }
    }
    for path in find_all(tree, KEY_PLACES)? {
        if has_private_key(tree, &path)? {
            faults.push(fault(&path, "a private key"));
        }
    }
    for path in find_all(tree, SOURCES)? {
        if has_password(&text(tree, &path)?) {
            faults.push(fault(&path, "a password in an address"));
        }
    }
    let machine_id = Path::new("/etc/machine-id");
    if !text(tree, machine_id)?.trim().is_empty() {
        faults.push(fault(machine_id, "a machine id"));
    }
    faults.extend(enabled(tree, family)?);
    faults.extend(missing(tree)?);
    faults.sort();
    faults.dedup_by(|a, b| a.path == b.path);
    Ok(faults)
}

fn fault(path: &Path, what: &'static str) -> Fault {
    Fault { path: path.display().to_string(), what }
}

/// Units that would start without the cluster they need.
fn enabled(tree: &dyn Tree, family: &Family) -> io::Result<Vec<Fault>> {
    let (_, mut disabled) = services::units_of_image(family);
    disabled.extend(Software::ALL.into_iter().flat_map(|set| software::units(set, family)));
    let mut faults = Vec::new();
    for link in find_all(tree, &["/etc/systemd/system/*.wants/*", "/etc/systemd/system/*.requires/*"])? {
        if disabled.iter().any(|unit| link.file_name().is_some_and(|name| name == *unit)) {
            faults.push(fault(&link, STARTS));
        }
    }
    // Scripts of old: S01NAME. systemd passes over one that has a unit.
    for link in find_all(tree, &["/etc/rc2.d/S*", "/etc/rc3.d/S*", "/etc/rc4.d/S*", "/etc/rc5.d/S*"])? {
        let name = link.file_name().unwrap_or_default().to_string_lossy();
        let unit = format!(
            "{}.service",
            name.trim_start_matches('S').trim_start_matches(|c: char| c.is_ascii_digit())
        );
        if disabled.contains(&unit.as_str())
            && kind(tree, &Path::new("/usr/lib/systemd/system").join(&unit))?.is_none()
        {
            faults.push(fault(&link, STARTS));
        }
    }
    Ok(faults)
}

fn missing(tree: &dyn Tree) -> io::Result<Vec<Fault>> {
    let lacks = |path: &str, what| Fault { path: path.to_string(), what };
    let mut faults = Vec::new();
    let passwd = text(tree, Path::new("/etc/passwd"))?;
    let groups = text(tree, Path::new("/etc/group"))?;
    for user in ServiceUser::ALL {
        let fields = |text: &str, count: usize| {
            let line = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
            let own = line.into_iter().find(|fields| fields[0] == user.name);
            own.is_some_and(|fields| {
                fields.len() > 1 + count && fields[2..2 + count].iter().all(|id| *id == user.id.to_string())
            })
        };
        if !fields(&passwd, 2) || !fields(&groups, 1) {
            faults.push(lacks(&format!("/etc/passwd: {}", user.name), "not there with its fixed number"));
        }
    }
    let kiln = "/usr/local/bin/kiln";
    if !matches!(kind(tree, Path::new(kiln))?, Some(Kind::File { .. })) {
        faults.push(lacks(kiln, "missing"));
    }
    for unit in ["kiln-identity.service", "kiln-node.service"] {
        if find(tree, &format!("/etc/systemd/system/*.wants/{unit}"))?.is_empty() {
            faults.push(lacks(
                &format!("/etc/systemd/system/{unit}"),
                "not enabled: a node would not start as one",
            ));
        }
    }
    Ok(faults)
}

/// `SCHEME://USER:PASSWORD@HOST`
fn has_password(text: &str) -> bool {
    let has_login = |address: &str| {
        let host = address.split(['/', ' ', '\t', '\n']).next().unwrap_or_default();
        host.split_once('@').is_some_and(|(login, _)| login.contains(':'))
    };
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .any(|line| line.split("://").skip(1).any(has_login))
}

fn has_private_key(tree: &dyn Tree, path: &Path) -> io::Result<bool> {
    let start = tree.read(path, 4096).map_err(of(path))?;
    Ok(PRIVATE_KEYS.iter().any(|mark| start.windows(mark.len()).any(|part| part == *mark)))
}

/// The content of a file; empty where there is none.
fn text(tree: &dyn Tree, path: &Path) -> io::Result<String> {
    match kind(tree, path)? {
        Some(Kind::File { .. }) => {
            let content = tree.read(path, LONGEST_TEXT).map_err(of(path))?;
            Ok(String::from_utf8_lossy(&content).into_owned())
        }
        _ => Ok(String::new()),
    }
}

fn kind(tree: &dyn Tree, path: &Path) -> io::Result<Option<Kind>> {
    tree.kind(path).map_err(of(path))
}

fn is_directory(tree: &dyn Tree, path: &Path) -> io::Result<bool> {
    Ok(kind(tree, path)? == Some(Kind::Directory))
}

/// Says where an error is.
fn of(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn find_all(tree: &dyn Tree, patterns: &[&str]) -> io::Result<Vec<PathBuf>> {
    let found: io::Result<Vec<Vec<PathBuf>>> = patterns.iter().map(|pattern| find(tree, pattern)).collect();
    Ok(found?.concat())
}

/// What a pattern stands for.
fn find(tree: &dyn Tree, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for dir in &found {
            next.extend(if part == "**" { files(tree, dir)? } else { entries(tree, dir, part)? });
        }
        found = next;
    }
    Ok(found)
}

fn entries(tree: &dyn Tree, dir: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    if !is_directory(tree, dir)? {
        return Ok(Vec::new());
    }
    let mut names = tree.names(dir).map_err(of(dir))?;
    names.retain(|name| matches(&name.to_string_lossy(), pattern));
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// Files below a directory that hold something.
fn files(tree: &dyn Tree, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(tree, dir, "*")? {
        match kind(tree, &path)? {
            Some(Kind::Directory) => found.extend(files(tree, &path)?),
            Some(Kind::File { bytes }) if bytes > 0 => found.push(path),
            _ => {}
        }
    }
    Ok(found)
}

fn matches(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests;
