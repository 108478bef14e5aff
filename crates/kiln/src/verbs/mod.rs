//! One file per verb. Each has its arguments and a `run`.

pub mod completions;
pub mod init;
pub mod local;
pub mod man;
pub mod node;
pub mod reference;
pub mod schema;
pub mod validate;

use crate::cli::Verb;
use crate::context::Context;
use crate::exit::Exit;

pub fn run(verb: Verb, context: &Context) -> anyhow::Result<Exit> {
    match verb {
        Verb::Init(verb) => verb.run(context),
        Verb::Validate(verb) => verb.run(context),
        Verb::Schema(verb) => verb.run(context),
        Verb::Node(verb) => verb.run(context),
        Verb::Completions(verb) => verb.run(context),
        Verb::Man(verb) => verb.run(context),
        Verb::Local(verb) => verb.run(context),
        Verb::Reference(verb) => verb.run(context),
    }
}
