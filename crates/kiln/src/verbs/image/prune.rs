//! `kiln image prune`

use clap::Args;
use kiln_deploy::Verdict;
use kiln_image::LockFile;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::table::Table;

/// Delete the images that nothing needs any more
///
/// Kept is what nodes run or are to get, what the file means or names, former images for a way back, what a lock was written
/// from, test images, what was uploaded, and what was built for other clusters. Each kept image is shown with its reason.
#[derive(Debug, Args)]
pub struct Prune {
    /// Former images of each image of the file to keep
    #[arg(long, default_value_t = 1, value_name = "N")]
    keep: usize,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl Prune {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        // One that cannot be read names images that are not known: nothing is deleted then.
        let locks = LockFile::read(&LockFile::path(&context.file))?.unwrap_or_default();
        let locked: Vec<String> = locks.images.into_values().map(|lock| lock.image).collect();
        cluster::with(context, async |deployment| {
            let verdicts = deployment.judge_images(self.keep, &locked).await?;
            show(context, &verdicts)?;
            let goes: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.kept.is_none()).collect();
            if goes.is_empty() || self.dry_run {
                context.printer.say(match goes.len() {
                    0 => "nothing to delete".to_string(),
                    many => format!("{many} would be deleted"),
                });
                return Ok(Exit::Ok);
            }
            let question = format!("Deleting {} images", goes.len());
            cluster::confirm(context, self.yes, &question)?;
            for verdict in goes {
                deployment.check_stop()?;
                deployment.cloud.delete_image(&verdict.id).await?;
                context.printer.say(format!("image {} is deleted", verdict.name));
            }
            Ok(Exit::Ok)
        })
    }
}

fn show(context: &Context, verdicts: &[Verdict]) -> anyhow::Result<()> {
    if context.printer.is_json() {
        return context.printer.json(&verdicts);
    }
    let mut table = Table::new(["image", "size", "verdict", "why"]);
    for verdict in verdicts {
        let (what, why) = match &verdict.kept {
            Some(why) => ("kept", why.clone()),
            None => ("deleted", "nothing needs it".to_string()),
        };
        let size = format!("{} MiB", verdict.size_bytes >> 20);
        table.row([verdict.name.clone(), size, what.to_string(), why]);
    }
    Ok(context.printer.raw(&table)?)
}
