//! What a cloud is told of an image, so that instances of it get the right machine.

use std::collections::BTreeMap;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    Bios,
    Uefi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    Private,
    Shared,
    Community,
    Public,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImageProperties {
    pub firmware: Option<Firmware>,
    pub machine_type: Option<String>,
    pub disk_bus: Option<String>,
    pub admin_user: Option<String>,
    pub visibility: Option<Visibility>,
    pub min_disk_gib: Option<u64>,
    /// In OpenStack's own words.
    pub other: BTreeMap<String, String>,
}

impl ImageProperties {
    /// Keys of the file, and what OpenStack calls them.
    pub const NAMES: [(&'static str, &'static str); 6] = [
        ("firmware", "hw_firmware_type"),
        ("machine_type", "hw_machine_type"),
        ("disk_bus", "hw_disk_bus"),
        ("admin_user", "os_admin_user"),
        ("visibility", "visibility"),
        ("min_disk", "min_disk"),
    ];

    /// In OpenStack's words. Other clouds keep them with the image.
    pub fn in_cloud(&self) -> BTreeMap<String, String> {
        let firmware = self.firmware.map(|firmware| match firmware {
            Firmware::Bios => "bios",
            Firmware::Uefi => "uefi",
        });
        let visibility = self.visibility.map(|visibility| match visibility {
            Visibility::Private => "private",
            Visibility::Shared => "shared",
            Visibility::Community => "community",
            Visibility::Public => "public",
        });
        let values = [
            firmware.map(String::from),
            self.machine_type.clone(),
            self.disk_bus.clone(),
            self.admin_user.clone(),
            visibility.map(String::from),
            self.min_disk_gib.map(|size| size.to_string()),
        ];
        let named = ImageProperties::NAMES.iter().zip(values);
        let named = named.filter_map(|((_, name), value)| Some(((*name).to_string(), value?)));
        named.chain(self.other.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_is_told() {
        assert_eq!(ImageProperties::default().in_cloud(), BTreeMap::new());
        let told = ImageProperties {
            firmware: Some(Firmware::Uefi),
            min_disk_gib: Some(3),
            other: [("hw_rng_model".to_string(), "virtio".to_string())].into(),
            ..ImageProperties::default()
        };
        let told: Vec<String> =
            told.in_cloud().iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(told, ["hw_firmware_type=uefi", "hw_rng_model=virtio", "min_disk=3"]);
    }
}
