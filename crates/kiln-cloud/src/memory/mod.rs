//! A fake cloud in the memory of a test: instances change their state on tokio's clock, calls are noted, and any call can
//! be made to fail, to wait or to lie.
//!
//! [`Memory`] is the test's side, [`Driver`] the side of the code under test. Both see one [`World`], which has a name, so
//! that a fleet file can say which of them it means.

mod driver;
mod faults;
mod world;

pub use driver::{Access, Driver};
pub use faults::Fault;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::{Cloud, Flavor, Image, Instance};
use world::World;

/// The clouds of this process, by name.
static ALL: Mutex<BTreeMap<String, Weak<Mutex<World>>>> = Mutex::new(BTreeMap::new());

/// A fake cloud as its test sees it.
#[derive(Debug, Clone)]
pub struct Memory {
    name: String,
    world: Arc<Mutex<World>>,
}

impl Memory {
    /// An empty one, in place of any other of the same name.
    pub fn new(name: &str) -> Memory {
        let world = Arc::new(Mutex::new(World::default()));
        lock(&ALL).insert(name.to_string(), Arc::downgrade(&world));
        Memory { name: name.to_string(), world }
    }

    fn named(name: &str) -> Option<Memory> {
        let world = lock(&ALL).get(name).and_then(Weak::upgrade)?;
        Some(Memory { name: name.to_string(), world })
    }

    pub fn cloud(&self) -> Cloud {
        Cloud::Memory(Driver::new(self.clone()))
    }

    /// How it is named in a fleet file.
    pub fn access(&self) -> crate::Access {
        crate::Access::Memory(Box::new(Access { name: self.name.clone() }))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// What was asked for, in order, without what only looks: `create 2`, `rebuild n-0 new`, `delete n-0`.
    pub fn calls(&self) -> Vec<String> {
        self.world().calls.clone()
    }

    /// How often instances were listed.
    pub fn listings(&self) -> usize {
        self.world().listings
    }

    /// The names of the launches that were asked for so far, also of those that were refused.
    pub fn launches(&self) -> Vec<String> {
        self.world().launches.clone()
    }

    pub fn instance(&self, id: &str) -> Option<Instance> {
        self.world().now(id)
    }

    pub fn has(&self, id: &str) -> bool {
        self.instance(id).is_some()
    }

    /// Puts an instance there, as somebody else would. Its id is its name.
    pub fn put(&self, instance: Instance) {
        self.world().put(instance);
    }

    /// Changes an instance behind everybody's back.
    pub fn change(&self, id: &str, change: impl FnOnce(&mut Instance)) {
        self.world().change(id, change);
    }

    /// Lets an instance vanish.
    pub fn lose(&self, id: &str) {
        self.world().remove(id);
    }

    /// Leaves an instance out of listings from now on; asked for by its id, it is still there.
    pub fn hide(&self, id: &str) {
        self.world().hidden.insert(id.to_string());
    }

    pub fn show(&self, id: &str) {
        self.world().hidden.remove(id);
    }

    pub fn put_image(&self, image: Image) {
        self.world().images.push(image);
    }

    pub fn put_flavor(&self, flavor: Flavor) {
        self.world().flavors.push(flavor);
    }

    /// Lets a call fail: `create`, `list`, `show`, `rebuild`, `reboot`, `start`, `stop` or `delete`.
    pub fn fail(&self, call: &str, fault: Fault) {
        self.world().faults.insert(call.to_string(), fault);
    }

    pub fn heal(&self, call: &str) {
        self.world().faults.remove(call);
    }

    /// Keeps those waiting who make a call, or `delete ID`, until [`Memory::release`].
    pub fn hold(&self, call: &str) {
        self.world().held.insert(call.to_string());
    }

    pub fn release(&self, call: &str) {
        self.world().held.remove(call);
    }

    /// How long a build or a rebuild takes.
    pub fn build_time(&self, time: Duration) {
        self.world().build_time = time;
    }

    /// Has room for this many more instances, and no others.
    pub fn room_for(&self, more: usize) {
        let mut world = self.world();
        world.room = Some(world.list().len() + more);
    }

    /// What is built from now on ends in the error state, for this reason; `None`: it does not.
    pub fn break_builds(&self, reason: Option<&str>) {
        self.world().breaks = reason.map(String::from);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
