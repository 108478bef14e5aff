//! Packages of an image that another list has newer versions of.

use std::collections::BTreeMap;

use kiln_distro::ListedPackage;
use serde::Serialize;

use crate::manifest::Manifest;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Newer {
    pub name: String,
    pub architecture: String,
    pub installed: String,
    pub available: String,
}

impl Manifest {
    /// Those of which the list has a version that is newer than any that the image has.
    pub fn newer_in(&self, list: &[ListedPackage<'_>]) -> Vec<Newer> {
        let compare = self.family().installed.compare;
        // Kernels can be installed in several versions.
        let mut installed: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for package in &self.packages {
            let newest = installed.entry((&package.name, &package.architecture)).or_insert(&package.version);
            if compare(&package.version, newest).is_gt() {
                *newest = &package.version;
            }
        }
        let mut newer: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for offered in list {
            // Manifests of an older Kiln have no architectures.
            let keys = [(offered.name, offered.architecture), (offered.name, "")];
            let Some((key, version)) = keys.into_iter().find_map(|key| Some((key, *installed.get(&key)?)))
            else {
                continue;
            };
            let best = newer.get(&key).copied().unwrap_or(version);
            if compare(offered.version, best).is_gt() {
                newer.insert(key, offered.version);
            }
        }
        let found = |(key, available): ((&str, &str), &str)| Newer {
            name: key.0.to_string(),
            architecture: key.1.to_string(),
            installed: installed[&key].to_string(),
            available: available.to_string(),
        };
        newer.into_iter().map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Package;

    fn listed<'a>(name: &'a str, version: &'a str) -> ListedPackage<'a> {
        ListedPackage { name, version, architecture: "amd64", sha256: None }
    }

    #[test]
    fn only_what_is_installed_and_older_counts() {
        let package = |name: &str, version: &str, architecture: &str| Package {
            name: name.into(),
            version: version.into(),
            architecture: architecture.into(),
            sha256: None,
        };
        let manifest = Manifest {
            format: kiln_wire::Version,
            recipe: String::new(),
            source: String::new(),
            source_digest: None,
            family: "debian".into(),
            software: vec![],
            descent: vec![],
            built: jiff::Timestamp::UNIX_EPOCH,
            kiln: String::new(),
            packages: vec![
                package("bash", "5.2-1", "amd64"),
                package("curl", "8.1-10", "amd64"),
                package("dash", "1.0", ""),
                package("hello", "2.0", "all"),
            ],
        };
        let list = [
            listed("bash", "5.2-1+deb13u1"),
            listed("bash", "5.2-1+deb13u2"),
            listed("curl", "8.1-9"),
            listed("dash", "1.1"),
            listed("hello", "3.0"),
            listed("other", "9"),
        ];
        let found: Vec<String> = manifest
            .newer_in(&list)
            .into_iter()
            .map(|n| format!("{} {} {}", n.name, n.installed, n.available))
            .collect();
        assert_eq!(found, ["bash 5.2-1 5.2-1+deb13u2", "dash 1.0 1.1"]);
    }
}
