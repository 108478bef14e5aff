//! Backups of accounting, of Slurm's state and of the cluster's directory, made by a timer on the control node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kiln_spec::{Role, Spec};
use kiln_wire::backup::fingerprint;
use kiln_wire::checkup::Question;
use kiln_wire::make::{directory, file, service};
use kiln_wire::{BackupSettings, Format as _, Resource, Version, paths};

use super::accounting::DATABASE_PASSWORD;
use super::munge::MUNGE_KEY;
use super::sshd::SSH_KEY;
use super::{Context, Service, Unit};
use crate::volumes::has_backup_volume;

pub const BACKUP: Service =
    Service { name: "backup", units: &[Unit::new(TIMER)], resources, health, ..Service::EMPTY };

const TIMER: &str = "kiln-backup.timer";
const TIMER_FILE: &str = "/etc/systemd/system/kiln-backup.timer";
const FAILED_FILE: &str = "/etc/systemd/system/kiln-backup-failed.service";
const SERVICE_FILE: &str = "/etc/systemd/system/kiln-backup.service";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let backup = &context.spec.backup;
    let settings = settings(context);
    let mut resources: Vec<Resource> = Vec::new();
    // A directory of the site's own is not made: the root disk is no place for backups.
    if backup.path.is_none() {
        resources.push(directory(&settings.directory.to_string_lossy(), "root", 0o700));
    }
    // It holds no secrets and is written with every value; that it cannot be is not to be expected.
    let text = settings.to_json().ok().and_then(|json| String::from_utf8(json).ok()).unwrap_or_default();
    let place = settings.directory.display();
    resources.extend([
        Resource::File(file(paths::BACKUP_SETTINGS, text + "\n")),
        Resource::File(file(
            SERVICE_FILE,
            format!(
                "# Written by Kiln.\n[Unit]\nDescription=Kiln: a backup of accounting and Slurm's state\n\
                 After=mariadb.service slurmdbd.service slurmctld.service dirsrv@kiln.service\n\
                 OnFailure=kiln-backup-failed.service\nRequiresMountsFor=/var/lib/state {place}\n\n\
                 [Service]\nType=oneshot\nExecStart={} node backup now --scheduled\n\
                 Nice=10\nIOSchedulingClass=idle\nTimeoutStartSec=6h\n",
                paths::KILN
            ),
        )),
        // kilnd tells people: as its user, whose store it is.
        Resource::File(file(
            FAILED_FILE,
            format!(
                "# Written by Kiln.\n[Unit]\nDescription=Kiln: note that a backup has failed\n\n\
                 [Service]\nType=oneshot\nUser=kilnd\nGroup=kilnd\nUMask=0077\nExecStart={} fleet backup-failed\n",
                paths::KILN
            ),
        )),
        Resource::File(file(
            TIMER_FILE,
            format!(
                "# Written by Kiln.\n[Unit]\nDescription=Kiln: backups\n\n\
                 [Timer]\nOnCalendar={}\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n",
                backup.calendar
            ),
        )),
        Resource::Service(service(TIMER, &[&format!("file:{TIMER_FILE}")])),
    ]);
    resources
}

fn settings(context: &Context<'_>) -> BackupSettings {
    let spec = context.spec;
    let mounted = has_backup_volume(spec, context.inventory);
    let directory = match &spec.backup.path {
        Some(path) => path.as_str(),
        None if mounted => paths::BACKUPS,
        None => paths::BACKUPS_BESIDE_STATE,
    };
    let database = spec.accounting.is_none().then_some(&DATABASE_PASSWORD);
    let mut secrets: BTreeMap<String, String> = (std::iter::once(&MUNGE_KEY).chain(database))
        .map(|secret| (secret.name.to_string(), fingerprint(context.secrets.value(secret))))
        .collect();
    // Of its public half, which is all that nodes have.
    secrets.insert(SSH_KEY.name.to_string(), fingerprint(&context.secrets.ssh_public_key));
    BackupSettings {
        format: Version,
        directory: directory.into(),
        mount: mounted.then(|| PathBuf::from(paths::BACKUPS)),
        keep: spec.backup.keep,
        interval: spec.backup.interval.as_secs(),
        secrets,
        accounting: spec.accounting.as_ref().map(|dbd| dbd.host.clone()),
        directory_base: spec.directory.as_ref().filter(|d| d.is_server()).map(|d| d.base().to_owned()),
    }
}

fn health(_: &Spec, _: Role) -> Vec<Question> {
    vec![Question::new("backups are not as they should be", &["kiln", "node", "backup", "check"])]
}
