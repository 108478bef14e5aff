//! The steps of a build that are the same for every family of systems. Those about packages are in `kiln-distro`.

use kiln_distro::Step;

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

#[cfg(test)]
mod tests;
