//! `[role.ROLE]`: what the site adds to the nodes of a role.

use crate::written::table::table;
use crate::written::{List, Text};

table! {
    /// What the site adds to the nodes of a role.
    RolesTable {
        /// The control node.
        "control" => control: ExtrasTable;
        /// Login nodes.
        "login" => login: ExtrasTable;
        /// Compute nodes.
        "compute" => compute: ExtrasTable;
    }
}

table! {
    /// Packages, files and commands for the nodes of one role.
    ExtrasTable {
        /// Debian packages. They are installed when an image with this role is built, so a change here is a new image.
        "packages" => packages: List<Text>, empty;
        /// Commands that `kiln configure` runs as root, as one `sh` script with `set -eu`, when this list or one of the role's files has changed.
        "commands" => commands: List<Text>, empty;
        /// Files to write, each a table `[[role.ROLE.file]]`.
        "file" => file: List<FileTable>, empty;
    }
}

table! {
    /// A file on the nodes of a role.
    FileTable {
        /// Absolute path.
        "path" => path: Text, required;
        /// The whole content.
        "content" => content: Text, required;
        /// Permissions as an octal string.
        "mode" => mode: Text, default "0644";
        /// User that owns the file.
        "owner" => owner: Text, default "root";
        /// Group of the file.
        "group" => group: Text, default "root";
    }
}
