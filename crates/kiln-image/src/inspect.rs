//! Looks into an image: what must not be there, and what must.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use kiln_cloud::Layers;
use kiln_distro::Family;
use kiln_site::{ServiceUser, services};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::disk::{ExportError, stacked};

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
    ("/var/lib/dbus/machine-id", "a machine id"),
    ("/var/lib/kiln/**", "the state of a node"),
    ("/var/lib/systemd/random-seed", "a seed of random numbers"),
    ("/var/log/**", "a log"),
    ("/etc/sudoers.d/90-cloud-init-users", "rights of a user of cloud-init's"),
];

/// Where addresses of package sources are.
const SOURCES: &[&str] = &["/etc/apt/**", "/etc/yum.repos.d/**", "/etc/dnf/**"];

/// Where somebody may have left a private key.
const KEY_PLACES: &[&str] = &["/etc/**", "/home/**", "/opt/**", "/root/**", "/srv/**", "/usr/local/etc/**"];
const PRIVATE_KEYS: [&[u8]; 2] = [b"PRIVATE KEY-----", b"PRIVATE KEY BLOCK-----"];

/// All that is wrong with an image of the local cloud.
pub async fn inspect(
    layers: &Layers,
    family: &'static Family,
    stop: &CancellationToken,
) -> Result<Vec<Fault>, ExportError> {
    stacked(layers, stop, move |root| faults_in(root, family)).await
}

/// All that is wrong with an image whose root file system is a directory of this machine. An error: there is none, or not all of it
/// can be read.
pub fn inspect_root(root: &Path, family: &Family) -> std::io::Result<Vec<Fault>> {
    fs::metadata(root.join("etc/passwd"))?;
    match fs::read_dir(root.join("root")) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(faults_in(root, family)),
    }
}

/// All that is wrong with the image whose root is here.
fn faults_in(root: &Path, family: &Family) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (pattern, what) in TRACES.iter().chain(family.traces) {
        faults.extend(find(root, pattern).iter().map(|path| fault(root, path, what)));
    }
    // What services leave is removed by the build: a file, or all that is in a directory.
    for leftover in services::leftovers() {
        let found = find(root, leftover);
        let left = found
            .iter()
            .flat_map(|path| if is_real_dir(path) { entries(path, "*") } else { vec![path.clone()] });
        faults.extend(left.map(|path| fault(root, &path, "left by the installation of a service")));
    }
    let keys = KEY_PLACES.iter().flat_map(|place| find(root, place)).filter(|path| has_private_key(path));
    faults.extend(keys.map(|path| fault(root, &path, "a private key")));
    let sources = SOURCES.iter().flat_map(|place| find(root, place)).filter(|path| has_password(path));
    faults.extend(sources.map(|path| fault(root, &path, "a password in an address")));
    if fs::read_to_string(root.join("etc/machine-id")).is_ok_and(|id| !id.trim().is_empty()) {
        faults.push(fault(root, &root.join("etc/machine-id"), "a machine id"));
    }
    faults.extend(enabled(root, family));
    faults.extend(missing(root));
    faults.sort();
    faults.dedup_by(|a, b| a.path == b.path);
    faults
}

fn fault(root: &Path, path: &Path, what: &'static str) -> Fault {
    let inside = path.strip_prefix(root).unwrap_or(path);
    Fault { path: format!("/{}", inside.display()), what }
}

/// Units that would start without the cluster they need.
fn enabled(root: &Path, family: &Family) -> Vec<Fault> {
    let (_, disabled) = services::units_of_image(family);
    let mut links = find(root, "/etc/systemd/system/*.wants/*");
    links.extend(find(root, "/etc/systemd/system/*.requires/*"));
    let is_disabled =
        |path: &&PathBuf| path.file_name().is_some_and(|name| disabled.iter().any(|unit| name == *unit));
    links
        .iter()
        .filter(is_disabled)
        .map(|path| fault(root, path, "a service that starts without its cluster"))
        .collect()
}

fn missing(root: &Path) -> Vec<Fault> {
    let lacks = |path: &str, what| Fault { path: path.to_string(), what };
    let mut faults = Vec::new();
    let passwd = fs::read_to_string(root.join("etc/passwd")).unwrap_or_default();
    let groups = fs::read_to_string(root.join("etc/group")).unwrap_or_default();
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
    if !fs::symlink_metadata(root.join("usr/local/bin/kiln")).is_ok_and(|data| data.is_file()) {
        faults.push(lacks("/usr/local/bin/kiln", "missing"));
    }
    for unit in ["kiln-identity.service", "kiln-node.service"] {
        if find(root, &format!("/etc/systemd/system/*.wants/{unit}")).is_empty() {
            faults.push(lacks(
                &format!("/etc/systemd/system/{unit}"),
                "not enabled: a node would not start as one",
            ));
        }
    }
    faults
}

