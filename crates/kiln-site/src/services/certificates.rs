//! The site's certificate authorities, which every program of a node trusts then.

use kiln_wire::Resource;
use kiln_wire::make::{command, directory, file};

use super::{Context, Service};

pub const CERTIFICATES: Service = Service { name: "certificates", resources, ..Service::EMPTY };

/// Also where there are none: there may have been.
fn resources(context: &Context<'_>) -> Vec<Resource> {
    let folder = context.family.paths.certificates;
    let mut resources = vec![directory(folder, "root", 0o755)];
    for certificate in &context.spec.system.certificates {
        let path = format!("{folder}/kiln-{}.crt", certificate.name);
        resources.push(Resource::File(file(path, &certificate.content)));
    }
    let watched: Vec<String> = resources.iter().map(Resource::id).collect();
    let watched: Vec<&str> = watched.iter().map(String::as_str).collect();
    let update = command("certificates", context.family.update_certificates).when_changed(&watched);
    resources.push(Resource::Command(update));
    resources
}
