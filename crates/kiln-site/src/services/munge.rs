//! MUNGE, by which Slurm's daemons and users know each other.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{file, service};

use super::accounting::PLACE_ID;
use super::{Context, ForJobs, Service, Unit};
use crate::secret::{Form, Secret};
use crate::service_users;

pub const MUNGE: Service = Service {
    name: "munge",
    software: |_| &["munge"],
    users: &[service_users::MUNGE],
    units: &[Unit::new(UNIT)],
    secrets: &[MUNGE_KEY],
    leftovers: &[KEY_FILE],
    resources,
    for_jobs: ForJobs::Works,
    health,
    ..Service::EMPTY
};

pub const MUNGE_KEY: Secret = Secret {
    name: "munge-key",
    purpose: "authenticates Slurm's daemons and users to one another",
    form: Form::Base64(128),
    on_nodes: true,
};

const UNIT: &str = "munge.service";
const KEY_FILE: &str = "/etc/munge/munge.key";

/// Every daemon of Slurm is restarted when it changes.
pub const KEY_ID: &str = "file:/etc/munge/munge.key";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let mut key = file(KEY_FILE, context.secrets.value(&MUNGE_KEY)).owned_by("munge", 0o400).secret();
    key.base64 = true;
    if context.role == Role::Control {
        key = key.needs(PLACE_ID);
    }
    vec![Resource::File(key), Resource::Service(service(context.family.unit(UNIT), &[KEY_ID]))]
}

/// A credential that the node makes and reads itself.
fn health(_: &Spec, _: Role) -> Vec<Question> {
    let round_trip = ["sh", "-c", "munge --no-input | unmunge --output=/dev/null"];
    vec![Question::new("munge does not read its own credentials", &round_trip)]
}
