//! `kiln image promote`

use anyhow::anyhow;
use clap::Args;
use kiln_deploy::Promotion;
use kiln_wire::labels::image as property;

use super::find;
use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Let an image stand for one of the file, such as one that was built with `--test`
///
/// From then on plans give it to nodes, until the recipe in the file changes or another image is built from it or promoted.
/// The former image stays: promote it to go back.
#[derive(Debug, Args)]
pub struct Promote {
    /// Its name or id
    image: String,
    /// The image of the file. Default: the one that it was built from
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

impl Promote {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let (promotion, is_there) = cluster::with(context, async |deployment| {
            let image = find(deployment, &self.image).await?;
            let wanted = self.to.as_ref().or_else(|| image.properties.get(property::NAME));
            let known: Vec<&str> = deployment.spec.images.keys().map(String::as_str).collect();
            let name = wanted
                .filter(|name| known.contains(&name.as_str()))
                .ok_or_else(|| anyhow!("the file has no image {}", wanted.map_or("", String::as_str)))
                .exit(Exit::Usage)
                .hint(format!("say with --to which one it is to stand for: {}", known.join(", ")))?;
            let promotion = deployment.promotion(name, &image).await?;
            let is_there = promotion.from.as_ref() == Some(&promotion.to);
            if !self.dry_run && !is_there {
                deployment.promote(name, &image).await?;
            }
            Ok((promotion, is_there))
        })?;
        self.tell(context, &promotion, is_there)
    }

    fn tell(&self, context: &Context, promotion: &Promotion, is_there: bool) -> anyhow::Result<Exit> {
        let Promotion { image, from, to, difference, lacks } = promotion;
        if !lacks.is_empty() {
            context.printer.warn(format!("{to} has no package {}, which the file wants", lacks.join(", ")));
        }
        if context.printer.is_json() {
            context.printer.json(promotion)?;
            return Ok(Exit::Ok);
        }
        if is_there {
            context.printer.say(format!("{to} is image {image} of the file already"));
            return Ok(Exit::Ok);
        }
        let tense = if self.dry_run { "would be" } else { "is" };
        context.printer.data(format!("image {image} of the file {tense} {to} now"))?;
        if let Some(from) = from {
            let summary = difference.as_ref().map(|d| format!(": {}", d.summary())).unwrap_or_default();
            context.printer.data(format!("it was {from}{summary}"))?;
        }
        if !self.dry_run {
            let back = from.as_ref().map(|from| format!("; `kiln image promote {from}` goes back"));
            context.printer.say(format!("`kiln plan` shows what follows{}", back.unwrap_or_default()));
        }
        Ok(Exit::Ok)
    }
}
