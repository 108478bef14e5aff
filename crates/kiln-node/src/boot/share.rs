//! Reaching the share, and this node's bundle on it: mounted read-only, retried with growing pauses until
//! the limit.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_wire::{Applied, AppliedResult, Identity, publication};

use super::{BootError, BootOptions, host, say};
use crate::explain;
use crate::mounts::{self, NfsVersion, Source};
use crate::process;
use crate::state;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
const MOUNT_LIMIT: Duration = Duration::from_secs(60);

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
    let mut pause = FIRST_PAUSE;
    loop {
        let path = publication::bundle_file(&options.share, &identity.node);
        let mounted = mount(options, identity);
        if mounted.is_ok() && path.exists() {
            return Ok(Reached::Bundle(path));
        }
        // A share that was never written to is a cluster's first boot, and `configure` is on its way.
        let first = mounted.is_ok() && !publication::is_begun(&options.share);
        if first || start.elapsed() + pause > options.share_patience {
            return match mounted {
                Ok(()) => Ok(Reached::NoBundle),
                Err(reason) => Err(BootError::Share { seconds: start.elapsed().as_secs(), reason }),
            };
        }
        let next = format!("next attempt in {} s", pause.as_secs());
        say(&match mounted {
            Ok(()) => {
                format!("the share has no bundle for this node, {next}; `kiln configure` puts it there")
            }
            Err(reason) => format!("the share is not reachable, {next}: {reason}"),
        });
        let resume = Instant::now() + pause;
        while Instant::now() < resume {
            if was_configured(&options.root, identity, before.as_ref()) {
                return Ok(Reached::ConfiguredMeanwhile);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
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
