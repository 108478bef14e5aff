//! `[software.NAME]`: a set of software of the site's, which images have under one name.

use std::collections::BTreeMap;

use super::image::{check_source_names, names_of};
use super::role::{self, FileTable};
use crate::diagnostic::Findings;
use crate::merge::Merged;
use crate::validate::{names, own_files};
use crate::written::table::table;
use crate::written::{List, Text};
use crate::{Role, Software, SoftwareSpec};

table! {
    /// A set of software of the site's, for images that name it in `software`.
    SoftwareTable {
        /// Packages. `NAME=VERSION` pins a version.
        "packages" => packages: List<Text>, empty;
        /// Names of tables `[source.NAME]` that the packages come from, in addition to the sources of the image.
        "sources" => sources: List<Text>, empty;
        /// Files that are written after the packages are installed, each a table `[[software.NAME.file]]`.
        "file" => file: List<FileTable>, empty;
        /// Shell commands that run as root after the files are written, in order. The build fails if one of them fails.
        "commands" => commands: List<Text>, empty;
    }
}

pub(crate) fn validate(merged: &Merged, findings: &mut Findings<'_>) -> BTreeMap<String, SoftwareSpec> {
    let mut sets = BTreeMap::new();
    for (name, table) in &merged.software {
        names::check_name("set of software", name, findings);
        if Software::of(&name.value).is_some() || Role::of(&name.value).is_some() {
            let message = format!("software cannot be named `{}`: Kiln has its own of this name", name.value);
            findings.error("reserved-name", name.span.clone(), message).expected("another name");
        }
        check_source_names(merged, &table.sources, findings);
        sets.insert(
            name.value.clone(),
            SoftwareSpec {
                name: name.value.clone(),
                packages: role::packages(Some(&table.packages), findings),
                sources: names_of(&table.sources),
                files: role::files(&table.file, own_files::check_of_image, findings),
                commands: role::commands(Some(&table.commands), findings),
            },
        );
    }
    sets
}
