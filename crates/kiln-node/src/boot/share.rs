//! Reaching the share, and this node's bundle on it: mounted read-only, retried with growing pauses, and as soon as its
//! server takes connections again.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_wire::bundle::MountSource;
use kiln_wire::{Applied, AppliedResult, Identity, publication};

use super::{BootError, BootOptions, host, say};
use crate::explain;
use crate::mounts::{self, NfsVersion, Source};
use crate::process;
use crate::state;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
const MOUNT_LIMIT: Duration = Duration::from_secs(60);
/// An outage of hours should not fill the journal.
const TELL_EVERY: Duration = Duration::from_secs(300);
const NFS_PORT: u16 = 2049;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reached {
    Bundle(PathBuf),
    /// The share is mounted but has no bundle for this node.
    NoBundle,
    /// A bundle was pushed over SSH in the meantime; waiting longer would only delay slurmd.
    ConfiguredMeanwhile,
}

pub(super) fn reach(options: &BootOptions, identity: &Identity) -> Result<Reached, BootError> {
    let start = Instant::now();
    let before = state::applied(&options.root);
    let path = publication::bundle_file(&options.share, &identity.node);
    let mut pause = FIRST_PAUSE;
    let mut told: Option<Instant> = None;
    let mut without_bundle: Option<Instant> = None;
    loop {
        let has = mount(options, identity).and_then(|()| look(options, &path));
        without_bundle = has.is_ok().then(|| without_bundle.unwrap_or_else(Instant::now));
        let is_over = |since: Instant, patience| since.elapsed() + pause > patience;
        match &has {
            Ok(Has::Bundle) => return Ok(Reached::Bundle(path)),
            // A share that was never written to is a cluster's first boot, and `configure` is on its way.
            Ok(Has::Nothing) => return Ok(Reached::NoBundle),
            Ok(Has::Others) if without_bundle.is_some_and(|at| is_over(at, options.bundle_patience)) => {
                return Ok(Reached::NoBundle);
            }
            Err(reason) if is_over(start, options.share_patience) => {
                let reason = reason.clone();
                return Err(BootError::Share { seconds: start.elapsed().as_secs(), reason });
            }
            Ok(Has::Others) | Err(_) => {}
        }
        if pause < LONGEST_PAUSE || told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            told = Some(Instant::now());
            let next = format!("next attempt in {} s", pause.as_secs());
            say(&match &has {
                Ok(_) => {
                    format!("the share has no bundle for this node, {next}; `kiln configure` puts it there")
                }
                Err(reason) => format!("the share is not reachable, {next}: {reason}"),
            });
        }
        let server = identity.share.as_ref().and_then(server).filter(|_| has.is_err());
        let was_open = server.is_some_and(is_open);
        let resume = Instant::now() + pause;
        while Instant::now() < resume {
            if was_configured(&options.root, identity, before.as_ref()) {
                return Ok(Reached::ConfiguredMeanwhile);
            }
            std::thread::sleep(Duration::from_millis(500));
            if !was_open && server.is_some_and(is_open) {
                break;
            }
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What the share has.
enum Has {
    Bundle,
    /// For other nodes.
    Others,
    Nothing,
}

/// A server that went away after the mount gives an error here: its share is not empty.
fn look(options: &BootOptions, path: &Path) -> Result<Has, String> {
    let is_there = || -> std::io::Result<Has> {
        if path.try_exists()? {
            return Ok(Has::Bundle);
        }
        Ok(if publication::is_begun(&options.share)? { Has::Others } else { Has::Nothing })
    };
    is_there().map_err(|error| {
        let_go(options);
        explain(&error)
    })
}

/// Where the server of the share takes connections, if it has an address.
fn server(share: &MountSource) -> Option<SocketAddr> {
    let MountSource::Nfs(export) = share else { return None };
    let (host, _) = export.rsplit_once(":/")?;
    let address: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
    Some((address, NFS_PORT).into())
}

fn is_open(server: SocketAddr) -> bool {
    TcpStream::connect_timeout(&server, Duration::from_secs(1)).is_ok()
}

/// A mount that fails to read may do so for good.
pub(super) fn let_go(options: &BootOptions) {
    if !host::is_live(&options.root) {
        return;
    }
    let _ = process::call(&["umount", "--lazy", &options.share.to_string_lossy()]);
}

fn was_configured(root: &Path, identity: &Identity, before: Option<&Applied>) -> bool {
    state::applied(root).is_some_and(|now| {
        Some(&now) != before && now.result == AppliedResult::Ok && now.node == identity.node
    })
}

fn mount(options: &BootOptions, identity: &Identity) -> Result<(), String> {
    let Some(wanted) = &identity.share else {
        return Err("the metadata names no share".into());
    };
    let target = options.share.to_string_lossy().into_owned();
    if !host::is_live(&options.root) {
        return if options.share.is_dir() { Ok(()) } else { Err(format!("there is no `{target}`")) };
    }
    if mounts::mounted_at(&target).map_err(|error| explain(&error))?.is_some() {
        return Ok(());
    }
    let source = mounts::find(wanted).map_err(|error| explain(&error))?;
    std::fs::create_dir_all(&options.share).map_err(|error| explain(&error))?;
    // A soft mount that does not retry: a server that is away must give an error here, not a hang.
    // Without a version, `mount` starts the services of version 3 when a server does not answer. Nobody locks on the share, so
    // version 3 does without them, too.
    let nfs = "ro,nosuid,nodev,vers=4,soft,timeo=100,retrans=3,retry=0";
    let nfs3 = "ro,nosuid,nodev,vers=3,proto=tcp,mountproto=tcp,nolock,soft,timeo=100,retrans=3,retry=0";
    let (kind, how, from) = match &source {
        Source::Directory(directory) => ("none", "bind,ro,nosuid,nodev", directory.to_string_lossy()),
        Source::Device(device) => ("auto", "ro,nosuid,nodev", device.to_string_lossy()),
        Source::Nfs { export, version: NfsVersion::Four } => ("nfs", nfs, export.as_str().into()),
        Source::Nfs { export, version: NfsVersion::Three } => ("nfs", nfs3, export.as_str().into()),
    };
    let argv = ["mount", "--types", kind, "--options", how, "--", &*from, &target];
    let output = process::run(&argv, None, MOUNT_LIMIT).and_then(process::Output::checked);
    output.map(|_| ()).map_err(|error| explain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_an_address_can_be_tried() {
        let tried = |export: &str| server(&MountSource::Nfs(export.into())).map(|at| at.to_string());
        assert_eq!(tried("10.0.0.2:/srv/kiln/share").as_deref(), Some("10.0.0.2:2049"));
        assert_eq!(tried("[fd00::2]:/srv/kiln/share").as_deref(), Some("[fd00::2]:2049"));
        // A name might take its time to be looked up; a volume has no server.
        assert_eq!(tried("control:/srv/kiln/share"), None);
        assert_eq!(server(&MountSource::Volume("demo-share".into())), None);
    }
}