/// `SCHEME://USER:PASSWORD@HOST`
fn has_password(path: &Path) -> bool {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let has_login = |address: &str| {
        let host = address.split(['/', ' ', '\t', '\n']).next().unwrap_or_default();
        host.split_once('@').is_some_and(|(login, _)| login.contains(':'))
    };
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .any(|line| line.split("://").skip(1).any(has_login))
}

fn has_private_key(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    read.is_ok() && PRIVATE_KEYS.iter().any(|mark| start.windows(mark.len()).any(|part| part == *mark))
}

/// What a pattern stands for. Symbolic links are not followed: they would lead out of the image.
fn find(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_path_buf()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        if part == "**" {
            return found.iter().flat_map(|dir| files(dir)).collect();
        }
        found = found.iter().flat_map(|dir| entries(dir, part)).collect();
    }
    found
}

fn is_real_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.is_dir())
}

fn entries(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    if !is_real_dir(dir) {
        return Vec::new();
    }
    let all = fs::read_dir(dir).into_iter().flatten().flatten();
    all.filter(|entry| matches(&entry.file_name().to_string_lossy(), pattern))
        .map(|entry| entry.path())
        .collect()
}

/// Files below a directory that hold something.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in entries(dir, "*") {
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_dir() => found.extend(files(&path)),
            Ok(data) if data.is_file() && data.len() > 0 => found.push(path),
            _ => {}
        }
    }
    found
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
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// An image that is as it should be.
    fn clean() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let users = ServiceUser::ALL.map(|user| format!("{}:x:{}:{}::/:/x\n", user.name, user.id, user.id));
        write(root.path(), "/etc/passwd", &users.concat());
        write(root.path(), "/etc/group", &users.concat());
        write(root.path(), "/etc/machine-id", "");
        write(root.path(), "/var/log/apt/history.log", "");
        write(root.path(), "/usr/local/bin/kiln", "kiln");
        for unit in ["kiln-identity.service", "kiln-node.service"] {
            write(root.path(), &format!("/etc/systemd/system/multi-user.target.wants/{unit}"), "");
        }
        fs::create_dir_all(root.path().join("var/lib/mysql")).unwrap();
        write(
            root.path(),
            "/etc/apt/sources.list",
            "# http://a:b@c\ndeb http://a.example.org/ bookworm main\n",
        );
        root
    }

    #[test]
    fn a_clean_image_is_clean() {
        assert_eq!(faults_in(clean().path(), Family::ALL[0]), []);
    }

    #[test]
    fn a_directory_without_a_system_is_refused() {
        let root = clean();
        assert_eq!(inspect_root(root.path(), Family::ALL[0]).unwrap(), []);
        fs::remove_file(root.path().join("etc/passwd")).unwrap();
        assert_eq!(inspect_root(root.path(), Family::ALL[0]).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn every_trace_is_found() {
        let root = clean();
        let left = [
            "/etc/apt/auth.conf.d/site.conf",
            "/etc/hostname",
            "/etc/machine-id",
            "/etc/munge/munge.key",
            "/etc/ssh/ssh_host_ed25519_key",
            "/etc/systemd/system/multi-user.target.wants/slurmd.service",
            "/home/debian/.ssh/authorized_keys",
            "/root/.bash_history",
            "/tmp/a/b",
            "/var/cache/apt/archives/a_1_all.deb",
            "/var/lib/apt/lists/some_Packages",
            "/var/log/apt/history.log",
        ];
        for path in left {
            write(root.path(), path, "x");
        }
        write(
            root.path(),
            "/etc/apt/sources.list.d/a.list",
            "deb https://me:word@a.example.org/ bookworm main\n",
        );
        write(root.path(), "/var/lib/mysql/empty", "");
        write(root.path(), "/etc/site/a.pem", "-----BEGIN RSA PRIVATE KEY-----\n");
        write(root.path(), "/etc/passwd", "munge:x:101:102::/:/x\n");
        let found: Vec<String> = faults_in(root.path(), Family::ALL[0]).into_iter().map(|f| f.path).collect();
        let users = ["kilnd", "munge", "mysql", "slurm"].map(|name| format!("/etc/passwd: {name}"));
        let mut wanted: Vec<String> = left.iter().map(ToString::to_string).chain(users).collect();
        wanted.extend(
            ["/etc/apt/sources.list.d/a.list", "/etc/site/a.pem", "/var/lib/mysql/empty"].map(String::from),
        );
        wanted.sort();
        assert_eq!(found, wanted);
    }

    #[test]
    fn patterns_match_whole_names() {
        assert!(matches("ssh_host_rsa_key.pub", "ssh_host_*") && matches(".bash_history", ".*_history"));
        assert!(!matches("history", ".*_history") && matches("a", "*") && !matches("ab", "a"));
    }
}
