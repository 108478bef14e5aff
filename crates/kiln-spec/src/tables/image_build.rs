//! `[image.NAME.build]` and `[image.NAME.properties]`: the machine that an image is built on, and what the cloud is told of the
//! result. Neither changes what is inside.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::diagnostic::Findings;
use crate::validate::names;
use crate::written::table::table;
use crate::written::{At, Choice, Named, Text};
use crate::{BuildSpec, CloudFacts, Firmware, ImageProperties, Visibility, units};

table! {
    /// The machine that an image is built on.
    BuildTable {
        /// Its flavor.
        "flavor" => flavor: Text, otherwise "that of the control node";
        /// OpenStack: name of an existing network to build in.
        "network" => network: Text, otherwise "the `network` of the cloud, or one that is made for the build";
        /// OpenStack: size of the root disk, which is a volume then, e.g. `35 GiB`.
        "disk" => disk: Text, otherwise "like those of nodes";
        /// How long a build may take before it is given up, e.g. `90m`.
        "timeout" => timeout: Text, default "2h";
    }
}

table! {
    /// What the cloud is told of an image.
    PropertiesTable {
        /// How instances boot.
        "firmware" => firmware: At<Firmware>;
        /// Machine type of instances, such as `q35`.
        "machine_type" => machine_type: Text;
        /// How disks are attached, such as `virtio` or `scsi`.
        "disk_bus" => disk_bus: Text;
        /// The user that administrators log in as.
        "admin_user" => admin_user: Text;
        /// Who may use the image.
        "visibility" => visibility: At<Visibility>, otherwise "the cloud's default, mostly your project alone";
        /// The smallest root disk that it is for, e.g. `10 GiB`.
        "min_disk" => min_disk: Text;
        /// Any other property, in OpenStack's own words.
        "other" => other: Named<Text>, empty;
    }
}

impl Choice for Firmware {
    const WORDS: &'static [(&'static str, Self)] = &[("bios", Firmware::Bios), ("uefi", Firmware::Uefi)];
}

impl Choice for Visibility {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("private", Visibility::Private),
        ("shared", Visibility::Shared),
        ("community", Visibility::Community),
        ("public", Visibility::Public),
    ];
}

/// `local`: the facts of a cloud whose machines are on this host, if it is one.
pub(crate) fn build(
    written: Option<&BuildTable>,
    local: Option<&CloudFacts>,
    findings: &mut Findings<'_>,
) -> BuildSpec {
    let default = BuildTable::default();
    let table = written.unwrap_or(&default);
    let timeout = units::duration(&table.timeout.value);
    if timeout.is_none() {
        let message = format!("`{}` is not a duration", table.timeout.value);
        findings
            .error("bad-duration", table.timeout.span.clone(), message)
            .expected("e.g. \"2h\" or \"90m\"");
    }
    for (key, text) in [("flavor", &table.flavor), ("network", &table.network), ("disk", &table.disk)] {
        let Some(text) = text else { continue };
        names::check_one_line(&format!("`{key}`"), text, findings);
        if key != "flavor" && local.is_some() {
            let message = format!("builds on the local cloud have no `{key}`");
            findings.error("bad-image", text.span.clone(), message).expected("no such key");
        }
    }
    BuildSpec {
        flavor: table.flavor.as_ref().map(|text| text.value.clone()),
        network: table.network.as_ref().map(|text| text.value.clone()),
        disk_gib: table.disk.as_ref().and_then(|size| size_of(size, findings)),
        timeout: timeout.unwrap_or(Duration::ZERO),
    }
}

fn size_of(written: &Text, findings: &mut Findings<'_>) -> Option<u64> {
    let size = units::size_gib(&written.value);
    size.map_err(|expected| {
        let message = format!("`{}` is not a size", written.value);
        findings.error("bad-size", written.span.clone(), message).expected(expected);
    })
    .ok()
}

pub(crate) fn properties(written: Option<&PropertiesTable>, findings: &mut Findings<'_>) -> ImageProperties {
    let Some(table) = written else {
        return ImageProperties::default();
    };
    let lines = [
        ("machine_type", &table.machine_type),
        ("disk_bus", &table.disk_bus),
        ("admin_user", &table.admin_user),
    ];
    for (key, text) in lines {
        if let Some(text) = text {
            names::check_one_line(&format!("`{key}`"), text, findings);
        }
    }
    for (name, value) in &table.other {
        names::check_one_line("a property", value, findings);
        if name.value.starts_with("kiln_") {
            let message = format!("property `{}` is Kiln's own", name.value);
            findings.error("reserved-name", name.span.clone(), message).expected("another name");
        } else if let Some((key, _)) = ImageProperties::NAMES.iter().find(|(_, own)| *own == name.value) {
            let message = format!("property `{}` has a key of its own", name.value);
            findings.error("bad-image", name.span.clone(), message).expected(format!("`{key} = ...`"));
        }
    }
    let text = |text: &Option<Text>| text.as_ref().map(|text| text.value.clone());
    let other: BTreeMap<String, String> =
        table.other.iter().map(|(name, value)| (name.value.clone(), value.value.clone())).collect();
    ImageProperties {
        firmware: table.firmware.as_ref().map(|firmware| firmware.value),
        machine_type: text(&table.machine_type),
        disk_bus: text(&table.disk_bus),
        admin_user: text(&table.admin_user),
        visibility: table.visibility.as_ref().map(|visibility| visibility.value),
        min_disk_gib: table.min_disk.as_ref().and_then(|size| size_of(size, findings)),
        other,
    }
}
