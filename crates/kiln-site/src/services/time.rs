//! Time synchronisation: MUNGE refuses credentials whose time is minutes off, and logs of several nodes are read together. The
//! image's own servers are used; a site that has others replaces the file of chrony.

use super::{Service, Starts, Unit};

pub const TIME: Service = Service {
    name: "time",
    wanted: Some(|spec| spec.cloud.facts().has_clocks),
    software: |_| &["chrony"],
    units: &[Unit::new("chronyd.service").starts(Starts::WithSystem)],
    ..Service::EMPTY
};
