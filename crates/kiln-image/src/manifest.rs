//! What a built image contains, recorded when it was built.

use kiln_distro::Family;
use kiln_slurm::Release;
use kiln_wire::{Format, Version};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    #[serde(default)]
    pub format: Version<2>,
    pub recipe: String,
    /// A suite, or the name of the image it was built on.
    pub source: String,
    /// SHA-256 over the packages that the source came with, names and versions; absent in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_digest: Option<String>,
    /// Name of the family of systems that the packages are of.
    #[serde(default = "first_family")]
    pub family: String,
    /// What it added to its source: roles and sets of software. Absent in manifests of old.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub software: Vec<String>,
    /// The images that it was built on, the nearest first; the last is a plain one. Absent in manifests of old.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descent: Vec<Ancestor>,
    pub built: jiff::Timestamp,
    pub kiln: String,
    pub packages: Vec<Package>,
}

/// An image that another one was built on, also when it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// Its name in the cloud that it was built in.
    pub image: String,
    /// The digest of its recipe, if Kiln has built it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built: Option<jiff::Timestamp>,
    /// What it added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub software: Vec<String>,
}

impl Format for Manifest {
    const NAME: &'static str = "manifest of an image";
    const VERSION: u32 = 2;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// Empty in version 1.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// Absent in version 1, and for a package that no package source has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The only one there was when manifests did not say it.
fn first_family() -> String {
    Family::ALL[0].name.to_string()
}

impl Manifest {
    /// Reads a family's list of installed packages.
    pub fn packages_from(family: &Family, text: &str) -> Vec<Package> {
        let package = |line| {
            let listed = (family.installed.parse)(line)?;
            Some(Package {
                name: listed.name.to_string(),
                version: listed.version.to_string(),
                architecture: listed.architecture.to_string(),
                sha256: listed.sha256.map(String::from),
            })
        };
        text.lines().filter_map(package).collect()
    }

    /// Digest of what an image came with.
    pub fn digest_of(packages: &[Package]) -> String {
        let mut lines: Vec<String> =
            packages.iter().map(|p| format!("{} {} {}\n", p.name, p.version, p.architecture)).collect();
        lines.sort_unstable();
        hex::encode(Sha256::digest(lines.concat()))
    }

    pub fn slurm(&self) -> Option<Release> {
        let is_slurm =
            |package: &&Package| Family::ALL.iter().any(|f| f.packages("slurm-client")[0] == package.name);
        self.packages.iter().find(is_slurm)?.version.parse().ok()
    }

    pub fn family(&self) -> &'static Family {
        Family::named(&self.family).unwrap_or(Family::ALL[0])
    }
}

/// With packages given as `NAME VERSION ARCHITECTURE`, a line each.
#[cfg(test)]
pub(crate) fn test_manifest(packages: &str) -> Manifest {
    let lines: String = packages.lines().map(|line| line.replace(' ', "\t") + "\t-\n").collect();
    Manifest {
        format: Version,
        recipe: "r".into(),
        source: "bookworm".into(),
        source_digest: None,
        software: Vec::new(),
        descent: Vec::new(),
        family: "debian".into(),
        built: jiff::Timestamp::UNIX_EPOCH,
        kiln: "1".into(),
        packages: Manifest::packages_from(Family::ALL[0], &lines),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "c24fe4eb8e60d8632d72ed104cce7c92cff200847c897dc8ba764b6c47b519e0";

    fn manifest() -> Manifest {
        let listed =
            format!("munge\t0.5.15-2\tamd64\t{SUM}\nslurm-client\t22.05.8-4+deb12u3\tamd64\t-\nodd line\n");
        let packages = Manifest::packages_from(Family::ALL[0], &listed);
        Manifest {
            format: Version,
            recipe: "r".into(),
            source: "bookworm".into(),
            source_digest: Some(Manifest::digest_of(&packages)),
            software: Vec::new(),
            descent: Vec::new(),
            family: "debian".into(),
            built: jiff::Timestamp::UNIX_EPOCH,
            kiln: "1".into(),
            packages,
        }
    }

    #[test]
    fn the_slurm_release_is_read_from_the_packages() {
        assert_eq!(manifest().packages.len(), 2);
        assert_eq!(manifest().slurm(), Some(Release::new(22, 5, 8)));
    }

    #[test]
    fn a_manifest_comes_back_as_it_was() {
        let json = manifest().to_json().unwrap();
        assert_eq!(Manifest::from_json(&json).unwrap(), manifest());
        assert_eq!(Manifest::version_of(&json), Some(2));
        let text = String::from_utf8(json).unwrap();
        assert!(text.contains(&format!(r#""architecture":"amd64","sha256":"{SUM}""#)), "{text}");
    }

    #[test]
    fn one_of_an_older_kiln_is_read_and_one_of_a_newer_is_not() {
        let old = br#"{"recipe":"r","source":"bookworm","built":"2026-01-01T00:00:00Z","kiln":"0.1.0",
            "packages":[{"name":"munge","version":"0.5.15-2"}]}"#;
        let old = Manifest::from_json(old).unwrap();
        assert_eq!((old.family().name, old.source_digest.clone()), ("debian", None));
        assert_eq!((old.packages[0].architecture.as_str(), old.packages[0].sha256.clone()), ("", None));
        assert!(Manifest::from_json(br#"{"format":3,"packages":"x"}"#).is_err());
    }

    #[test]
    fn the_digest_of_a_source_depends_on_versions_and_not_on_the_order() {
        let mut packages = manifest().packages;
        let digest = Manifest::digest_of(&packages);
        packages.reverse();
        assert_eq!(Manifest::digest_of(&packages), digest);
        packages[0].version.push('1');
        assert_ne!(Manifest::digest_of(&packages), digest);
    }
}
