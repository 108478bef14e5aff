//! What tests begin with, in this crate and in others: a whole value, to change the one thing that matters in.

use std::path::Path;

use jiff::Timestamp;

use crate::{Instance, InstanceStatus, Labels};

/// An instance that runs, as old as can be, of no cluster.
pub fn instance(name: &str) -> Instance {
    Instance {
        id: name.into(),
        name: name.into(),
        status: InstanceStatus::Active,
        image: None,
        flavor: "tiny".into(),
        address: None,
        public_address: None,
        labels: Labels::new(),
        volumes: vec![],
        created: Timestamp::UNIX_EPOCH,
        built: None,
    }
}

/// Reads an entry of a `clouds.yaml` as the OpenStack driver does.
pub fn read_clouds_yaml(path: &Path, cloud: &str) -> crate::Result<()> {
    crate::openstack::read_clouds_yaml(path, cloud)
}
