//! `kiln node boot`: what happens on a node at every boot, before slurmd.
//!
//! Exit points, in order: an image build stops after SSH works; a node whose user data is not Kiln's, or that
//! has no bundle yet, waits for `configure`; a control or login node that was configured before is ready; a
//! compute node applies its bundle from the share.

mod firewall;
mod host;
mod logins;
mod share;
mod try_again;
mod update;

pub use firewall::keep_metadata;
pub use try_again::try_again;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kiln_wire::{
    AppliedResult, ApplyReport, Bundle, Identity, Opened, Outcome, SealError, SecretText, paths,
};

use crate::apply::{ApplyError, ApplyOptions, Turn, apply};
use crate::metadata::{self, Metadata, MetadataError, Sources};
use crate::state;
use crate::tree::{Tree, TreeError};
use crate::{explain, process};

#[derive(Debug, Clone)]
pub struct BootOptions {
    /// `/` on a node. Below another root only files are touched.
    pub root: PathBuf,
    pub sources: Sources,
    /// For how long the metadata address may be silent after `kiln node identity` has given it up: the network comes back, be it
    /// after hours.
    pub identity_patience: Duration,
    /// Where the share is mounted.
    pub share: PathBuf,
    /// For how long the share may be unreachable: control comes back, be it after hours.
    pub share_patience: Duration,
    /// For how long it may have no bundle for this node, while it has some for others.
    pub bundle_patience: Duration,
    /// Take over the share's own `kiln` binary.
    pub update: bool,
}

impl Default for BootOptions {
    fn default() -> Self {
        BootOptions {
            root: "/".into(),
            sources: Sources::default(),
            identity_patience: Duration::MAX,
            share: paths::SHARE.into(),
            share_patience: Duration::MAX,
            bundle_patience: Duration::from_secs(600),
            update: true,
        }
    }
}

