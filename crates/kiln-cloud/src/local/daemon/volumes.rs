//! Volumes: directories that outlive instances.

use super::access::Caller;
use super::records::{Labelled as _, VolumeRecord};
use super::{Daemon, World, store};
use crate::local::names;
use crate::{Error, NewVolume, Result, Volume};

impl Daemon {
    pub fn volumes(&self, caller: &Caller, cluster: &str) -> Vec<Volume> {
        let world = self.world();
        let own = world.volumes.iter().filter(|v| v.cluster() == Some(cluster) && caller.may_see(*v));
        own.map(|v| world.show_volume(v)).collect()
    }

    pub fn volume_by_name(&self, caller: &Caller, name: &str) -> Option<Volume> {
        let world = self.world();
        world.volumes.iter().find(|v| v.name == name && caller.may_see(*v)).map(|v| world.show_volume(v))
    }

    /// Names are unique in the whole cloud: that is how volumes made by hand are referred to.
    pub fn create_volume(&self, caller: &Caller, new: NewVolume) -> Result<Volume> {
        caller.check_labels(&new.labels)?;
        names::check_volume_name(&new.name)?;
        let mut world = self.world();
        if world.volumes.iter().any(|v| v.name == new.name) {
            return Err(Error::conflict(format!("there is a volume {} already", new.name)));
        }
        let record =
            VolumeRecord { id: names::new_id(), name: new.name, size_gib: new.size_gib, labels: new.labels };
        let data = self.volume_dir(&record.id).join("data");
        store::make_dir(&data)?;
        std::fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .map_err(|e| Error::failed(format!("cannot use {}", data.display())).because(e))?;
        world.volumes.put(record.clone())?;
        Ok(record.show(Vec::new()))
    }

    /// A directory has no size of its own: only what is said of it changes.
    pub fn grow_volume(&self, caller: &Caller, id: &str, size_gib: u64) -> Result<Volume> {
        let mut world = self.world();
        let mut record = caller.check(world.volumes.get(id)?)?.clone();
        record.size_gib = record.size_gib.max(size_gib);
        world.volumes.put(record.clone())?;
        Ok(world.show_volume(&record))
    }

    pub fn delete_volume(&self, caller: &Caller, id: &str) -> Result<()> {
        {
            let mut world = self.world();
            caller.check(world.volumes.get(id)?)?;
            if let Some(user) = world.attached_to(id).first() {
                return Err(Error::conflict(format!("the volume is attached to instance {user}")));
            }
            world.volumes.remove(id)?;
        }
        // What is without a record would be taken for data whose record was lost; what is among the work in progress goes,
        // also if this is cut short.
        let doomed = self.root.join("tmp").join(format!("volume-{id}"));
        store::make_dir(&self.root.join("tmp"))?;
        match std::fs::rename(self.volume_dir(id), &doomed) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::failed(format!("cannot delete volume {id}")).because(error))
            }
            _ => store::remove_tree(&doomed),
        }
    }
}

impl World {
    fn attached_to(&self, volume: &str) -> Vec<String> {
        let users = self.instances.iter().filter(|i| i.volumes.iter().any(|a| a.volume == volume));
        users.map(|i| i.id.clone()).collect()
    }

    fn show_volume(&self, record: &VolumeRecord) -> Volume {
        record.show(self.attached_to(&record.id))
    }
}
