//! `kiln fleet`: rollouts on the control node, for `kiln rebuild` to call there.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use clap::Subcommand;
use kiln_fleet::{FleetFile, Options, RolloutId, Slurm, Store, paths};

use crate::context::Context;
use crate::exit::Exit;

/// Rollouts in this control node's store
#[derive(Debug, Subcommand)]
pub enum Fleet {
    /// Start a rollout, its options as JSON on standard input
    Start,
    /// List rollouts, newest first
    List,
    /// Show a rollout
    Report { id: RolloutId },
    /// Let nothing new begin
    Pause { id: RolloutId },
    /// Go on
    Resume { id: RolloutId },
    /// End a rollout; what has begun is followed to its end
    Abort { id: RolloutId },
}

impl Fleet {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let store = Store::open(Path::new(paths::STORE))?;
        let id = match self {
            Fleet::List => {
                context.printer.json(&kiln_fleet::list(&store)?)?;
                return Ok(Exit::Ok);
            }
            Fleet::Start => start(context, &store)?,
            Fleet::Report { id } => id,
            Fleet::Pause { id } => kiln_fleet::pause(&store, id).map(|()| id)?,
            Fleet::Resume { id } => kiln_fleet::resume(&store, id).map(|()| id)?,
            Fleet::Abort { id } => kiln_fleet::abort(&store, id).map(|()| id)?,
        };
        context.printer.json(&kiln_fleet::report(&store, id)?)?;
        Ok(Exit::Ok)
    }
}

fn start(context: &Context, store: &Store) -> anyhow::Result<RolloutId> {
    let mut json = Vec::new();
    std::io::stdin().read_to_end(&mut json).context("cannot read standard input")?;
    let options: Options = serde_json::from_slice(&json).context("these are not a rollout's options")?;
    let file = FleetFile::read(Path::new(paths::FLEET))?;
    context.block_on(async { Ok(kiln_fleet::start(store, &file, &Slurm::default(), options).await?) })
}
