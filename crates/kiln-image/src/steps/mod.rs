//! The steps of a build that are the same for every family of systems. Those about packages are in `kiln-distro`.

use kiln_distro::Step;

use crate::recipe::Recipe;

/// Standard input: the binary; argument: its SHA-256.
pub const INSTALL_KILN: Step = Step { says: "copying kiln", script: include_str!("install-kiln.sh") };

/// Arguments: `NAME:NUMBER` of each.
pub const MAKE_SERVICE_USERS: Step =
    Step { says: "making service users", script: include_str!("make-service-users.sh") };

/// Kiln decides at configuration which services run on a node. Arguments: units to enable, `--`, units to disable.
pub const SETTLE_SERVICES: Step =
    Step { says: "disabling services", script: include_str!("settle-services.sh") };

/// Standard input: the content; arguments: path, mode and `USER:GROUP`.
pub const WRITE_FILE: Step = Step { says: "writing a file", script: include_str!("write-file.sh") };

/// Arguments: files to remove and directories to empty.
pub const CLEAN: Step = Step { says: "cleaning", script: include_str!("clean.sh") };

/// The texts of all scripts that make an image of the recipe. That which keeps packages for later does not change the image.
pub fn scripts_of(recipe: &Recipe) -> Vec<&'static str> {
    let family = recipe.family();
    let of_family = &family.steps;
    let mut scripts = vec![
        INSTALL_KILN.script,
        WRITE_FILE.script,
        SETTLE_SERVICES.script,
        CLEAN.script,
        family.sources.settle.script,
        family.installed.list,
        of_family.clean.script,
    ];
    if let Some(bootable) = of_family.bootable.as_ref().filter(|_| recipe.bootable) {
        scripts.push(bootable.script);
        return scripts;
    }
    if recipe.lock.is_some() {
        scripts.push(of_family.lock.script);
    }
    scripts.extend([
        of_family.update.script,
        of_family.reboot_for,
        MAKE_SERVICE_USERS.script,
        of_family.install.script,
    ]);
    if !recipe.hold.is_empty() {
        scripts.push(of_family.hold.script);
    }
    scripts
}

#[cfg(test)]
mod tests;
