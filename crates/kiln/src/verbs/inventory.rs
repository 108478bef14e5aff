//! `kiln inventory`

use clap::Args;
use kiln_deploy::HostEntry;

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
            context.printer.raw(table(inventory.hosts))?;
        }
        Ok(Exit::Ok)
    }
}

/// Where no node has a public address, there is no column for it.
fn table(hosts: Vec<HostEntry>) -> Table {
    let has_public = hosts.iter().any(|host| host.public_address.is_some());
    let mut table = if has_public {
        Table::new(["node", "group", "address", "public", "instance", "image", "target"])
    } else {
        Table::new(["node", "group", "address", "instance", "image", "target"])
    };
    for host in hosts {
        let [address, public, instance, image, target] =
            [host.address, host.public_address, host.instance_id, host.image_id, host.target_image_id]
                .map(Option::unwrap_or_default);
        if has_public {
            table.row([host.name, host.group, address, public, instance, image, target]);
        } else {
            table.row([host.name, host.group, address, instance, image, target]);
        }
    }
    table
}
