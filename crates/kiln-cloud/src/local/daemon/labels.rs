//! Labels of what is there already.

use super::Daemon;
use super::access::Caller;
use super::records::Labelled;
use super::store::{Record, Table};
use crate::{Kind, Labels, Result};

impl Daemon {
    pub fn label(&self, caller: &Caller, kind: Kind, id: &str, labels: Labels) -> Result<()> {
        match kind {
            Kind::Instance => {
                let mut all = self.record(caller, id)?.labels;
                all.extend(labels);
                self.set_labels(caller, id, all).map(drop)
            }
            Kind::Volume => add(&mut self.world().volumes, caller, id, labels, |v| &mut v.labels),
            Kind::Network => add(&mut self.world().networks, caller, id, labels, |n| &mut n.labels),
            Kind::SecurityGroup => add(&mut self.world().groups, caller, id, labels, |g| &mut g.labels),
            Kind::Image => {
                caller.check_root()?;
                let mut world = self.world();
                let mut record = world.images.get(id)?.clone();
                record.image.properties.extend(labels);
                world.images.put(record)
            }
        }
    }
}

fn add<T: Record + Labelled + Clone>(
    table: &mut Table<T>,
    caller: &Caller,
    id: &str,
    labels: Labels,
    of: impl FnOnce(&mut T) -> &mut Labels,
) -> Result<()> {
    let mut record = caller.check(table.get(id)?)?.clone();
    of(&mut record).extend(labels);
    caller.check_labels(record.labels())?;
    table.put(record)
}
