//! What the site adds to a role: its own files and commands.

use kiln_spec::ExtraFile;
use kiln_wire::Resource;
use kiln_wire::make::{command, file};

use super::{Context, Service};

pub const SITE_FILES: Service = Service { name: "site files", resources, ..Service::EMPTY };

/// The commands run again when their list or one of the files changed.
fn resources(context: &Context<'_>) -> Vec<Resource> {
    let extras = context.spec.roles.of(context.role);
    let mut resources: Vec<Resource> = Vec::new();
    let mut watched: Vec<String> = Vec::new();
    for resource in extras.files.iter().map(site_file) {
        watched.push(resource.id());
        resources.push(resource);
    }
    if !extras.commands.is_empty() {
        let script = extras
            .commands
            .iter()
            .fold(String::from("#!/bin/sh\n# Written by Kiln.\nset -eu\n"), |text, line| text + line + "\n");
        let script = Resource::File(file("/etc/kiln/site-commands", script).owned_by("root", 0o700));
        watched.push(script.id());
        resources.push(script);
        let mut run = command("site commands", &["/etc/kiln/site-commands"]);
        run.when_changed = watched;
        resources.push(Resource::Command(run));
    }
    resources
}

pub fn site_file(extra: &ExtraFile) -> Resource {
    let mut resource = file(&extra.path, &extra.content);
    resource.mode = extra.mode;
    resource.owner.clone_from(&extra.owner);
    resource.group.clone_from(&extra.group);
    Resource::File(resource)
}
