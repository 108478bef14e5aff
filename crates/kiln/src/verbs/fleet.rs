//! `kiln fleet`: kilnd's store on the control node, for `kiln rebuild`, `status`, `events`, `doctor` and `dashboard` to ask there.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use kiln_fleet::{Sources, Store, window};
use kiln_slurm::Slurm;
use kiln_wire::dashboard::Role;
use kiln_wire::rollout::{Options, RolloutId};
use kiln_wire::{EventList, FleetFile, Format as _, Version, paths};

use crate::context::Context;
use crate::exit::Exit;

/// Whoever can do this is root on control, and has no other name there.
const SOMEBODY: &str = "an administrator";

/// What this control node's kilnd knows
#[derive(Debug, Subcommand)]
pub enum Fleet {
    /// Start a rollout, its options as JSON on standard input
    Start,
    /// List rollouts, newest first
    List,
    /// Show a rollout
    Report { id: RolloutId },
    /// Start no further nodes
    Pause { id: RolloutId },
    /// Continue
    Resume { id: RolloutId },
    /// End a rollout; nodes that have started are watched until they are done
    Abort { id: RolloutId },
    /// A word that lets somebody into the dashboard, once
    Login { name: String, role: Role },
    /// Give somebody a token for the dashboard, good for so many seconds
    AddToken { name: String, role: Role, seconds: u64 },
    /// Whom tokens were given to
    Tokens,
    /// End a token
    RemoveToken { name: String },
    /// Note that the timer's backup has failed
    BackupFailed,
    /// Send a message to everybody who is told what matters
    NotifyTest,
    /// How every compute node is
    Health,
    /// Which instances the compute nodes have had, as far as they are not known to be gone
    Instances,
    /// Whether the cloud answers this control node
    Reach,
    /// All there is to know of one node
    Dossier { node: String },
    /// What happened, oldest first
    Events {
        node: Option<String>,
        #[arg(long)]
        since: Option<jiff::Timestamp>,
        #[arg(long, default_value_t = u32::MAX)]
        most: u32,
    },
}

impl Fleet {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let store = Store::open(Path::new(paths::STORE))?;
        let id = match self {
            Fleet::List => {
                context.printer.json(&kiln_fleet::list(&store)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::Health => {
                context.printer.json(&look(context, &store, async |s| s.health().await)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::Login { name, role } => {
                context.printer.json(&window::login(&store, &name, role)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::AddToken { name, role, seconds } => {
                let life = Duration::from_secs(seconds);
                context.printer.json(&window::add_token(&store, &name, role, life)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::Tokens => {
                context.printer.json(&window::tokens(&store)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::RemoveToken { name } => {
                window::remove_token(&store, &name)?;
                context.printer.json(&window::tokens(&store)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::BackupFailed => {
                let words = "failed: `journalctl -u kiln-backup.service` on control says why";
                store.log("", "backup", "made by the timer", words)?;
                return Ok(Exit::Ok);
            }
            Fleet::NotifyTest => {
                let file = FleetFile::read(Path::new(paths::FLEET_FILE))?;
                let test = kiln_fleet::notify::test(&file.cluster, file.notify.as_ref());
                let reports = context.block_on(async { Ok(test.await) })?;
                let nobody = || {
                    anyhow::anyhow!(
                        "kilnd is to tell nobody: its file had no [notify] at the last `kiln configure`"
                    )
                };
                context.printer.json(&reports.ok_or_else(nobody)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::Instances => {
                context.printer.json(&kiln_fleet::known_instances(&store)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::Reach => {
                let fleet = kiln_fleet::Fleet::read(Path::new(paths::FLEET_FILE))?;
                context.printer.json(&context.block_on(async { Ok(kiln_fleet::reach(&fleet).await?) })?)?;
                return Ok(Exit::Ok);
            }
            Fleet::Dossier { node } => {
                context.printer.json(&look(context, &store, async |s| s.dossier(&node).await)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::Events { node, since, most } => {
                let since = since.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
                let events = store.events_since(node.as_deref(), since, most)?;
                context.printer.json(&EventList { format: Version, events })?;
                return Ok(Exit::Ok);
            }
            Fleet::Start => start(context, &store)?,
            Fleet::Report { id } => id,
            Fleet::Pause { id } => kiln_fleet::pause(&store, id, SOMEBODY).map(|()| id)?,
            Fleet::Resume { id } => kiln_fleet::resume(&store, id, SOMEBODY).map(|()| id)?,
            Fleet::Abort { id } => kiln_fleet::abort(&store, id, SOMEBODY).map(|()| id)?,
        };
        context.printer.json(&kiln_fleet::report(&store, id)?)?;
        Ok(Exit::Ok)
    }
}

fn look<T>(
    context: &Context,
    store: &Store,
    question: impl AsyncFnOnce(Sources<'_>) -> kiln_fleet::Result<T>,
) -> anyhow::Result<T> {
    let fleet = kiln_fleet::Fleet::read(Path::new(paths::FLEET_FILE))?;
    let slurm = Slurm::default();
    let sources = Sources { store, slurm: &slurm, fleet: &fleet, share: Path::new(paths::SHARE) };
    context.block_on(async { Ok(question(sources).await?) })
}

fn start(context: &Context, store: &Store) -> anyhow::Result<RolloutId> {
    let mut json = Vec::new();
    std::io::stdin().read_to_end(&mut json).context("cannot read standard input")?;
    let options = Options::from_json(&json)?;
    let file = FleetFile::read(Path::new(paths::FLEET_FILE))?;
    context.block_on(async { Ok(kiln_fleet::start(store, &file, &Slurm::default(), options).await?) })
}
