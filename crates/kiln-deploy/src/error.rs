use std::net::IpAddr;
use std::path::PathBuf;

use kiln_site::services;
use kiln_slurm::Release;

use crate::queue::QueuedJob;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path} could not be {did}")]
    File {
        path: PathBuf,
        did: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is damaged: {why}")]
    Damaged { path: PathBuf, why: String },
    #[error(transparent)]
    Cloud(#[from] kiln_cloud::Error),
    #[error(transparent)]
    Image(kiln_image::BuildError),
    #[error(transparent)]
    Lock(#[from] kiln_image::LockError),
    #[error(transparent)]
    Export(kiln_image::ExportError),
    #[error(transparent)]
    Inspect(kiln_image::InspectError),
    #[error(transparent)]
    Ssh(#[from] kiln_ssh::Error),
    #[error("sealing a bundle for {node}: {message}")]
    Seal { node: String, message: String },
    #[error("a key could not be generated: {0}")]
    Key(String),
    #[error("image {0} is not built yet")]
    ImageNotBuilt(String),
    #[error("{0} has no Slurm that Kiln can recognise")]
    NoSlurm(String),
    #[error("{node} runs Slurm {present}; Slurm {future} cannot take over its database and state")]
    SlurmConversion { node: String, present: Release, future: Release },
    #[error(
        "{node} is gone or broken and cannot get Slurm {future} now: its data is of Slurm {present}, which has to make the \
         backup before an upgrade"
    )]
    UpgradeWithoutControl { node: String, present: Release, future: Release },
    #[error("{group} has Slurm {release}, which does not work with Slurm {control} on the control node")]
    SlurmDistance { group: String, release: Release, control: Release },
    #[error("{group} has nodes of the {present} family of systems; image {image} is of the {wanted} family")]
    OtherFamily { group: String, present: String, image: String, wanted: &'static str },
    #[error("the {cloud} cloud has no flavor {flavor}; it has {known}")]
    Flavor { cloud: &'static str, flavor: String, known: String, hint: Option<&'static str> },
    #[error("the cloud has no network {name}")]
    NoNetwork { name: String, hint: Option<&'static str> },
    #[error("the cloud has no image {name}")]
    NoImage { name: String, hint: Option<&'static str> },
    #[error("volume {0} should be attached but does not exist")]
    NoVolume(String),
    #[error("the cloud reports an error for volume {name} ({id}), which has been in use and may hold data")]
    VolumeInError { name: String, id: String },
    #[error("volume {name} has {from_gib} GiB; it cannot shrink to {size_gib} GiB")]
    SmallerVolume { name: String, from_gib: u64, size_gib: u64 },
    #[error("{name} is {}, and the file has it {}", if *served { "a volume" } else { "a file system of File Storage" }, if *served { "on File Storage" } else { "on a volume" })]
    OtherKindOfVolume { name: String, served: bool },
    #[error("the cloud has another cluster {cluster}: {what} belongs to the one with the id {id}")]
    OtherCluster { cluster: String, what: String, id: String },
    #[error("{node} should have the address {address}, which is taken by {by}")]
    AddressTaken { node: String, address: IpAddr, by: String },
    #[error("{node} had the address {address}, which is taken by {by} now")]
    ControlAddressTaken { node: String, address: IpAddr, by: String },
    #[error(
        "the cloud's list of instances is not complete: it lacks {id}, and the cloud does not say whether that is gone"
    )]
    Unlisted {
        id: String,
        #[source]
        source: kiln_cloud::Error,
    },
    #[error("{node} is {status}")]
    NotActive { node: String, status: String },
    #[error("{node} is broken: {reason}")]
    Broken { node: String, reason: String },
    #[error("image {image} is used by {nodes}")]
    ImageInUse { image: String, nodes: String },
    #[error("image {image} cannot be promoted: {why}")]
    NotPromoted { image: String, why: String },
    #[error("{0} has no instance")]
    NoInstance(String),
    #[error("the cluster has no node {0}")]
    UnknownNode(String),
    #[error("{0} is not a compute node: Slurm and kilnd do not know it")]
    NoComputeNode(String),
    #[error("{failed} {}failed:\n{details}", of(*all, *failed))]
    Operations {
        failed: usize,
        /// Not known where some of them are counted by their group.
        all: Option<usize>,
        details: String,
        /// The first that any of them has.
        hint: Option<String>,
    },
    #[error("{program} on the control node: {said}")]
    Slurm { program: String, said: String },
    #[error("{0}")]
    Fleet(String),
    #[error("the nodes are configured, but {control} cannot ask the cloud: {problem}")]
    CloudFromControl { control: String, problem: String },
    #[error("{message}")]
    Node { message: String, hint: Option<String> },
    #[error("there is no backup {0}")]
    NoBackup(String),
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    #[error("the backup in {} is damaged", path.display())]
    DamagedBackup {
        path: PathBuf,
        #[source]
        source: kiln_wire::backup::BackupDamage,
    },
    #[error("the last rotation of {0} has not reached all nodes yet")]
    RotationPending(&'static str),
    #[error("the site's {name} is missing: {}", path.display())]
    SecretNotGiven { name: &'static str, path: PathBuf },
    #[error("the file has no [directory] with users that Kiln could change")]
    NoDirectory,
    #[error("the directory is the site's own: its users are changed there")]
    DirectoryOfSite,
    #[error("the file asks for no quotas")]
    NoQuotas,
    #[error("there are no quotas on a cloud of the kind `{0}`")]
    NoQuotasHere(&'static str),
    #[error("this cluster has no {0}")]
    SecretNotUsed(&'static str),
    #[error("{name} is the site's: Kiln does not make a new one")]
    SecretOfSite { name: &'static str, path: PathBuf },
    #[error(
        "the state of this cluster belongs to the accounts {}, and the file wants those {}; nothing is moved from one to the other",
        accounts(was),
        accounts(wanted)
    )]
    OtherAccounting { was: String, wanted: String },
    #[error("accounting cannot change its place while jobs are in the queue: {0}")]
    AccountingInUse(String),
    #[error(
        "slurmdbd at {host} is of release {slurmdbd}, which does not work with Slurm {control} on the control node"
    )]
    SlurmdbdDistance { host: String, slurmdbd: Release, control: Release },
    #[error(
        "slurmdbd at {host} does not say its release, and Slurm {control} on the control node may be too new for it"
    )]
    SlurmdbdUnknown { host: String, control: Release },
    #[error("there has been no rollout yet")]
    NoRollout,
    #[error("rollout {0} continues in the background")]
    Detached(i64),
    #[error("{0}")]
    NoUpgrade(String),
    #[error("{0}; a maintenance upgrade is not needed")]
    NoMaintenance(String),
    #[error("{}", running(.0))]
    JobsRun(Vec<QueuedJob>),
    #[error("rollout {0} is not over")]
    RolloutOpen(i64),
    #[error("stopped while jobs end; no job starts meanwhile")]
    UpgradeWaits,
    #[error("a maintenance upgrade was cut off: Slurm's data is aside in {0} on the control node")]
    UpgradeCutOff(String),
    #[error("Slurm's data is aside in {0}: the upgrade cannot be given up any more")]
    DataAside(String),
    #[error("the data in {directory} is not of the Slurm that the file wants{}", wanted.map(|r| format!(", {r}")).unwrap_or_default())]
    OtherBack { directory: String, wanted: Option<Release> },
    #[error("the upgrade is not complete; what the old Slurm had is in {directory} on the control node")]
    UpgradeFailed {
        directory: String,
        #[source]
        source: Box<Error>,
    },
    #[error("the file has no Pulp server")]
    NoPulp,
    #[error("no source of the file is on the Pulp server")]
    NoPulpSource,
    #[error("the file has no source {name}")]
    UnknownSource { name: String, known: String },
    #[error("source {0} is not on the Pulp server")]
    NotOnPulp(String),
    #[error("the file itself says which snapshot of source {0} is used")]
    FixedSnapshot(String),
    #[error("source {0} has no snapshot yet")]
    NoSnapshot(String),
    #[error("Kiln does not know the security suite of image {0}")]
    NoSecuritySuite(String),
    #[error("the list {url} cannot be read: {why}")]
    SecurityList { url: String, why: String },
    #[error("what [monitoring] refers to cannot be used: {0}")]
    AlertCredentials(String),
    #[error("the address of the webhook cannot be used: {0}")]
    Webhook(String),
    #[error("the credentials for the mail server cannot be used: {0}")]
    MailCredentials(String),
    #[error("the certificate of the dashboard cannot be used: {0}")]
    DashboardCertificate(String),
    #[error("the dashboard's secret of the OpenID Connect provider cannot be used: {0}")]
    OidcSecret(String),
    #[error("the credentials of the Pulp server cannot be used: {0}")]
    PulpCredentials(String),
    #[error(transparent)]
    Pulp(kiln_pulp::Error),
    #[error("source {name} has no new snapshot")]
    Sync {
        name: String,
        #[source]
        source: kiln_pulp::Error,
    },
    #[error("stopped as requested{}", if *canceled { "; the server's tasks were canceled" } else { "; a task of the server still runs" })]
    SyncStopped { canceled: bool },
    #[error("the upgrade was not begun; Slurm runs as before")]
    UpgradeNotBegun(#[source] Box<Error>),
    #[error(
        "Slurm {to} could not take over; Slurm {from} is back, with its database, its queue and its image"
    )]
    UpgradeUndone {
        from: Release,
        to: Release,
        #[source]
        source: Box<Error>,
    },
    #[error(
        "the upgrade failed, and so did the way back; what it needs is in {directory} on the state volume"
    )]
    BackFailed {
        directory: String,
        #[source]
        source: Box<Error>,
    },
    #[error("the upgrade from Slurm {0} is half done")]
    UpgradeOpen(Release),
    #[error(
        "image {0}, which the control node runs, is gone from the cloud: there would be no way back from the upgrade"
    )]
    NoWayBack(String),
    #[error("cluster {cluster} is asleep{}", from(*.since))]
    Asleep { cluster: String, since: Option<jiff::Timestamp> },
    #[error("cluster {0} is about to sleep: running jobs end, and no other starts")]
    Closing(String),
    #[error("Slurm cannot be asked which jobs run: {0}")]
    JobsUnknown(String),
    #[error("kilnd cannot be asked whether a rollout is open: {0}")]
    RolloutsUnknown(String),
    #[error("{0} has no instance that could be started")]
    ControlLost(String),
    #[error("{nodes} set aside in the cloud: {how}")]
    Held { nodes: String, how: String },
    #[error("{0}")]
    NotReady(String),
    #[error("stopped as requested; run the same command again to continue")]
    Stopped,
}

