//! The site's syslog server, which gets the logs of every node, too.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{file, service};

use super::{Context, Service};

/// Its unit is not among those that images are built with: images of clusters without it would be others for it.
pub const SYSLOG: Service = Service {
    name: "syslog",
    asked_for: Some(|spec| spec.system.syslog.is_some()),
    software: |_| &["rsyslog"],
    resources,
    health,
    ..Service::EMPTY
};

const UNIT: &str = "rsyslog.service";
const CONF: &str = "/etc/rsyslog.d/90-kiln.conf";

/// While the server is away, a node keeps the newest lines, and goes on.
fn resources(context: &Context<'_>) -> Vec<Resource> {
    let Some(server) = &context.spec.system.syslog else { return Vec::new() };
    let text = format!(
        "# Written by Kiln.\n*.* action(type=\"omfwd\" target=\"{}\" port=\"{}\" protocol=\"tcp\"\n\
         \x20          queue.type=\"LinkedList\" queue.size=\"10000\" action.resumeRetryCount=\"-1\")\n",
        server.host, server.port
    );
    vec![Resource::File(file(CONF, text)), Resource::Service(service(UNIT, &[&format!("file:{CONF}")]))]
}

fn health(_: &Spec, _: Role) -> Vec<Question> {
    vec![Question::new("rsyslog.service does not run", &["systemctl", "--quiet", "is-active", UNIT])]
}
