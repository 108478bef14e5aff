//! What differs between Debian's packages and RPMs: each has a plugin of its own, with the same calls at other paths.

use kiln_distro::PackageFormat;
use serde_json::{Value, json};

pub(crate) trait Plugin {
    /// What the server calls it.
    fn component(self) -> &'static str;
    /// What people call it.
    fn name(self) -> &'static str;
    fn remotes(self) -> &'static str;
    fn repositories(self) -> &'static str;
    fn publications(self) -> &'static str;
    fn distributions(self) -> &'static str;
    /// The kind of content that is counted.
    fn package(self) -> &'static str;
    /// A sync after which the repository has what upstream has, and no more.
    fn mirror(self) -> Value;
}

impl Plugin for PackageFormat {
    fn component(self) -> &'static str {
        match self {
            PackageFormat::Deb => "deb",
            PackageFormat::Rpm => "rpm",
        }
    }

    fn name(self) -> &'static str {
        match self {
            PackageFormat::Deb => "plugin for Debian packages (pulp-deb)",
            PackageFormat::Rpm => "plugin for RPMs (pulp-rpm)",
        }
    }

    fn remotes(self) -> &'static str {
        match self {
            PackageFormat::Deb => "remotes/deb/apt/",
            PackageFormat::Rpm => "remotes/rpm/rpm/",
        }
    }

    fn repositories(self) -> &'static str {
        match self {
            PackageFormat::Deb => "repositories/deb/apt/",
            PackageFormat::Rpm => "repositories/rpm/rpm/",
        }
    }

    fn publications(self) -> &'static str {
        match self {
            // As it was upstream, with upstream's signature.
            PackageFormat::Deb => "publications/deb/verbatim/",
            // Signatures are in the packages.
            PackageFormat::Rpm => "publications/rpm/rpm/",
        }
    }

    fn distributions(self) -> &'static str {
        match self {
            PackageFormat::Deb => "distributions/deb/apt/",
            PackageFormat::Rpm => "distributions/rpm/rpm/",
        }
    }

    fn package(self) -> &'static str {
        match self {
            PackageFormat::Deb => "deb.package",
            PackageFormat::Rpm => "rpm.package",
        }
    }

    fn mirror(self) -> Value {
        match self {
            PackageFormat::Deb => json!({"mirror": true}),
            PackageFormat::Rpm => json!({"sync_policy": "mirror_content_only"}),
        }
    }
}
