//! Paths on nodes that more than one part of Kiln knows.

/// The binary, on every node.
pub const KILN: &str = "/usr/local/bin/kiln";

/// What Kiln remembers on a node. Not secret, apart from the sealing key.
pub const NODE_STATE: &str = "/var/lib/kiln";
/// What was applied last.
pub const APPLIED: &str = "/var/lib/kiln/applied.json";
/// Which files and users are Kiln's.
pub const MANIFEST: &str = "/var/lib/kiln/manifest.json";
/// Opens this node's bundle. A key that was put here by key rotation counts more than the one in the user data.
pub const SEAL_KEY: &str = "/var/lib/kiln/seal-key";
/// The public half of the deploy host's key. It counts more than the one in the user data, too.
pub const SENDER_KEY: &str = "/var/lib/kiln/sender-key";

/// Exported by control, read by compute nodes.
pub const SHARE: &str = "/srv/kiln/share";

/// The files of this module's other constants below `/etc`.
pub const CONFIG: &str = "/etc/kiln";
/// On control: what kilnd knows of the fleet. Secret.
pub const FLEET_FILE: &str = "/etc/kiln/fleet.json";
/// On control, beside the fleet file.
pub const NODE_NAMES: &str = "/etc/kiln/nodes";
/// On control, on the state volume.
pub const STORE_DIRECTORY: &str = "/var/lib/state/kiln";
pub const STORE: &str = "/var/lib/state/kiln/store.db";
/// On control: where Slurm's hooks leave requests for kilnd. The first is on the state volume, so that they outlast a rebuild
/// of control; the second, on the root disk, is for when that volume is full, read-only or not there.
pub const SPOOLS: [&str; 2] = ["/var/lib/state/kiln-spool", "/var/spool/kiln"];
/// On control: how backups are made.
pub const BACKUP_SETTINGS: &str = "/etc/kiln/backup.json";
/// On control: where the volume for backups is mounted.
pub const BACKUPS: &str = "/srv/kiln/backup";
/// On control, where it has no volume for backups: on the state volume. They are lost with it.
pub const BACKUPS_BESIDE_STATE: &str = "/var/lib/state/backup";
/// On the state volume: the name of the state, by which a backup of it is told from one of another.
pub const STATE_ID: &str = "/var/lib/state/state-id";
/// On the state volume, while a restore replaces what is there: which backup it is. One that was cut off leaves it, and Slurm's
/// daemons do not start beside it.
pub const RESTORING: &str = "/var/lib/state/restore-under-way";
/// On control, on the state volume.
pub const SLURMCTLD_STATE: &str = "/var/lib/state/slurmctld";

/// On control and login nodes: the questions that the node asks itself every minute.
pub const CHECKUP: &str = "/etc/kiln/checkup.json";
/// On control and login nodes, until the next boot: what it found. On control for kilnd to read; on others in MUNGE's wrapping,
/// which only kilnd can take off.
pub const REPORT: &str = "/run/kiln-report/report";
/// Where a login node's report can be had.
pub const REPORT_PORT: u16 = 6832;

/// On compute nodes: what Slurm's health check looks at.
pub const HEALTH_CHECK: &str = "/etc/kiln/health.json";
/// On compute nodes, until the next boot: the last health check found nothing, and Slurm has no drain for the node.
pub const HEALTHY: &str = "/run/kiln-healthy";

/// The programs that slurm.conf names. It cannot give a hook arguments; the binary knows by the name it is called by
/// which one it is.
pub mod hook {
    pub const REBOOT: &str = "/usr/local/libexec/kiln/kiln-reboot";
    pub const RESUME: &str = "/usr/local/libexec/kiln/kiln-resume";
    pub const SUSPEND: &str = "/usr/local/libexec/kiln/kiln-suspend";
    /// On compute nodes; a directory of its own, because slurm.conf names all of its files.
    pub const EPILOGS: &str = "/usr/local/libexec/kiln/epilog.d/*";
    pub const EPILOG: &str = "/usr/local/libexec/kiln/epilog.d/kiln-epilog";
    /// On compute nodes.
    pub const HEALTH: &str = "/usr/local/libexec/kiln/kiln-health";
    pub const RESUME_FAIL: &str = "/usr/local/libexec/kiln/kiln-resume-fail";
}