impl From<kiln_image::BuildError> for Error {
    fn from(error: kiln_image::BuildError) -> Self {
        match error {
            kiln_image::BuildError::Stopped => Error::Stopped,
            other => Error::Image(other),
        }
    }
}

impl From<kiln_image::ExportError> for Error {
    fn from(error: kiln_image::ExportError) -> Self {
        match error {
            kiln_image::ExportError::Stopped => Error::Stopped,
            other => Error::Export(other),
        }
    }
}

impl From<kiln_image::InspectError> for Error {
    fn from(error: kiln_image::InspectError) -> Self {
        match error {
            kiln_image::InspectError::Export(error) => error.into(),
            kiln_image::InspectError::Cloud(error) => error.into(),
            other => Error::Inspect(other),
        }
    }
}

const BACK: &str = "`kiln upgrade --maintenance` continues; with the old source of the image in the file, `kiln upgrade --back` goes \
                    back";

fn from(since: Option<jiff::Timestamp>) -> String {
    since.map(|at| at.strftime(" since %Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default()
}

/// `of 12 operations `
fn of(all: Option<usize>, failed: usize) -> String {
    let (number, word) = (all.map(|all| format!("of {all} ")), all.unwrap_or(failed));
    format!("{}operation{} ", number.unwrap_or_default(), if word == 1 { "" } else { "s" })
}

fn accounts(place: &str) -> String {
    match place {
        services::accounting::OWN => "of its own database".into(),
        host => format!("at {host}"),
    }
}

fn running(jobs: &[QueuedJob]) -> String {
    let lines: Vec<String> = jobs.iter().map(|job| format!("\n  {}", job.line())).collect();
    format!("jobs run:{}", lines.concat())
}

impl Error {
    /// With all causes, on one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::ImageNotBuilt(name) => {
                Some(format!("`kiln image build {name}` builds it; `kiln up` does so by itself"))
            }
            Error::CloudFromControl { control, .. } => Some(format!(
                "jobs run, but no node is powered up, rebuilt or healed until it can: the address of the cloud's services must be \
                 one that {control} reaches; then `kiln configure` again"
            )),
            Error::RotationPending(_) => Some("`kiln configure` distributes it; then rotate again".into()),
            Error::SecretNotGiven { name, path } if *name == services::directory::BIND_PASSWORD.name => {
                Some(format!("put the password of `bind_dn` of [directory] into {}, mode 600", path.display()))
            }
            Error::SecretNotGiven { path, .. } => Some(format!(
                "with `host` in [accounting] all clusters of its slurmdbd have one MUNGE key; on the site's host: \
                 `base64 /etc/munge/munge.key`, into {} here, mode 600",
                path.display()
            )),
            Error::NoDirectory => Some(
                "write [directory] with kind = \"server\" into it, then `kiln up`; or write users into it as [user.NAME], then \
                 `kiln configure`"
                    .into(),
            ),
            Error::NoQuotas => Some("write home = { quota = true } into [volumes], then `kiln up`".into()),
            Error::NoQuotasHere(_) => Some("its volumes are directories of the host".into()),
            Error::SecretOfSite { path, .. } => {
                Some(format!("put the site's new one into {}, then `kiln configure`", path.display()))
            }
            Error::OtherAccounting { .. } => Some(
                "`kiln configure --leave-accounting` leaves those accounts where they are and begins with the others, once no \
                 job is in the queue; docs/operations.md says what it keeps"
                    .into(),
            ),
            Error::SlurmdbdDistance { slurmdbd, control, .. } if slurmdbd < control => Some(
                "slurmdbd is upgraded first: it must be as new as the newest slurmctld that reports to it".into(),
            ),
            Error::SlurmdbdDistance { .. } => {
                Some("move the control node to a release that this slurmdbd still serves".into())
            }
            Error::SlurmdbdUnknown { .. } => Some(
                "`sacctmgr show configuration` on the control node shows it as SLURMDBD_VERSION; `kiln doctor` says whether \
                 slurmdbd answers"
                    .into(),
            ),
            Error::NoBackup(_) => Some("`kiln backup list` shows those that there are".into()),
            Error::JobsRun(_) => Some(
                "--wait lets them end and starts no others; --at TIME does so from that time on; `scancel` ends a job".into(),
            ),
            Error::NoMaintenance(_) => Some("`kiln up` does the upgrade, then `kiln rebuild`".into()),
            Error::RolloutOpen(id) => {
                Some(format!("`kiln rebuild watch {id}` waits for its end, `kiln rebuild abort {id}` ends it"))
            }
            Error::UpgradeWaits => Some(
                "run the same command again to continue; `kiln upgrade --abort` gives it up and lets jobs start again".into(),
            ),
            Error::DataAside(_) | Error::UpgradeCutOff(_) | Error::UpgradeFailed { .. } => Some(BACK.into()),
            Error::UpgradeNotBegun(source) => source.hint(),
            Error::UpgradeUndone { .. } => Some(
                "mend the cause and run `kiln up` again; until then put the old source of the image back in the file".into(),
            ),
            Error::BackFailed { .. } => Some("`kiln up` goes on with the way back".into()),
            Error::UpgradeOpen(_) => Some(
                "`kiln up` goes on with it; with the old source of the image in the file, `kiln up` goes back".into(),
            ),
            Error::NoWayBack(_) => Some(
                "put the old source of the image back in the file and run `kiln up`: it builds the image again; then upgrade".into(),
            ),
            Error::OtherBack { .. } => Some("put the old source of the image back in the file".into()),
            Error::NoSecuritySuite(_) => Some(
                "it must be an image of the file, of Debian, with a [source.NAME] whose suite ends in -security and that is no snapshot"
                    .into(),
            ),
            Error::SecurityList { .. } => Some(
                "a source with a suite that ends in `-security` names another server; without --security none is asked"
                    .into(),
            ),
            Error::NoPulp => Some("a table `[pulp]` names it; docs/images.md shows one".into()),
            Error::NoPulpSource | Error::NotOnPulp(_) => {
                Some("`pulp = \"PATH\"` in a table `[source.NAME]` says where it is on the server".into())
            }
            Error::UnknownSource { known, .. } => Some(match known.as_str() {
                "" => "it has none".into(),
                known => format!("it has {known}"),
            }),
            Error::FixedSnapshot(_) => Some("take `snapshot` out of its table to let `kiln image sync` choose".into()),
            Error::NoSnapshot(name) => Some(format!("`kiln image sync {name}` chooses one")),
            Error::AlertCredentials(_) => Some(
                "`credentials` of [monitoring.mail] and `address` of [monitoring.webhook.NAME] say where they are: \"env:NAME\" or \"file:PATH\""
                    .into(),
            ),
            Error::MailCredentials(_) => {
                Some("`mail_credentials` of [notify] says where they are: \"env:NAME\" or \"file:PATH\"".into())
            }
            Error::Webhook(_) => {
                Some("`webhook` of [notify] says where it is: \"env:NAME\" or \"file:PATH\"".into())
            }
            Error::DashboardCertificate(_) => Some(
                "`certificate` of [dashboard] is a file with the certificate, `key` says where its key is: \"env:NAME\" or \"file:PATH\""
                    .into(),
            ),
            Error::OidcSecret(_) => {
                Some("`client_secret` of [dashboard.oidc] says where it is: \"env:NAME\" or \"file:PATH\"".into())
            }
            Error::PulpCredentials(_) => {
                Some("`credentials` of [pulp] says where they are: \"env:NAME\" or \"file:PATH\"".into())
            }
            Error::Pulp(error) | Error::Sync { source: error, .. } => error.hint().map(String::from),
            Error::Asleep { .. } => Some("`kiln start` wakes it".into()),
            Error::Closing(_) => Some(
                "`kiln stop` goes on with it; `kiln start` gives it up and lets jobs start again".into(),
            ),
            Error::JobsUnknown(_) => Some(
                "`kiln doctor` shows what is wrong with Slurm; --now stops the instances with whatever runs there".into(),
            ),
            Error::RolloutsUnknown(_) => Some(
                "if kilnd is just starting, run this again; `kiln doctor` shows what is wrong with it; --now stops the cluster without asking"
                    .into(),
            ),
            Error::ControlLost(_) => {
                Some("the cluster no longer counts as asleep: `kiln up` creates what is missing and starts the rest".into())
            }
            Error::Held { .. } => Some("bring them back with the cloud's own tools, then run this again".into()),
            Error::NoRollout => Some("`kiln rebuild` starts one".into()),
            Error::Detached(id) => {
                Some(format!("`kiln rebuild watch {id}` watches it again, `kiln rebuild abort {id}` ends it"))
            }
            Error::Unlisted { .. } => Some(
                "nothing is created that may be there already; run this again when the cloud answers for all its instances"
                    .into(),
            ),
            Error::NotActive { .. } | Error::Broken { .. } => {
                Some("`kiln apply` starts what is stopped and replaces what is broken".into())
            }
            Error::ImageInUse { .. } => Some("--force deletes it anyway; the nodes keep running it".into()),
            Error::NoInstance(_) => Some("`kiln up` creates what is missing".into()),
            Error::UnknownNode(_) => Some("`kiln status` lists the nodes".into()),
            Error::NoComputeNode(node) => {
                Some(format!("`kiln status` shows its instance, `kiln ssh {node}` logs in to it"))
            }
            Error::SlurmConversion { present, future, .. } if future < present => Some(
                "Slurm does not go back to an older release; put the image's source back in the file".into(),
            ),
            Error::SlurmConversion { present, .. } => {
                let newest = present.newest_that_converts();
                let newest = newest.map(|newest| format!("Slurm {newest} is the newest that can; "));
                Some(format!(
                    "{}`kiln upgrade --maintenance` crosses the distance with all nodes down; docs/upgrade.md says what it keeps",
                    newest.unwrap_or_default()
                ))
            }
            Error::UpgradeWithoutControl { present, future, .. } if future < present => Some(
                "Slurm does not go back to an older release; put the image's source back in the file".into(),
            ),
            Error::UpgradeWithoutControl { .. } => Some(
                "put the old source of the image back in the file and run `kiln up`; then upgrade".into(),
            ),
            Error::SlurmDistance { release, control, .. } if release > control => Some(
                "the control node must be as new as the newest of the others: give it the newer image first"
                    .into(),
            ),
            Error::SlurmDistance { .. } => Some(
                "move these nodes to a nearer release first, with `kiln rebuild` where Slurm updates them"
                    .into(),
            ),
            Error::OtherFamily { .. } => Some(
                "nodes do not change their family: give the image to a group of another name, and take this one out of the file"
                    .into(),
            ),
            Error::NoVolume(name) => {
                Some(format!("create {name}, or set mode = \"manage\" to let Kiln do it"))
            }
            Error::VolumeInError { .. } => Some(
                "Kiln does not delete it. Have the cloud's administrators repair it; or, if its data is not needed or is in a \
                 backup, delete the volume yourself: `kiln apply` then creates an empty one"
                    .into(),
            ),
            Error::SmallerVolume { from_gib, .. } => {
                Some(format!("put `size = \"{from_gib} GiB\"` back in the file; volumes only grow"))
            }
            Error::OtherKindOfVolume { .. } => Some(
                "Kiln moves no data between them: put the `mode` of `[volumes]` back, or copy what is in it elsewhere and \
                 `kiln destroy` the cluster"
                    .into(),
            ),
            Error::OtherCluster { .. } => Some(
                "give this cluster another `name`; if that cluster is this one and its `.kiln` was lost, `kiln secrets adopt` \
                 takes its id from the cloud"
                    .into(),
            ),
            Error::Flavor { hint, .. } | Error::NoNetwork { hint, .. } | Error::NoImage { hint, .. } => {
                hint.map(String::from)
            }
            Error::Cloud(error) => error.hint().map(String::from),
            Error::Image(error) => error.hint().map(String::from),
            Error::Lock(error) => error.hint(),
            Error::Export(error) => error.hint(),
            Error::Inspect(error) => error.hint(),
            Error::Node { hint, .. } | Error::Operations { hint, .. } => hint.clone(),
            Error::AddressTaken { .. } => {
                Some("give the node another `address` in its override, or none, or remove what has it".into())
            }
            Error::ControlAddressTaken { .. } => Some(
                "the other nodes mount their volumes from this address: remove the port that has taken it, then run this again"
                    .into(),
            ),
            _ => None,
        }
    }
}
