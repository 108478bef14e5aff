//! Time synchronisation: MUNGE refuses credentials whose time is minutes off, and logs of several nodes are read together. And
//! the time zone in which nodes show it.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::bundle::Link;
use kiln_wire::checkup::Question;
use kiln_wire::make::{directory, file, service};

use super::{Context, Service, Starts, Unit};

pub const TIME: Service = Service {
    name: "time",
    wanted: Some(|spec| spec.cloud.facts().has_kernels),
    software: |_| &["chrony"],
    units: &[Unit::new(UNIT).starts(Starts::WithSystem)],
    resources,
    health,
    ..Service::EMPTY
};

pub const TIME_ZONE: Service = Service {
    name: "time zone",
    asked_for: Some(|spec| spec.time.zone.is_some()),
    software: |_| &["tzdata"],
    resources: |context| {
        let zone = context.spec.time.zone.iter();
        let link = |zone: &String| Link {
            path: "/etc/localtime".into(),
            target: format!("/usr/share/zoneinfo/{zone}"),
        };
        zone.map(|zone| Resource::Link(link(zone))).collect()
    },
    ..Service::EMPTY
};

const UNIT: &str = "chronyd.service";
/// A file of its own: without it, the image's servers are used again. Where Debian's AppArmor lets chronyd read.
const FOLDER: &str = "/etc/chrony";
const CONF: &str = "/etc/chrony/kiln.conf";
const OPTIONS: &str = "/etc/chrony/kiln.options";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let unit = context.family.unit(UNIT);
    let drop_in = format!("/etc/systemd/system/{unit}.d/kiln.conf");
    let mut resources = vec![directory(FOLDER, "root", 0o755)];
    if !context.spec.time.servers.is_empty() {
        let servers = context.spec.time.servers.iter().map(|server| format!("server {server} iburst\n"));
        let conf = format!(
            "# Written by Kiln.\n{}driftfile /var/lib/chrony/chrony.drift\nmakestep 1 3\nrtcsync\n",
            servers.collect::<String>()
        );
        // The unit goes on as its system has it: as whom and how the daemon starts differs. Its options have these names on Debian
        // and on others.
        let options = ["DAEMON_OPTS", "OPTIONS"].map(|name| format!("{name}=\"-F 1 -f {CONF}\"\n"));
        let text = format!(
            "# Written by Kiln: the servers of cluster.toml.\n[Service]\nEnvironmentFile={OPTIONS}\n"
        );
        resources.extend(
            [(drop_in.as_str(), text), (OPTIONS, options.concat()), (CONF, conf)]
                .map(|(path, text)| Resource::File(file(path, text))),
        );
    }
    let watched: Vec<String> = resources.iter().map(Resource::id).collect();
    let watched: Vec<&str> = watched.iter().map(String::as_str).collect();
    resources.push(Resource::Service(service(unit, &watched)));
    resources
}

fn health(_: &Spec, _: Role) -> Vec<Question> {
    let question = Question::new("the clock is not synchronised", &["chronyc", "tracking"]);
    // Of the leap status, which is "Not synchronised" otherwise.
    vec![question.shows(": Normal")]
}
