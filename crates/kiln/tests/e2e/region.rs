//! Oracle's services on this machine, for as long as a suite lasts.

use kiln_cloud::oci::fake::Fake;
use kiln_cloud::{Cloud, Image};
use kiln_wire::labels;

use crate::lab::cloud_root;

/// Of what is made there.
const CLUSTER: &str = "e2e";

pub struct Region {
    pub fake: Fake,
    /// Serves the fake; dropped after it.
    runtime: tokio::runtime::Runtime,
}

impl Region {
    /// `names`: of images in the file that they were built from, by which they are known there.
    pub fn start(names: &[&'static str]) -> Region {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let local = Cloud::local_with(cloud_root(), env!("CARGO_BIN_EXE_kiln").into());
        let all = runtime.block_on(local.images()).expect("the local cloud's images");
        let newest = |name: &str| {
            let is_it = |image: &&Image| image.properties.get(labels::image::NAME).is_some_and(|n| n == name);
            all.iter().rfind(is_it).unwrap_or_else(|| panic!("no image {name}")).id.clone()
        };
        let images: Vec<(&str, String)> = names.iter().map(|name| (*name, newest(name))).collect();
        let own = [(labels::CLUSTER.to_string(), CLUSTER.to_string())].into();
        let fake = runtime.block_on(Fake::start_with_machines(local, own, &images)).expect("the fake starts");
        fake.page(50);
        Region { fake, runtime }
    }

    /// Somebody does something in Oracle's console.
    pub fn behind<T>(&self, work: impl AsyncFnOnce(&Cloud) -> kiln_cloud::Result<T>) -> T {
        let cloud = self.fake.cloud().expect("a user");
        self.runtime.block_on(work(&cloud)).expect("it is done")
    }

    /// Takes all machines away; what the compartment had until then.
    pub fn end(self) -> Vec<String> {
        let left = self.fake.left();
        self.runtime.block_on(self.fake.remove_machines()).expect("the machines go");
        left
    }
}
