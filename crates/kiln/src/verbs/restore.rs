//! `kiln restore`

use anyhow::anyhow;
use clap::Args;
use kiln_wire::backup::DIRECTORY;
use kiln_wire::{BackupList, BackupManifest};

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Put a backup back: accounting, the queue of jobs, the directory of users, kilnd's store
///
/// Slurm's daemons stop meanwhile. What is there now is kept as a backup first. A backup that is damaged, of another cluster or of a Slurm that
/// this one cannot read is refused, and nothing changes.
#[derive(Debug, Args)]
pub struct Restore {
    /// A backup of `kiln backup list`; without a name, the newest
    name: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl Restore {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let loaded = cluster::with(context, async |deployment| {
            let backups = deployment.backups().await?;
            let list = backups.list().await?;
            let chosen = choose(&list, self.name.as_deref())?;
            let jobs = backups.jobs_in_queue().await;
            cluster::confirm(context, self.yes, &question(&deployment.spec.name, chosen, jobs))?;
            Ok(backups.load(&chosen.name).await?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&loaded)?;
            return Ok(Exit::Ok);
        }
        let before = loaded.before.map(|name| format!("; what was there before is the backup {name}"));
        context.printer.say(format!("{} is restored{}", loaded.restored, before.unwrap_or_default()));
        Ok(Exit::Ok)
    }
}

/// What an earlier restore has replaced is taken only by its name.
fn choose<'a>(list: &'a BackupList, name: Option<&str>) -> anyhow::Result<&'a BackupManifest> {
    let chosen = match name {
        Some(name) => list.backups.iter().find(|backup| backup.name == name),
        None => list.backups.iter().find(|backup| !backup.replaced),
    };
    let missing = || match name {
        Some(name) if list.unreadable.iter().any(|other| other == name) => {
            anyhow!("the backup {name} is damaged: its manifest cannot be read")
        }
        Some(name) => anyhow!("there is no backup {name}"),
        None => anyhow!("there is no backup"),
    };
    let chosen = chosen.ok_or_else(missing);
    match chosen {
        Err(error) => Err(error)
            .exit(Exit::Usage)
            .hint("`kiln backup list` shows those on the control node, `kiln backup put` brings one there"),
        chosen => chosen,
    }
}

fn question(cluster: &str, backup: &BackupManifest, jobs: Option<usize>) -> String {
    let queue = match jobs {
        Some(0) => "the empty queue".to_owned(),
        Some(1) => "the queue with the one job that is in it now".to_owned(),
        Some(n) => format!("the queue with the {n} jobs that are in it now"),
        None => "the queue".to_owned(),
    };
    let has_directory = backup.files.contains_key(DIRECTORY);
    let (directory, users) =
        if has_directory { (", the directory of users", " and users") } else { ("", "") };
    format!(
        "Replacing the accounting database of cluster {cluster}, {queue}{directory} and kilnd's store by the backup {} ({}); \
         jobs{users} that came after it are lost",
        backup.name, backup.reason
    )
}

#[cfg(test)]
mod tests {
    use kiln_wire::Version;
    use kiln_wire::backup::BackupFile;

    use super::*;

    fn backup(name: &str, replaced: bool) -> BackupManifest {
        BackupManifest {
            name: name.into(),
            reason: "scheduled".into(),
            replaced,
            slurm: "22.05.8".into(),
            ..BackupManifest::default()
        }
    }

    #[test]
    fn the_newest_that_no_restore_has_replaced_is_chosen() {
        let list = BackupList {
            format: Version,
            directory: "/b".into(),
            backups: vec![backup("c", true), backup("b", false), backup("a", false)],
            unreadable: vec!["odd".into()],
            left_behind: None,
        };
        let chosen = |name| choose(&list, name).map(|b| b.name.clone()).map_err(|e| e.to_string());
        assert_eq!(chosen(None), Ok("b".into()));
        assert_eq!(chosen(Some("c")), Ok("c".into()));
        assert_eq!(chosen(Some("x")), Err("there is no backup x".into()));
        assert_eq!(chosen(Some("odd")), Err("the backup odd is damaged: its manifest cannot be read".into()));
    }

    #[test]
    fn the_question_names_what_is_lost() {
        let asked = |jobs| question("demo", &backup("b", false), jobs);
        assert_eq!(
            asked(Some(3)),
            "Replacing the accounting database of cluster demo, the queue with the 3 jobs that are in it now and \
             kilnd's store by the backup b (scheduled); jobs that came after it are lost"
        );
        assert!(asked(None).contains("demo, the queue and kilnd's store"));
        let mut with_users = backup("b", false);
        with_users.files.insert(DIRECTORY.into(), BackupFile { bytes: 1, sha256: String::new() });
        let asked = question("demo", &with_users, None);
        assert!(asked.contains("the queue, the directory of users and kilnd's store"), "{asked}");
        assert!(asked.ends_with("jobs and users that came after it are lost"), "{asked}");
    }
}