#[derive(Debug)]
pub enum BootOutcome {
    /// This instance builds an image.
    Build,
    /// The bundle was applied.
    Configured(ApplyReport),
    /// Configured earlier; its services start by themselves.
    AlreadyConfigured,
    WaitingForConfigure {
        reason: String,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error("cannot determine this node's identity")]
    Metadata(#[from] MetadataError),
    #[error("cannot prepare the host: {0}")]
    Host(String),
    #[error("cannot close the metadata address to users, who could read this node's keys there: {0}")]
    Firewall(String),
    #[error("the share was not reachable for {seconds} seconds: {reason}")]
    Share { seconds: u64, reason: String },
    #[error("cannot read the bundle")]
    ReadBundle(#[source] std::io::Error),
    #[error("the metadata gives no key to open the bundle")]
    NoSealKey,
    #[error("the metadata does not say whose bundles to accept; `kiln configure` does")]
    NoSenderKey,
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("{} of {} resources failed, the first: {}: {}", .0.count(Outcome::Failed), .0.resources.len(), first(.0).0, first(.0).1)]
    Apply(Box<ApplyReport>),
}

impl From<TreeError> for BootError {
    fn from(error: TreeError) -> Self {
        BootError::Host(explain(&error))
    }
}

fn first(report: &ApplyReport) -> (&str, &str) {
    report.with(Outcome::Failed).next().map_or(("", ""), |failed| (&failed.id, &failed.summary))
}

/// Goes to the journal and, where the unit says so, to the console.
pub(crate) fn say(words: &str) {
    eprintln!("kiln: {words}");
}

pub fn boot(options: &BootOptions) -> Result<BootOutcome, BootError> {
    let result = start(options);
    let ready = matches!(
        result,
        Ok(BootOutcome::Build | BootOutcome::Configured(_) | BootOutcome::AlreadyConfigured)
    );
    if !ready && host::is_live(&options.root) {
        hold_slurmd_back();
    }
    if let Ok(BootOutcome::WaitingForConfigure { reason }) = &result {
        say(&format!("waiting for `kiln configure`: {reason}"));
    }
    result
}

/// `kiln node identity`: the part of a boot that sshd waits for.
pub fn identify(options: &BootOptions) -> Result<(), BootError> {
    take_identity(options).map(|_| ())
}

/// Learns who this node is, takes that on, and closes the metadata to everyone but root.
fn take_identity(options: &BootOptions) -> Result<Metadata, BootError> {
    let tree = Tree::open(&options.root)?;
    let live = host::is_live(&options.root);
    let metadata = match metadata::read_from(&options.sources) {
        Ok(metadata) => metadata,
        Err(error) => {
            // An address that does not answer now may answer later.
            if live {
                firewall::close(metadata::Origin::ConfigDrive)?;
            }
            return Err(error.into());
        }
    };
    host::prepare(&tree, &options.root, &metadata)?;
    if live && !is_build(&metadata) {
        firewall::close(metadata.origin)?;
    }
    Ok(metadata)
}

/// Without a config drive only the network tells a node who it is, and that may come late.
fn await_identity(options: &BootOptions) -> Result<Metadata, BootError> {
    let start = Instant::now();
    loop {
        match take_identity(options) {
            Err(BootError::Metadata(error @ MetadataError::NoAnswer { .. }))
                if start.elapsed() < options.identity_patience =>
            {
                say(&format!("this node does not know yet who it is, and asks again: {}", explain(&error)));
            }
            outcome => return outcome,
        }
    }
}

fn is_build(metadata: &Metadata) -> bool {
    metadata.identity.as_ref().is_some_and(|identity| identity.build)
}

fn start(options: &BootOptions) -> Result<BootOutcome, BootError> {
    let tree = Tree::open(&options.root)?;
    let metadata = await_identity(options)?;
    if is_build(&metadata) {
        say("this instance builds an image; nothing more to do");
        return Ok(BootOutcome::Build);
    }
    let Metadata { identity: Some(identity), .. } = metadata else {
        return Ok(BootOutcome::WaitingForConfigure {
            reason: "the instance's user data is not Kiln's".into(),
        });
    };
    match (identity.role.as_str(), &identity.share) {
        ("compute", Some(_)) => from_share(options, &tree, &identity),
        _ => Ok(from_disk(options, &identity)),
    }
}

/// A node that is configured over SSH only.
fn from_disk(options: &BootOptions, identity: &Identity) -> BootOutcome {
    let waiting = |reason: &str| BootOutcome::WaitingForConfigure { reason: reason.into() };
    match state::applied(&options.root) {
        None => waiting("this node was never configured"),
        Some(applied) if applied.node != identity.node || applied.cluster != identity.cluster => {
            waiting("this node was configured as another node")
        }
        Some(applied) if applied.result == AppliedResult::Failed => waiting("the last configure failed"),
        Some(_) => BootOutcome::AlreadyConfigured,
    }
}

/// Jobs need what is mounted from elsewhere: as long as nothing else is missing, it is tried again, until somebody
/// has mended it here or there.
fn from_share(options: &BootOptions, tree: &Tree, identity: &Identity) -> Result<BootOutcome, BootError> {
    loop {
        let (bundle, report) = match apply_from_share(options, tree, identity) {
            Ok(Applied::Report(bundle, report)) => (bundle, report),
            Ok(Applied::Other(outcome)) => return Ok(outcome),
            // The server went away again.
            Err(BootError::ReadBundle(error)) if host::is_live(&options.root) => {
                let seconds = try_again::PAUSE.as_secs();
                say(&format!("cannot read the bundle, next attempt in {seconds} s: {}", explain(&error)));
                share::let_go(options);
                std::thread::sleep(try_again::PAUSE);
                continue;
            }
            Err(error) => return Err(error),
        };
        if report.ok() {
            return Ok(BootOutcome::Configured(report));
        }
        let missing = try_again::missing_mounts(&bundle, &report);
        if missing.is_empty() || !host::is_live(&options.root) {
            return Err(BootError::Apply(Box::new(report)));
        }
        say(&format!(
            "slurmd waits for {}; next attempt in {} s",
            missing.join(", "),
            try_again::PAUSE.as_secs()
        ));
        std::thread::sleep(try_again::PAUSE);
    }
}

enum Applied {
    Report(Bundle, ApplyReport),
    /// There was nothing to apply.
    Other(BootOutcome),
}

fn apply_from_share(options: &BootOptions, tree: &Tree, identity: &Identity) -> Result<Applied, BootError> {
    let path = match share::reach(options, identity)? {
        share::Reached::Bundle(path) => path,
        share::Reached::ConfiguredMeanwhile => {
            say("configured over SSH in the meantime");
            return Ok(Applied::Other(BootOutcome::AlreadyConfigured));
        }
        share::Reached::NoBundle => {
            let reason = "the share has no bundle for this node".into();
            return Ok(Applied::Other(BootOutcome::WaitingForConfigure { reason }));
        }
    };
    let sealed = std::fs::read(&path).map_err(BootError::ReadBundle)?;
    let given = identity.seal_key.as_ref().map(SecretText::expose_secret);
    let key: SecretText = rotated(tree, paths::SEAL_KEY, given)?.ok_or(BootError::NoSealKey)?.into();
    let sender = rotated(tree, paths::SENDER_KEY, identity.sender_key.as_deref())?;
    let sender = sender.ok_or(BootError::NoSenderKey)?;
    let opened = Opened::new(&sealed, &key, &sender)?;
    if options.update
        && let Some(digest) = opened.kiln()
    {
        update::adopt(&options.share, &digest);
    }
    let bundle = opened.bundle_for(&identity.cluster, &identity.node)?;
    let apply_options = ApplyOptions { root: options.root.clone(), ..ApplyOptions::default() };
    let report = apply(&bundle, &apply_options, &mut |step| {
        let Turn::Ended(report) = step else { return };
        match report.outcome {
            Outcome::Changed => say(&format!("{}: {}", report.id, report.summary)),
            Outcome::Failed => say(&format!("{} FAILED: {}", report.id, report.summary)),
            Outcome::Skipped => say(&format!("{} skipped: {}", report.id, report.summary)),
            Outcome::Unchanged => {}
        }
    });
    Ok(Applied::Report(bundle, report))
}

/// A key that `kiln configure` has put on the disk counts more than the one the instance was created with.
fn rotated(tree: &Tree, path: &str, given: Option<&str>) -> Result<Option<String>, TreeError> {
    let placed = tree.read(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(placed.or_else(|| given.map(str::to_owned)))
}

/// A node that is not ready must not take jobs, even if slurmd was enabled by an earlier configuration. The
/// unit's own start is still to come, and this cancels it.
fn hold_slurmd_back() {
    let argv = ["systemctl", "--no-block", "stop", "slurmd.service"];
    let _ = process::call(&argv);
}

impl From<ApplyError> for BootError {
    fn from(error: ApplyError) -> Self {
        BootError::Host(explain(&error))
    }
}

#[cfg(test)]
mod tests;
