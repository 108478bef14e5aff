//! Backups of the control node: the accounting database, slurmctld's state, the accounts as text, the directory of users,
//! kilnd's store. `make`
//! writes one, `load` puts one back, `shelf` is the directory that holds them. No secret is in a backup, only fingerprints.

mod check;
mod copy;
mod database;
mod directory;
mod load;
mod make;
mod receive;
mod shelf;
mod under_way;

use std::io;
use std::path::{Path, PathBuf};

use kiln_slurm::Release;
use kiln_wire::backup::BackupDamage;
use kiln_wire::{BackupList, BackupSettings, FleetFile, Format as _, Version, paths};

use crate::lock::LockError;
use crate::mounts;
use crate::process::{self, ProcessError};
use shelf::Shelf;

pub use check::problem;
pub use load::{load, put_back};
pub use make::{Occasion, now};
pub use receive::receive;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot {doing} {path}")]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("this is not a control node that `kiln configure` has configured: {0}")]
    NotControl(String),
    #[error("{path} cannot be understood")]
    Settings { path: PathBuf, source: kiln_wire::ReadError },
    #[error("the volume for backups is not mounted at {0}")]
    NotMounted(PathBuf),
    #[error("there is no directory {0} for backups")]
    NoDirectory(PathBuf),
    #[error("{directory} has room for {free} MiB, and the last backup took {last} MiB")]
    NoRoom { directory: PathBuf, free: u64, last: u64 },
    #[error(
        "the state of this cluster started empty after the backup {0}, which may be the one that is wanted"
    )]
    LeftBehind(String),
    #[error("a restore of the backup {0} was cut off: accounting and the queue may be of different times")]
    CutOff(String),
    #[error("there is no backup {0}")]
    Unknown(String),
    #[error("the backup {name} is damaged")]
    Damaged { name: String, source: BackupDamage },
    #[error("there is a backup {0} already")]
    Exists(String),
    #[error("the backup {name} is not whole: it has no {file}")]
    Incomplete { name: String, file: &'static str },
    #[error("the backup {name} is of the cluster {theirs}, not of {ours}")]
    OtherCluster { name: String, theirs: String, ours: String },
    #[error("the backup {name} was made with Slurm {theirs}, which Slurm {ours} on this node cannot read")]
    Release { name: String, theirs: String, ours: Release },
    #[error("the backup {name} belongs to the accounts {theirs}, and this cluster to those {ours}")]
    OtherAccounting { name: String, theirs: String, ours: String },
    #[error("this node's Slurm is not known: {0}")]
    NoSlurm(String),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{0} runs, and would write over what is put back")]
    Runs(&'static str),
    #[error("the directory of users cannot be written down")]
    Directory(#[source] ProcessError),
    #[error("the directory in the backup {name} is not that of {base}")]
    OtherDirectory { name: String, base: String },
    #[error("kilnd's store")]
    Store(#[from] rusqlite::Error),
    #[error("{unit} does not come up{journal}")]
    Unit { unit: &'static str, journal: String },
}

pub type Result<T> = std::result::Result<T, BackupError>;

impl BackupError {
    /// A program that was asked, such as that of the database, did not do it.
    fn is_of_a_program(&self) -> bool {
        matches!(self, BackupError::Process(_) | BackupError::Directory(_))
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            BackupError::LeftBehind(_) => {
                Some("`kiln restore` puts it back; `kiln backup now` keeps the new state instead")
            }
            BackupError::CutOff(_) => Some("Slurm stays off until `kiln restore` has put a backup back"),
            BackupError::OtherAccounting { .. } => Some(
                "slurmctld counts jobs and usage by its database; docs/backup.md says what can be taken from such a backup",
            ),
            BackupError::Unknown(_) => Some("`kiln backup list` shows those that there are"),
            BackupError::Damaged { .. } | BackupError::Incomplete { .. } => {
                Some("nothing was changed; `kiln backup list` shows the others")
            }
            BackupError::NoRoom { .. } => {
                Some("make the volume larger, or keep fewer backups: `keep` in the table [backup]")
            }
            BackupError::Directory(_) => {
                Some("`systemctl status dirsrv@kiln` on the control node says how the directory server is")
            }
            BackupError::OtherDirectory { .. } => Some(
                "nothing was changed; put the old `base` into [directory], or the file of the backup back by hand",
            ),
            BackupError::NotControl(_) => Some("run it on the control node"),
            _ => None,
        }
    }
}

/// An error, where a restore was cut off.
fn check_whole() -> Result<()> {
    match under_way::cut_off(Path::new(paths::RESTORING)) {
        Some(name) => Err(BackupError::CutOff(name)),
        None => Ok(()),
    }
}

/// For `map_err`: what was being done to which file.
fn failed<'a>(doing: &'static str, path: &'a Path) -> impl Fn(io::Error) -> BackupError + 'a {
    move |source| BackupError::File { doing, path: path.to_path_buf(), source }
}

/// What `kiln configure` has told this node. A node that it has told nothing of backups yet keeps them beside the state.
fn settings() -> Result<BackupSettings> {
    let path = Path::new(paths::BACKUP_SETTINGS);
    match std::fs::read(path) {
        Ok(json) => BackupSettings::from_json(&json)
            .map_err(|source| BackupError::Settings { path: path.to_path_buf(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BackupSettings {
            format: Version,
            directory: paths::BACKUPS_BESIDE_STATE.into(),
            mount: None,
            keep: 14,
            interval: 24 * 60 * 60,
            secrets: std::collections::BTreeMap::new(),
            accounting: None,
            directory_base: None,
        }),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// The directory of the backups, which must be the right one: on a volume that is not mounted nothing would outlive the
/// node.
fn shelf(settings: &BackupSettings) -> Result<Shelf> {
    if let Some(mount) = &settings.mount {
        let mounted = mounts::mounted_at(&mount.to_string_lossy()).map_err(failed("look at", mount))?;
        if mounted.is_none() {
            return Err(BackupError::NotMounted(mount.clone()));
        }
    }
    let directory = &settings.directory;
    if directory == Path::new(paths::BACKUPS_BESIDE_STATE) {
        std::fs::create_dir_all(directory).map_err(failed("make", directory))?;
    }
    if !directory.is_dir() {
        return Err(BackupError::NoDirectory(directory.clone()));
    }
    Ok(Shelf::new(directory.clone()))
}

/// The cluster's name and its id.
fn cluster() -> Result<(String, Option<String>)> {
    let fleet = FleetFile::read(Path::new(paths::FLEET_FILE));
    fleet.map(|f| (f.cluster, f.cluster_id)).map_err(|e| BackupError::NotControl(crate::explain(&e)))
}

fn release() -> Result<Release> {
    let output = process::call(&["slurmctld", "-V"])?;
    Release::from_version_line(&output.stdout).map_err(|error| BackupError::NoSlurm(error.to_string()))
}

/// The name of the present state; `None`: it has none yet.
fn state_id() -> Option<String> {
    let text = std::fs::read_to_string(paths::STATE_ID).ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

fn set_state_id(id: &str) -> Result<()> {
    let path = Path::new(paths::STATE_ID);
    let new = path.with_extension("new");
    std::fs::write(&new, format!("{id}\n")).map_err(failed("write", &new))?;
    std::fs::rename(&new, path).map_err(failed("write", path))
}

pub fn list() -> Result<BackupList> {
    let shelf = shelf(&settings()?)?;
    let (backups, unreadable) = shelf.list()?;
    Ok(BackupList {
        format: Version,
        left_behind: shelf::left_behind(&backups, state_id().as_deref()).map(String::from),
        directory: shelf.directory,
        backups,
        unreadable,
    })
}
