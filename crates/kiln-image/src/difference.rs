//! What packages one image has and another one has not.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::manifest::{Manifest, Package};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub added: Vec<Package>,
    pub removed: Vec<Package>,
    pub changed: Vec<Change>,
    /// What an administrator wants to know first, in a few words each: `slurm 24.11.5-4 -> 24.11.5-5`.
    #[serde(skip)]
    highlights: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub name: String,
    pub architecture: String,
    pub from: String,
    pub to: String,
    /// Whether the version is an older one, by the order of the family.
    pub older: bool,
}

impl Difference {
    pub fn between(from: &Manifest, to: &Manifest) -> Difference {
        // Manifests of an older Kiln have no architectures.
        let by_name = [from, to].iter().any(|m| m.packages.iter().any(|p| p.architecture.is_empty()));
        let (before, after) = (by_key(from, by_name), by_key(to, by_name));
        let compare = to.family().installed.compare;
        let only =
            |these: &BTreeMap<_, Vec<&Package>>, others: &BTreeMap<_, Vec<&Package>>| -> Vec<Package> {
                let missing = these.iter().filter(|(key, _)| !others.contains_key(*key));
                missing.flat_map(|(_, packages)| packages.iter().copied().cloned()).collect()
            };
        let mut changed = Vec::new();
        for (key, was) in &before {
            let Some(is) = after.get(key) else { continue };
            let (was_versions, is_versions) = (versions(was), versions(is));
            if was_versions != is_versions {
                let newest =
                    |all: &BTreeSet<&str>| all.iter().copied().max_by(|a, b| compare(a, b)).map(String::from);
                let (from, to) = (newest(&was_versions), newest(&is_versions));
                let older = from.as_deref().zip(to.as_deref()).is_some_and(|(a, b)| compare(b, a).is_lt());
                let join = |all: &BTreeSet<&str>| all.iter().copied().collect::<Vec<_>>().join(", ");
                changed.push(Change {
                    name: is[0].name.clone(),
                    architecture: is[0].architecture.clone(),
                    from: join(&was_versions),
                    to: join(&is_versions),
                    older,
                });
            }
        }
        let (added, removed) = (only(&after, &before), only(&before, &after));
        let highlights = highlights(from, to);
        Difference { added, removed, changed, highlights }
    }

    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// One line: `12 packages changed, 2 added; slurm 24.11.5-4 -> 24.11.5-5`.
    pub fn summary(&self) -> String {
        if self.is_empty() {
            return "the same packages in the same versions".to_string();
        }
        let older = self.changed.iter().filter(|change| change.older).count();
        let parts =
            [(self.changed.len(), "changed"), (self.added.len(), "added"), (self.removed.len(), "removed")];
        let mut first = true;
        let mut text: Vec<String> = Vec::new();
        for (count, word) in parts.into_iter().filter(|(count, _)| *count > 0) {
            let noun = match (first, count) {
                (true, 1) => " package",
                (true, _) => " packages",
                (false, _) => "",
            };
            first = false;
            let back = if word == "changed" && older > 0 {
                format!(" ({older} to an older version)")
            } else {
                String::new()
            };
            text.push(format!("{count}{noun} {word}{back}"));
        }
        [vec![text.join(", ")], self.highlights.clone()].concat().join("; ")
    }
}

fn by_key(manifest: &Manifest, by_name: bool) -> BTreeMap<(&str, &str), Vec<&Package>> {
    let mut all: BTreeMap<(&str, &str), Vec<&Package>> = BTreeMap::new();
    for package in &manifest.packages {
        let architecture = if by_name { "" } else { package.architecture.as_str() };
        all.entry((package.name.as_str(), architecture)).or_default().push(package);
    }
    all
}

fn versions<'a>(packages: &[&'a Package]) -> BTreeSet<&'a str> {
    packages.iter().map(|package| package.version.as_str()).collect()
}

/// Slurm and the kernel.
fn highlights(from: &Manifest, to: &Manifest) -> Vec<String> {
    let slurm = |manifest: &Manifest| {
        let client = manifest.family().packages("slurm-client")[0];
        let found = manifest.packages.iter().find(|package| package.name == client);
        found.map_or_else(|| "none".to_string(), |package| package.version.clone())
    };
    let kernel = |manifest: &Manifest| {
        let version_of = manifest.family().installed.kernel;
        let packages = manifest.packages.iter();
        let mut named: Vec<&str> =
            packages.filter_map(|package| version_of(&package.name, &package.version)).collect();
        named.sort_by(|a, b| (manifest.family().installed.compare)(a, b));
        named.last().map_or_else(|| "none".to_string(), ToString::to_string)
    };
    let told =
        |what: &str, (from, to): (String, String)| (from != to).then(|| format!("{what} {from} -> {to}"));
    [told("slurm", (slurm(from), slurm(to))), told("kernel", (kernel(from), kernel(to)))]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::test_manifest;

    #[test]
    fn packages_are_added_removed_and_changed() {
        let from = test_manifest(
            "a 1 amd64\nb 1:2 all\nc 10 amd64\nslurm-client 24.11.5-4 amd64\nlinux-image-6.1.0-9-amd64 6.1.1 amd64\n",
        );
        let to = test_manifest(
            "a 1 amd64\nb 3 all\nc 9 amd64\nd 1 amd64\nslurm-client 24.11.5-5 amd64\nlinux-image-6.1.0-10-amd64 6.1.2 amd64\n",
        );
        let difference = Difference::between(&from, &to);
        let changed: Vec<String> = (difference.changed.iter())
            .map(|c| format!("{} {} {} {}", c.name, c.from, c.to, if c.older { "older" } else { "newer" }))
            .collect();
        // By the rules of the family, not of the alphabet: an epoch outweighs all.
        assert_eq!(changed, ["b 1:2 3 older", "c 10 9 older", "slurm-client 24.11.5-4 24.11.5-5 newer"]);
        assert_eq!(
            difference.summary(),
            "3 packages changed (2 to an older version), 2 added, 1 removed; slurm 24.11.5-4 -> 24.11.5-5; \
             kernel 6.1.0-9-amd64 -> 6.1.0-10-amd64"
        );
    }

    #[test]
    fn the_same_packages_are_no_difference() {
        let one = test_manifest("a 1 amd64\na 1 i386\n");
        let difference = Difference::between(&one, &one);
        assert!(difference.is_empty());
        assert_eq!(difference.summary(), "the same packages in the same versions");
        assert_eq!(Difference::between(&one, &test_manifest("a 1 amd64\n")).removed.len(), 1);
    }

    #[test]
    fn a_manifest_without_architectures_is_compared_by_name() {
        let mut old = test_manifest("a 1 amd64\nb 1 all\n");
        for package in &mut old.packages {
            package.architecture.clear();
        }
        let new = test_manifest("a 1 amd64\nb 2 all\n");
        assert_eq!(Difference::between(&old, &new).summary(), "1 package changed");
    }
}
