//! Time synchronisation: MUNGE refuses credentials whose time is minutes off, and logs of several nodes are read together. The
//! image's own servers are used; a site that has others replaces the file of chrony.

use kiln_spec::{Role, Spec};
use kiln_wire::checkup::Question;

use super::{Service, Starts, Unit};

pub const TIME: Service = Service {
    name: "time",
    wanted: Some(|spec| spec.cloud.facts().has_kernels),
    software: |_| &["chrony"],
    units: &[Unit::new("chronyd.service").starts(Starts::WithSystem)],
    health,
    ..Service::EMPTY
};

fn health(_: &Spec, _: Role) -> Vec<Question> {
    let question = Question::new("the clock is not synchronised", &["chronyc", "tracking"]);
    // Of the leap status, which is "Not synchronised" otherwise.
    vec![question.shows(": Normal")]
}
