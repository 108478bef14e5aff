//! The site's certificate authorities, which every program of a node trusts then.

use kiln_distro::Family;
use kiln_spec::Spec;
use kiln_wire::Resource;
use kiln_wire::make::{command, directory, file};

use super::{Context, Service};

pub const CERTIFICATES: Service = Service { name: "certificates", resources, ..Service::EMPTY };

/// Names and paths, in the order of the file.
pub(super) fn files(spec: &Spec, family: &Family) -> impl Iterator<Item = (String, String)> {
    let folder = family.paths.certificates;
    spec.system
        .certificates
        .iter()
        .map(move |one| (one.name.clone(), format!("{folder}/kiln-{}.crt", one.name)))
}

/// Also where there are none: there may have been.
fn resources(context: &Context<'_>) -> Vec<Resource> {
    let folder = context.family.paths.certificates;
    let mut resources = vec![directory(folder, "root", 0o755)];
    let written = files(context.spec, context.family).zip(&context.spec.system.certificates);
    resources.extend(written.map(|((_, path), one)| Resource::File(file(path, &one.content))));
    let watched: Vec<String> = resources.iter().map(Resource::id).collect();
    let watched: Vec<&str> = watched.iter().map(String::as_str).collect();
    let update = command("certificates", context.family.update_certificates).when_changed(&watched);
    resources.push(Resource::Command(update));
    resources
}
