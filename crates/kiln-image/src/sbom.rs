//! A software bill of materials: SPDX 2.3 as JSON, made from an image's manifest. Licences are not known here and
//! are said not to be.

use kiln_distro::Family;
use serde::Serialize;

use crate::manifest::{Manifest, Package};

const UNKNOWN: &str = "NOASSERTION";
const DOCUMENT: &str = "SPDXRef-DOCUMENT";
const IMAGE: &str = "SPDXRef-Image";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sbom {
    spdx_version: &'static str,
    data_license: &'static str,
    #[serde(rename = "SPDXID")]
    id: &'static str,
    name: String,
    document_namespace: String,
    creation_info: CreationInfo,
    packages: Vec<SpdxPackage>,
    relationships: Vec<Relationship>,
}

#[derive(Debug, Serialize)]
struct CreationInfo {
    created: String,
    creators: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SpdxPackage {
    #[serde(rename = "SPDXID")]
    id: String,
    name: String,
    version_info: String,
    download_location: &'static str,
    files_analyzed: bool,
    license_concluded: &'static str,
    license_declared: &'static str,
    copyright_text: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checksums: Vec<Checksum>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external_refs: Vec<ExternalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    primary_package_purpose: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checksum {
    algorithm: &'static str,
    checksum_value: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names of SPDX")]
struct ExternalRef {
    reference_category: &'static str,
    reference_type: &'static str,
    reference_locator: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names of SPDX")]
struct Relationship {
    spdx_element_id: &'static str,
    relationship_type: &'static str,
    related_spdx_element: String,
}

impl Sbom {
    /// The same image always yields the same document.
    pub fn of(image: &str, manifest: &Manifest) -> Sbom {
        let family = manifest.family();
        let mut packages = vec![whole(image, manifest)];
        packages.extend(manifest.packages.iter().enumerate().map(|(at, package)| one(at, family, package)));
        let contains = packages.iter().skip(1).map(|package| Relationship {
            spdx_element_id: IMAGE,
            relationship_type: "CONTAINS",
            related_spdx_element: package.id.clone(),
        });
        let describes = Relationship {
            spdx_element_id: DOCUMENT,
            relationship_type: "DESCRIBES",
            related_spdx_element: IMAGE.to_string(),
        };
        Sbom {
            spdx_version: "SPDX-2.3",
            data_license: "CC0-1.0",
            id: DOCUMENT,
            name: image.to_string(),
            document_namespace: format!(
                "https://spdx.org/spdxdocs/kiln-{}-{}",
                id_text(image),
                Manifest::digest_of(&manifest.packages)
            ),
            creation_info: CreationInfo {
                created: manifest.built.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                creators: vec![format!("Tool: kiln-{}", manifest.kiln)],
            },
            relationships: std::iter::once(describes).chain(contains).collect(),
            packages,
        }
    }
}

fn whole(image: &str, manifest: &Manifest) -> SpdxPackage {
    SpdxPackage {
        id: IMAGE.to_string(),
        name: image.to_string(),
        version_info: manifest.recipe.clone(),
        primary_package_purpose: Some("OPERATING-SYSTEM"),
        ..blank()
    }
}

fn one(at: usize, family: &Family, package: &Package) -> SpdxPackage {
    let checksums = package.sha256.iter().filter(|_| family.installed.hash_of_file);
    let checksums = checksums.map(|sum| Checksum { algorithm: "SHA256", checksum_value: sum.clone() });
    let architecture = match package.architecture.as_str() {
        "" => String::new(),
        known => format!("?arch={}", url_text(known)),
    };
    let (name, version) = (url_text(&package.name), url_text(&package.version));
    let locator = format!("{}/{name}@{version}{architecture}", family.installed.url);
    SpdxPackage {
        // Numbered, because two names may differ only in signs that an id cannot have.
        id: format!("SPDXRef-Package-{at}-{}", id_text(&package.name)),
        name: package.name.clone(),
        version_info: package.version.clone(),
        checksums: checksums.collect(),
        external_refs: vec![ExternalRef {
            reference_category: "PACKAGE-MANAGER",
            reference_type: "purl",
            reference_locator: locator,
        }],
        ..blank()
    }
}

fn blank() -> SpdxPackage {
    SpdxPackage {
        id: String::new(),
        name: String::new(),
        version_info: String::new(),
        download_location: UNKNOWN,
        files_analyzed: false,
        license_concluded: UNKNOWN,
        license_declared: UNKNOWN,
        copyright_text: UNKNOWN,
        checksums: Vec::new(),
        external_refs: Vec::new(),
        primary_package_purpose: None,
    }
}

/// Letters, digits, dots and hyphens.
fn id_text(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

/// As a package URL has it.
fn url_text(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::test_manifest;

    #[test]
    fn every_package_is_named_with_its_url_and_hash() {
        let mut manifest = test_manifest("libstdc++6 1:12.2.0-14+deb12u1 amd64\nown 1 all\n");
        manifest.packages[0].sha256 = Some("ab".repeat(32));
        let json = serde_json::to_value(Sbom::of("default-1", &manifest)).unwrap();
        assert_eq!(json["spdxVersion"], "SPDX-2.3");
        assert_eq!(json["creationInfo"]["created"], "1970-01-01T00:00:00Z");
        let packages = json["packages"].as_array().unwrap();
        assert_eq!(packages.len(), 3);
        assert_eq!(packages[1]["SPDXID"], "SPDXRef-Package-0-libstdc--6");
        assert_eq!(
            packages[1]["externalRefs"][0]["referenceLocator"],
            "pkg:deb/debian/libstdc%2B%2B6@1%3A12.2.0-14%2Bdeb12u1?arch=amd64"
        );
        assert_eq!(packages[1]["checksums"][0]["checksumValue"], "ab".repeat(32));
        assert!(packages[2].get("checksums").is_none());
        assert_eq!(json["relationships"].as_array().unwrap().len(), 3);
    }
}
