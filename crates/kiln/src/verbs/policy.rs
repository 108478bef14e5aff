//! `kiln policy`

use std::fmt::Write as _;

use clap::Args;
use kiln_cloud::{Right, RightState};

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;

/// Show what the cloud's administrators have to create so that the control node may do its work
///
/// On Oracle Cloud: a tag, a dynamic group and a policy. `kiln apply` creates what is missing, if your credentials allow it.
/// Other clouds need nothing.
#[derive(Debug, Args)]
pub struct Policy {
    /// Create what is missing, and correct what says something else
    #[arg(long)]
    create: bool,
}

impl Policy {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let rights = cluster::with(context, async |deployment| Ok(deployment.rights(self.create).await?))?;
        if context.printer.is_json() {
            context.printer.json(&rights)?;
        } else if rights.is_empty() {
            context.printer.say("nothing: on this cloud Kiln gives the control node its rights itself");
        } else {
            context.printer.raw(text(&rights))?;
        }
        let lacks = self.create && rights.iter().any(|right| !right.is_there());
        Ok(if lacks { Exit::Failed } else { Exit::Ok })
    }
}

fn text(rights: &[Right]) -> String {
    let mut text = String::new();
    for right in rights {
        let state = match &right.state {
            RightState::There => "is there".to_string(),
            RightState::Made => "created".to_string(),
            RightState::Missing => "missing".to_string(),
            RightState::NotSeen { why } => format!("not seen: {why}"),
            RightState::NotMade { why } => format!("missing: {why}"),
        };
        let _ = writeln!(text, "# {}: {state}\n# {}", right.name, right.purpose);
        for line in &right.text {
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
    }
    text.trim_end().to_string() + "\n"
}
