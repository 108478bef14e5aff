//! Puts a backup back. Everything that can be wrong with it is found out, and all of it is laid ready beside the present
//! state, before a daemon is stopped; then only names change.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_slurm::Release;
use kiln_wire::backup::{BackupLoaded, DATABASE, DIRECTORY, SLURMCTLD, STORE, is_plain};
use kiln_wire::{BackupManifest, Version, paths};

use super::make::{Occasion, make};
use super::{BackupError, Result, cluster, database, directory, failed, release, settings, shelf, under_way};
use crate::{lock, process, systemd};

/// A unit and what shows that it works.
type Unit = (&'static str, &'static [&'static str]);

/// In the order in which they are started. A database of an older release is converted by slurmdbd when it starts.
const UNITS: [Unit; 3] = [
    ("slurmdbd.service", &["sacctmgr", "--noheader", "show", "cluster"]),
    ("slurmctld.service", &["scontrol", "ping"]),
    ("kilnd.service", &["systemctl", "is-active", "kilnd.service"]),
];
const PATIENCE: Duration = Duration::from_secs(1800);

/// Without slurmdbd where the site runs it; with the directory, whose users have the jobs, if it is put back.
fn units(manifest: &BackupManifest, with_directory: bool) -> Vec<Unit> {
    let slurm = if manifest.accounting.is_some() { &UNITS[1..] } else { &UNITS };
    with_directory.then_some(directory::UNIT).into_iter().chain(slurm.iter().copied()).collect()
}

/// The base of the directory that is to be put back: this cluster has one, and so has the backup.
fn directory_base(manifest: &BackupManifest) -> Result<Option<String>> {
    Ok(settings()?.directory_base.filter(|_| manifest.files.contains_key(DIRECTORY)))
}

pub fn load(name: &str, say: &dyn Fn(&str)) -> Result<BackupLoaded> {
    let _lock = lock::acquire_for_backup(Path::new("/"))?;
    // A bundle that is applied meanwhile would start what is stopped here.
    let _apply = lock::acquire(Path::new("/"))?;
    let path = find(name)?;
    say("checking the backup");
    let manifest = examine(name, &path)?;
    say("keeping what is there now");
    let before = match make(&Occasion::Replaced(name.to_owned())) {
        Ok(made) => Some(made.name),
        // A database that is damaged, and what was left half way, are reasons to restore.
        Err(error) => {
            say(&format!("what is there now cannot be kept: {}", crate::explain(&error)));
            None
        }
    };
    say("reading the backup");
    let base = directory_base(&manifest)?;
    let (staged, units) = (Staged::new(&path, &manifest, base.as_deref())?, units(&manifest, base.is_some()));
    let numbers = base.as_deref().and_then(crate::directory::next_number);
    let replaced = stop(&units, say).and_then(|()| staged.replace(name, &manifest));
    // Whatever happened: what was stopped is started, but for Slurm where the state is left half way.
    replaced.and_then(|()| start(&units, say)).inspect_err(|_| {
        for (unit, _) in &units {
            let _ = process::call(&["systemctl", "start", "--no-block", unit]);
        }
    })?;
    if let Some(base) = base {
        directory::after(&base, numbers, say);
    }
    Ok(BackupLoaded { format: Version, restored: name.to_owned(), before })
}

/// Puts a backup in the place of what is there, while no daemon runs and before one is started: on a control node that has
/// its volumes and its database, and that is not configured further yet. What is there is not kept.
pub fn put_back(path: &Path, say: &dyn Fn(&str)) -> Result<BackupLoaded> {
    let _lock = lock::acquire_for_backup(Path::new("/"))?;
    let _apply = lock::acquire(Path::new("/"))?;
    for (unit, _) in UNITS {
        if process::call(&["systemctl", "is-active", "--quiet", unit]).is_ok() {
            return Err(BackupError::Runs(unit));
        }
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    say("checking the backup");
    let manifest = BackupManifest::verified(path)
        .map_err(|source| BackupError::Damaged { name: name.clone(), source })?;
    check_release(&name, &manifest, release()?)?;
    say("reading the backup");
    // Its directory, if it has one, is not Slurm's: users who came since then stay.
    Staged::new(path, &manifest, None)?.replace(&name, &manifest)?;
    Ok(BackupLoaded { format: Version, restored: name, before: None })
}

fn find(name: &str) -> Result<PathBuf> {
    let path = shelf(&settings()?)?.path(name);
    if is_plain(name) && path.is_dir() { Ok(path) } else { Err(BackupError::Unknown(name.to_owned())) }
}

/// Whether it may be put back here.
fn examine(name: &str, path: &Path) -> Result<BackupManifest> {
    let manifest = BackupManifest::verified(path)
        .map_err(|source| BackupError::Damaged { name: name.to_owned(), source })?;
    check(name, &manifest)?;
    check_accounting(name, &manifest, settings()?.accounting.as_deref())?;
    check_release(name, &manifest, release()?)?;
    Ok(manifest)
}

/// Whether it is one of this cluster, with all that a restore needs.
pub(super) fn check(name: &str, manifest: &BackupManifest) -> Result<()> {
    let database = manifest.accounting.is_none().then_some(DATABASE);
    for file in database.into_iter().chain([SLURMCTLD]) {
        if !manifest.files.contains_key(file) {
            return Err(BackupError::Incomplete { name: name.to_owned(), file });
        }
    }
    check_cluster(name, manifest, &cluster()?)
}

fn check_cluster(name: &str, manifest: &BackupManifest, ours: &(String, Option<String>)) -> Result<()> {
    let shown = |cluster: &str, id: Option<&str>| match id {
        Some(id) => format!("{cluster} with the id {id}"),
        None => cluster.to_owned(),
    };
    let same = manifest.cluster == ours.0 && (manifest.cluster_id == ours.1 || ours.1.is_none());
    if same {
        return Ok(());
    }
    Err(BackupError::OtherCluster {
        name: name.to_owned(),
        theirs: shown(&manifest.cluster, manifest.cluster_id.as_deref()),
        ours: shown(&ours.0, ours.1.as_deref()),
    })
}

/// slurmctld's state has numbers of jobs and associations that only its database knows.
fn check_accounting(name: &str, manifest: &BackupManifest, ours: Option<&str>) -> Result<()> {
    let theirs = manifest.accounting.as_deref();
    if theirs == ours {
        return Ok(());
    }
    let shown =
        |host: Option<&str>| host.map_or_else(|| "of its own database".into(), |host| format!("at {host}"));
    Err(BackupError::OtherAccounting { name: name.to_owned(), theirs: shown(theirs), ours: shown(ours) })
}

fn check_release(name: &str, manifest: &BackupManifest, ours: Release) -> Result<()> {
    match manifest.slurm.parse::<Release>() {
        Ok(theirs) if ours.can_convert(theirs) => Ok(()),
        _ => Err(BackupError::Release { name: name.to_owned(), theirs: manifest.slurm.clone(), ours }),
    }
}

/// The content of a backup, beside what it is to replace.
struct Staged {
    state: PathBuf,
    store: Option<PathBuf>,
    database: bool,
    /// The directory is read from its file, while its server is stopped.
    directory: bool,
}

impl Staged {
    fn new(backup: &Path, manifest: &BackupManifest, base: Option<&str>) -> Result<Staged> {
        under_way::take_back(Path::new(paths::SLURMCTLD_STATE))?;
        let state = PathBuf::from(format!("{}.restore", paths::SLURMCTLD_STATE));
        remove(&state)?;
        fs::create_dir(&state).map_err(failed("make", &state))?;
        let (from, to) = (backup.join(SLURMCTLD), state.to_string_lossy().into_owned());
        let from = from.to_string_lossy();
        let argv = ["tar", "--extract", "--gzip", "--no-same-owner", "--file", &from, "--directory", &to];
        process::run(&argv, None, Duration::from_secs(3600))?.checked()?;
        own_as(&to, paths::SLURMCTLD_STATE)?;
        process::call(&["chmod", "--recursive", "u=rwX,go=", &to])?;
        let store = match backup.join(STORE) {
            saved if saved.exists() => {
                let store = PathBuf::from(format!("{}.restore", paths::STORE));
                fs::copy(&saved, &store).map_err(failed("copy", &saved))?;
                own_as(&store.to_string_lossy(), paths::STORE_DIRECTORY)?;
                Some(store)
            }
            _ => None,
        };
        let database = manifest.accounting.is_none();
        if database {
            database::stage(&backup.join(DATABASE))?;
        }
        if let Some(base) = base {
            directory::stage(&manifest.name, &backup.join(DIRECTORY), base)?;
        }
        Ok(Staged { state, store, database, directory: base.is_some() })
    }

    /// No daemon runs.
    fn replace(self, backup: &str, manifest: &BackupManifest) -> Result<()> {
        let note = Path::new(paths::RESTORING);
        under_way::begin(note, backup)?;
        self.swap()?;
        super::set_state_id(&manifest.state_id)?;
        under_way::end(note)
    }

    fn swap(self) -> Result<()> {
        let state = Path::new(paths::SLURMCTLD_STATE);
        let old = under_way::aside(state);
        if self.database {
            database::swap()?;
        }
        remove(&old)?;
        fs::rename(state, &old).map_err(failed("replace", state))?;
        fs::rename(&self.state, state).map_err(failed("replace", state))?;
        if let Some(store) = &self.store {
            for log in ["-wal", "-shm"] {
                let log = PathBuf::from(format!("{}{log}", paths::STORE));
                if log.exists() {
                    fs::remove_file(&log).map_err(failed("delete", &log))?;
                }
            }
            fs::rename(store, paths::STORE).map_err(failed("replace", Path::new(paths::STORE)))?;
        }
        if self.directory {
            directory::swap()?;
        }
        rustix::fs::sync();
        remove(&old)
    }
}

/// Whoever owns the one shall own the other, with all that is in it.
fn own_as(path: &str, other: &str) -> Result<()> {
    let reference = format!("--reference={other}");
    process::call(&["chown", "--recursive", "--no-dereference", &reference, path])?;
    Ok(())
}

fn remove(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(failed("delete", directory))?;
    }
    Ok(())
}

/// slurmctld writes down what it knows when it is stopped, so it must be down before its state is replaced.
fn stop(units: &[Unit], say: &dyn Fn(&str)) -> Result<()> {
    for (unit, _) in units.iter().rev() {
        say(&format!("stopping {unit}"));
        process::run(&["systemctl", "stop", unit], None, PATIENCE)?.checked()?;
    }
    Ok(())
}

fn start(units: &[Unit], say: &dyn Fn(&str)) -> Result<()> {
    for &(unit, answers) in units {
        say(&format!("starting {unit}"));
        process::run(&["systemctl", "start", unit], None, PATIENCE)?.checked()?;
        let begin = Instant::now();
        while !process::run(answers, None, Duration::from_secs(30)).is_ok_and(|output| output.success()) {
            let state = systemd::show(&[unit.to_owned()])?;
            let has_failed = state.get(unit).is_some_and(|state| state.active == "failed");
            if has_failed || begin.elapsed() > PATIENCE {
                return Err(BackupError::Unit { unit, journal: format!("\n{}", systemd::journal(unit)) });
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::shelf::tests::backup;
    use super::*;

    #[test]
    fn only_backups_of_this_cluster_are_taken() {
        let of = |id: Option<&str>| BackupManifest { cluster_id: id.map(String::from), ..backup(1, true) };
        let check = |id: Option<&str>, cluster: &str, ours: Option<&str>| {
            check_cluster("b1", &of(id), &(cluster.to_owned(), ours.map(String::from)))
                .map_err(|error| error.to_string())
        };
        assert_eq!(check(Some("1"), "demo", Some("1")), Ok(()));
        assert_eq!(
            check(Some("1"), "demo", Some("2")),
            Err("the backup b1 is of the cluster demo with the id 1, not of demo with the id 2".into())
        );
        assert!(check(None, "demo", Some("2")).is_err());
        assert!(check(Some("1"), "other", Some("1")).is_err());
    }

    #[test]
    fn a_backup_stays_with_its_accounts() {
        let check = |theirs: Option<&str>, ours: Option<&str>| {
            let manifest = BackupManifest { accounting: theirs.map(String::from), ..backup(1, true) };
            check_accounting("b1", &manifest, ours).map_err(|error| error.to_string())
        };
        assert_eq!(check(None, None), Ok(()));
        assert_eq!(check(Some("dbd"), Some("dbd")), Ok(()));
        assert_eq!(
            check(None, Some("dbd")),
            Err(
                "the backup b1 belongs to the accounts of its own database, and this cluster to those at dbd"
                    .into()
            )
        );
        assert!(check(Some("dbd"), None).is_err() && check(Some("dbd"), Some("other")).is_err());
    }

    #[test]
    fn a_newer_slurm_is_not_read_by_an_older_one() {
        let check = |theirs: &str, ours: Release| {
            check_release("b1", &BackupManifest { slurm: theirs.into(), ..backup(1, true) }, ours)
                .map_err(|error| error.to_string())
        };
        let (old, new) = (Release::new(22, 5, 8), Release::new(24, 11, 5));
        assert_eq!(check("22.05.8", old), Ok(()));
        assert_eq!(check("22.05.9", old), Ok(()), "what is written is the same");
        assert_eq!(check("23.11.4", new), Ok(()), "it is converted");
        assert_eq!(
            check("24.11.5", old),
            Err("the backup b1 was made with Slurm 24.11.5, which Slurm 22.05.8 on this node cannot read"
                .into())
        );
        assert!(check("22.05.8", new).is_err(), "too far");
        assert!(check("", old).is_err());
    }
}
