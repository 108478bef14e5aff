//! `kiln inventory`

use clap::Args;

use crate::cluster;
use crate::context::Context;
use crate::exit::Exit;
use crate::table::Table;

/// List the nodes with their addresses, instances and images
#[derive(Debug, Args)]
pub struct Inventory {
    /// As an Ansible inventory in YAML, with `instance_id` and `image_id` per host
    #[arg(long, conflicts_with = "json")]
    ansible: bool,
}

impl Inventory {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let inventory = cluster::with(context, async |deployment| {
            Ok(deployment.inventory(&deployment.observe().await?)?)
        })?;
        if context.printer.is_json() {
            context.printer.json(&inventory)?;
        } else if self.ansible {
            context.printer.raw(inventory.ansible())?;
        } else {
            let mut table = Table::new(["node", "group", "address", "instance", "image", "target"]);
            for host in inventory.hosts {
                table.row([
                    host.name,
                    host.group,
                    host.address.unwrap_or_default(),
                    host.instance_id.unwrap_or_default(),
                    host.image_id.unwrap_or_default(),
                    host.target_image_id.unwrap_or_default(),
                ]);
            }
            context.printer.raw(&table)?;
        }
        Ok(Exit::Ok)
    }
}
