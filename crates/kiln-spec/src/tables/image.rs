//! `[image.NAME]`: a root disk with all software and no cluster configuration.

use crate::Role;
use crate::written::table::table;
use crate::written::{At, List, Text};

table! {
    /// An image: a root disk with all software and no cluster configuration.
    ImageTable {
        /// Where the build starts: another image of this file; or, on `local`, a Debian suite (`bookworm`, `trixie`, `forky`); or, on `openstack`, an image of the cloud by name or id.
        "source" => source: Text, otherwise "`bookworm` on `local`, required on `openstack`";
        /// An existing image of the cloud, by name or id, that is used as it is. Nothing is built, and no other key is allowed but `roles`.
        "prebuilt" => prebuilt: Text;
        /// Roles whose software is installed. An image that is built upon another one has that image's software already; its own `roles` then only select which `[role.*].packages` are added.
        "roles" => roles: List<At<Role>>, otherwise "all three";
        /// Debian packages to add. `NAME=VERSION` pins a version.
        "packages" => packages: List<Text>;
        /// Shell commands that run as root at the end of the build, in order. The build fails if one of them fails.
        "commands" => commands: List<Text>;
        /// URL of the package mirror that all package sources are set to.
        "mirror" => mirror: Text, otherwise "the mirror of the source";
    }
}
