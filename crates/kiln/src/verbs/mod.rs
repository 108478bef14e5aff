//! One file per verb. Each has its arguments and a `run`.

pub mod apply;
pub mod backup;
pub mod completions;
pub mod configure;
pub mod console;
pub mod daemon;
pub mod dashboard;
pub mod destroy;
pub mod doctor;
pub mod events;
pub mod exec;
pub mod fleet;
pub mod image;
pub mod init;
pub mod inventory;
pub mod limits;
pub mod local;
pub mod logs;
pub mod man;
pub mod node;
pub mod notify;
pub mod plan;
pub mod policy;
pub mod quota;
pub mod rebuild;
pub mod reference;
pub mod restore;
pub mod schema;
pub mod secrets;
pub mod ssh;
pub mod start;
pub mod status;
pub mod stop;
pub mod top;
pub mod up;
pub mod upgrade;
pub mod user;
pub mod validate;

use crate::cli::Verb;
use crate::context::Context;
use crate::exit::Exit;

pub fn run(verb: Verb, context: &Context) -> anyhow::Result<Exit> {
    match verb {
        Verb::Init(verb) => verb.run(context),
        Verb::Validate(verb) => verb.run(context),
        Verb::Schema(verb) => verb.run(context),
        Verb::Plan(verb) => verb.run(context),
        Verb::Policy(verb) => verb.run(context),
        Verb::Apply(verb) => verb.run(context),
        Verb::Configure(verb) => verb.run(context),
        Verb::Up(verb) => verb.run(context),
        Verb::User(verb) => verb.run(context),
        Verb::Quota(verb) => verb.run(context),
        Verb::Destroy(verb) => verb.run(context),
        Verb::Status(verb) => verb.run(context),
        Verb::Events(verb) => verb.run(context),
        Verb::Doctor(verb) => verb.run(context),
        Verb::Dashboard(verb) => verb.run(context),
        Verb::Top(verb) => verb.run(context),
        Verb::Ssh(verb) => verb.run(context),
        Verb::Console(verb) => verb.run(context),
        Verb::Exec(verb) => verb.run(context),
        Verb::Inventory(verb) => verb.run(context),
        Verb::Logs(verb) => verb.run(context),
        Verb::Limits(verb) => verb.run(context),
        Verb::Image(verb) => verb.run(context),
        Verb::Secrets(verb) => verb.run(context),
        Verb::Node(verb) => verb.run(context),
        Verb::Notify(verb) => verb.run(context),
        Verb::Completions(verb) => verb.run(context),
        Verb::Man(verb) => verb.run(context),
        Verb::Fleet(verb) => verb.run(context),
        Verb::Rebuild(verb) => verb.run(context),
        Verb::Backup(verb) => verb.run(context),
        Verb::Restore(verb) => verb.run(context),
        Verb::Upgrade(verb) => verb.run(context),
        Verb::Stop(verb) => verb.run(context),
        Verb::Start(verb) => verb.run(context),
        Verb::Daemon(verb) => verb.run(context),
        Verb::Local(verb) => verb.run(context),
        Verb::Reference(verb) => verb.run(context),
    }
}
