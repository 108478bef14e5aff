//! What a built image contains, recorded when it was built.

use kiln_distro::{Family, PackageList};
use kiln_slurm::Release;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub recipe: String,
    /// A suite, or the name of the image it was built on.
    pub source: String,
    pub built: jiff::Timestamp,
    pub kiln: String,
    pub packages: Vec<Package>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    pub name: String,
    pub version: String,
}

impl Manifest {
    /// Reads the output of a family's list of packages.
    pub fn packages_from(list: &PackageList, text: &str) -> Vec<Package> {
        let package = |line| {
            let (name, version) = (list.parse)(line)?;
            Some(Package { name: name.to_string(), version: version.to_string() })
        };
        text.lines().filter_map(package).collect()
    }

    pub fn slurm(&self) -> Option<Release> {
        let is_slurm =
            |package: &&Package| Family::ALL.iter().any(|f| f.packages("slurm-client")[0] == package.name);
        self.packages.iter().find(is_slurm)?.version.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slurm_release_is_read_from_the_packages() {
        let manifest = Manifest {
            recipe: String::new(),
            source: "bookworm".into(),
            built: jiff::Timestamp::UNIX_EPOCH,
            kiln: String::new(),
            packages: Manifest::packages_from(
                &Family::ALL[0].package_list,
                "munge\t0.5.15-2\nslurm-client\t22.05.8-4+deb12u3\nodd line\n",
            ),
        };
        assert_eq!(manifest.packages.len(), 2);
        assert_eq!(manifest.slurm(), Some(Release::new(22, 5, 8)));
    }
}
