//! The command line. Help texts are written here, once; man pages, completions and the reference come from them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::verbs;

/// Run the whole life of a Slurm cluster from one file.
#[derive(Debug, Parser)]
#[command(name = "kiln", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// The cluster file
    #[arg(
        short,
        long,
        global = true,
        env = "KILN_FILE",
        default_value = "cluster.toml",
        value_name = "PATH"
    )]
    pub file: PathBuf,
    /// Print data and errors as JSON, and no messages
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress and no messages, only data, warnings and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Log to standard error what Kiln does; twice for what its libraries do
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// When to use colour; `auto` is on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    pub fn apply(self) {
        match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// In the order a user meets them, which is the order of the help.
#[derive(Debug, Subcommand)]
pub enum Verb {
    Init(verbs::init::Init),
    Validate(verbs::validate::Validate),
    Up(verbs::up::Up),
    Status(verbs::status::Status),
    Doctor(verbs::doctor::Doctor),
    Events(verbs::events::Events),
    Dashboard(verbs::dashboard::Dashboard),
    Top(verbs::top::Top),
    #[command(subcommand)]
    Notify(verbs::notify::Notify),
    Ssh(verbs::ssh::Ssh),
    Console(verbs::console::Console),
    Logs(verbs::logs::Logs),
    Exec(verbs::exec::Exec),
    Plan(verbs::plan::Plan),
    Apply(verbs::apply::Apply),
    Configure(verbs::configure::Configure),
    Rebuild(verbs::rebuild::Rebuild),
    Upgrade(verbs::upgrade::Upgrade),
    Stop(verbs::stop::Stop),
    Start(verbs::start::Start),
    #[command(subcommand)]
    Backup(verbs::backup::Backup),
    Restore(verbs::restore::Restore),
    Destroy(verbs::destroy::Destroy),
    #[command(subcommand)]
    Image(verbs::image::Image),
    #[command(subcommand)]
    User(verbs::user::User),
    #[command(subcommand)]
    Quota(verbs::quota::Quota),
    #[command(subcommand)]
    Secrets(verbs::secrets::Secrets),
    Inventory(verbs::inventory::Inventory),
    Limits(verbs::limits::Limits),
    Policy(verbs::policy::Policy),
    Schema(verbs::schema::Schema),
    #[command(subcommand)]
    Node(verbs::node::Node),
    Completions(verbs::completions::Completions),
    Man(verbs::man::Man),
    #[command(subcommand, hide = true)]
    Fleet(verbs::fleet::Fleet),
    #[command(hide = true)]
    Daemon(verbs::daemon::Daemon),
    #[command(subcommand, hide = true)]
    Local(verbs::local::Local),
    #[command(hide = true)]
    Reference(verbs::reference::Reference),
}

impl Verb {
    /// Whether it runs unattended, so that only its log can be seen.
    pub fn is_service(&self) -> bool {
        matches!(self, Verb::Daemon(_) | Verb::Local(_) | Verb::Node(verbs::node::Node::Boot(_)))
    }
}
