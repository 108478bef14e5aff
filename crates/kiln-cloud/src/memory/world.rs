//! What there is in a fake cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::Fault;
use crate::types::is_unused;
use crate::{
    Error, Flavor, Image, Instance, InstanceStatus, Network, NewInstance, Rebuild, Result, SecurityGroup,
    Volume,
};
use kiln_wire::labels;

#[derive(Debug)]
pub(super) struct World {
    instances: BTreeMap<String, Row>,
    pub images: Vec<Image>,
    pub volumes: Vec<Volume>,
    pub networks: Vec<Network>,
    pub groups: Vec<SecurityGroup>,
    pub flavors: Vec<Flavor>,
    pub grants: BTreeMap<String, String>,
    pub calls: Vec<String>,
    pub listings: usize,
    /// The names of the launches that were asked for, also of those that were refused.
    pub launches: Vec<String>,
    pub hidden: BTreeSet<String>,
    pub faults: BTreeMap<String, Fault>,
    pub held: BTreeSet<String>,
    pub build_time: Duration,
    pub breaks: Option<String>,
    /// For how many instances; `None`: for any number.
    pub room: Option<usize>,
    made: u64,
}

impl Default for World {
    fn default() -> World {
        World {
            instances: BTreeMap::new(),
            images: Vec::new(),
            volumes: Vec::new(),
            networks: Vec::new(),
            groups: Vec::new(),
            flavors: Vec::new(),
            grants: BTreeMap::new(),
            calls: Vec::new(),
            listings: 0,
            launches: Vec::new(),
            hidden: BTreeSet::new(),
            faults: BTreeMap::new(),
            held: BTreeSet::new(),
            build_time: Duration::from_millis(300),
            breaks: None,
            room: None,
            made: 0,
        }
    }
}

#[derive(Debug)]
struct Row {
    instance: Instance,
    /// The state that it gets, and when.
    next: Option<(Instant, InstanceStatus)>,
}

impl World {
    /// The number of the next thing that is made, for its id.
    pub fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub fn fault(&mut self, call: &str) -> Result<()> {
        self.faults.get_mut(call).map_or(Ok(()), Fault::meet)
    }

    /// An instance as it is now. Builds that are over by now are noted.
    pub fn now(&mut self, id: &str) -> Option<Instance> {
        self.instances.get_mut(id).map(|row| row.now().clone())
    }

    pub fn get(&mut self, id: &str) -> Result<Instance> {
        self.now(id).ok_or_else(|| Error::not_found("instance", id))
    }

    pub fn list(&mut self) -> Vec<Instance> {
        let hidden = &self.hidden;
        let seen = self.instances.iter_mut().filter(|(id, _)| !hidden.contains(*id));
        let mut all: Vec<Instance> = seen.map(|(_, row)| row.now().clone()).collect();
        all.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        all
    }

    pub fn put(&mut self, instance: Instance) {
        self.instances.insert(instance.id.clone(), Row { instance, next: None });
    }

    pub fn change(&mut self, id: &str, change: impl FnOnce(&mut Instance)) {
        if let Some(row) = self.instances.get_mut(id) {
            change(row.now());
        }
    }

    pub fn remove(&mut self, id: &str) {
        self.instances.remove(id);
        self.volumes.iter_mut().for_each(|volume| volume.attached_to.retain(|user| user != id));
    }

    fn outcome(&self) -> (Instant, InstanceStatus) {
        let status = match &self.breaks {
            Some(reason) => InstanceStatus::Error { reason: reason.clone() },
            None => InstanceStatus::Active,
        };
        (Instant::now() + self.build_time, status)
    }

    pub fn create(&mut self, new: NewInstance) -> Result<Instance> {
        if self.instances.contains_key(&new.name) {
            return Err(Error::conflict(format!("there is an instance {} already", new.name)));
        }
        if self.room.is_some_and(|room| self.instances.len() >= room) {
            return Err(Error::no_room("quota of instances exceeded"));
        }
        let instance = Instance {
            id: new.name.clone(),
            name: new.name,
            status: InstanceStatus::Building,
            image: Some(new.image),
            flavor: new.flavor,
            address: new.address,
            public_address: None,
            labels: new.labels,
            volumes: new.volumes.into_iter().map(|attachment| attachment.volume).collect(),
            created: jiff::Timestamp::now(),
            built: None,
        };
        for volume in self.volumes.iter_mut().filter(|v| instance.volumes.contains(&v.id)) {
            volume.attached_to.push(instance.id.clone());
            if is_unused(&volume.labels) {
                volume.labels.insert(labels::USED.into(), labels::USED_YES.into());
            }
        }
        let row = Row { instance: instance.clone(), next: Some(self.outcome()) };
        self.instances.insert(instance.id.clone(), row);
        Ok(instance)
    }

    pub fn rebuild(&mut self, id: &str, new: Rebuild) -> Result<Instance> {
        let outcome = self.outcome();
        let row = self.instances.get_mut(id).ok_or_else(|| Error::not_found("instance", id))?;
        let instance = &mut row.instance;
        instance.image = Some(new.image);
        instance.labels = new.labels;
        instance.status = InstanceStatus::Rebuilding;
        instance.built = None;
        row.next = Some(outcome);
        Ok(row.instance.clone())
    }
}

impl Row {
    fn now(&mut self) -> &mut Instance {
        if let Some((_, status)) = self.next.take_if(|(when, _)| *when <= Instant::now()) {
            if status == InstanceStatus::Active {
                self.instance.built = Some(jiff::Timestamp::now());
            }
            self.instance.status = status;
        }
        &mut self.instance
    }
}
