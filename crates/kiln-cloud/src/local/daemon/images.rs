//! Images: a name and facts for a stack of layers.

use std::collections::BTreeSet;

use super::access::Caller;
use super::records::{ImageRecord, Labelled as _, Phase};
use super::{Daemon, layers, lock, source};
use crate::local::{cgroup, names};
use crate::{Error, Image, Layers, NewImage, Result};

impl Daemon {
    /// Reading is for everybody: an image holds software, no secrets.
    pub fn images(&self) -> Vec<Image> {
        self.world().images.iter().map(|record| record.image.clone()).collect()
    }

    /// By instances of any cluster.
    pub fn used_images(&self, caller: &Caller) -> Result<BTreeSet<String>> {
        caller.check_root()?;
        Ok(self.world().instances.iter().map(|record| record.image.clone()).collect())
    }

    pub fn image(&self, id: &str) -> Result<Image> {
        self.world().images.get(id).map(|record| record.image.clone())
    }

    /// The instance's writable layer becomes the image's top layer as it is, and the instance goes on with
    /// an empty one above it. Nothing is copied.
    pub fn create_image(&self, caller: &Caller, instance: &str, new: NewImage) -> Result<Image> {
        caller.check_labels(&new.labels)?;
        self.record(caller, instance)?;
        let only_one = self.instance_lock(instance);
        let _only_one = lock(&only_one);
        let mut record = self.record(caller, instance)?;
        if record.phase != Phase::Ready || cgroup::populated(&self.instance_cgroup(instance)) {
            return Err(Error::conflict(format!("instance {} is not stopped", record.name)));
        }
        let upper = self.make_upper(&record)?;
        let below: u64 = record.layers.iter().map(|l| layers::size(&self.layer_dir(l))).sum();
        let size_bytes = below + layers::size(&upper);
        // The overlay did not sync; an image must survive what an instance need not.
        sync(&upper)?;

        let mut stack = std::mem::take(&mut record.layers);
        stack.push(std::mem::replace(&mut record.upper, names::new_id()));
        record.layers.clone_from(&stack);
        let image = Image {
            id: names::new_id(),
            name: new.name,
            labels: new.labels,
            properties: new.properties,
            size_bytes,
            created: jiff::Timestamp::now(),
        };
        let mut world = self.world();
        // In this order a crash in between costs nothing: the instance merely has one layer more.
        world.instances.put(record)?;
        world.images.put(ImageRecord { image: image.clone(), layers: stack, handed_out: None })?;
        Ok(image)
    }

    /// For root of this host, who can read them.
    pub fn layers_of(&self, caller: &Caller, id: &str) -> Result<Layers> {
        caller.check_root()?;
        let stack = self.world().images.get(id)?.layers.clone();
        let directories = stack.iter().map(|layer| self.layer_dir(layer)).collect();
        Ok(Layers { directories, scratch: self.root.join("exports") })
    }

    /// Instances of the image go on: they hold on to its layers.
    pub fn delete_image(&self, caller: &Caller, id: &str) -> Result<()> {
        {
            let mut world = self.world();
            let record = world.images.get(id)?;
            if record.cluster().is_none() {
                caller.check_root()?;
            }
            caller.check(record)?;
            if source::is_source(&record.image) && self.is_making_source() {
                return Err(Error::conflict("a source image is being made, perhaps from this one"));
            }
            world.images.remove(id)?;
        }
        self.collect_layers();
        Ok(())
    }
}

fn sync(dir: &std::path::Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::failed(format!("cannot sync {}", dir.display())).because(e);
    let file = std::fs::File::open(dir).map_err(failed)?;
    rustix::fs::syncfs(&file).map_err(|e| failed(e.into()))
}
