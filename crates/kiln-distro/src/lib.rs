//! Families of operating systems: what Kiln must know of each one to build an image of it and to configure a node
//! that runs it. A family is one folder and one line in [`Family::ALL`] and [`Family::of_system`]. No I/O happens here.

mod debian;
mod el;

use std::cmp::Ordering;

use kiln_slurm::Release;
use kiln_spec::{SourceSpec, Spec, System};

/// The facts of one family. Everything else in Kiln speaks of software and units by the names in the services of
/// `kiln-site`; a family translates those that it calls otherwise.
#[derive(Debug)]
pub struct Family {
    pub name: &'static str,
    /// The family that this one was made from: what is called otherwise there is so here, too.
    like: Option<&'static Family>,
    /// The packages that a piece of software is in, where there is not just one of the same name.
    packages: &'static [(&'static str, &'static [&'static str])],
    /// Units with another name here.
    units: &'static [(&'static str, &'static str)],
    /// Units of the system that nodes do not use, and that would be in the way. An image has them disabled.
    pub unwanted_units: &'static [&'static str],
    /// Groups that the system has from the start or that its packages make; Kiln gives them no gid of its own.
    pub system_groups: &'static [&'static str],
    /// Makes programs trust what is in the directory for certificates.
    pub update_certificates: &'static [&'static str],
    pub paths: Paths,
    /// PAM's stack for sshd on compute nodes: only root and users with a job on the node get in.
    pub pam_sshd_with_job: &'static str,
    /// The same, where a login becomes part of the user's job.
    pub pam_sshd_in_job: &'static str,
    /// How homes of users from a directory come to be.
    pub home_at_login: HomeAtLogin,
    pub sources: Sources,
    pub steps: Steps,
    /// `None`: Kiln cannot read which they are.
    pub security: Option<Security>,
    /// The Slurm that each release of the system brings. Empty: that of its package sources, which is known when an image
    /// is built.
    slurm: &'static [(&'static str, Release)],
    pub installed: Packages,
    /// What the package manager may leave in an image and must not, as patterns, with what it is.
    pub traces: &'static [(&'static str, &'static str)],
    /// What nodes are asked, besides what services ask.
    pub checks: &'static [Ask],
    /// `None`: the local cloud has none of its systems.
    pub bootstrap: Option<Bootstrap>,
}

#[derive(Debug)]
pub struct Paths {
    /// Directory of the certificates of authorities that a site adds.
    pub certificates: &'static str,
    /// Directory of the files that units read their environment from.
    pub environment: &'static str,
    pub locale: &'static str,
    /// File for MariaDB's settings. Files of its directory are read in the order of their names; this one is the last.
    pub mariadb: &'static str,
    /// PAM's stack for sshd.
    pub pam_sshd: &'static str,
    /// Patterns of the places where the library of PMIx can be, for a shell.
    pub pmix: &'static str,
}

/// Sets PAM up to make a home at the first login.
#[derive(Debug)]
pub struct HomeAtLogin {
    pub command: &'static [&'static str],
    /// Ends with 0 where it is set up.
    pub done: &'static [&'static str],
}

/// How the package manager is told of repositories.
#[derive(Debug)]
pub struct Sources {
    /// Removes what Kiln has written. First argument `system`: those that the system came with are in use; else they are
    /// not. Other arguments: the names of those that get credentials.
    pub settle: Step,
    /// The files of one repository, without credentials.
    pub files: fn(&SourceSpec) -> Vec<SourceFile>,
    /// The file with the user and password of one, in memory. `settle` removes it.
    pub credentials: fn(&SourceSpec, user: &str, password: &str) -> SourceFile,
    pub format: PackageFormat,
}

/// What packages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageFormat {
    Deb,
    Rpm,
}

/// Updates that come between two states of a release because something is dangerous.
#[derive(Debug)]
pub struct Security {
    /// What their suite is called, behind the name of the system.
    pub suffix: &'static str,
    /// Where the list of packages of a suite and component is, for an architecture, without the ending of its compression.
    pub list: fn(suite: &str, component: &str, architecture: &str) -> String,
    /// Reads such a list.
    pub read: fn(&str) -> Vec<ListedPackage<'_>>,
}

/// A file of root's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    pub path: String,
    pub mode: &'static str,
    pub content: Vec<u8>,
}

/// The steps of an image build that are about packages, in their order.
#[derive(Debug)]
pub struct Steps {
    /// Only packages of a lock can be installed after it. Standard input: name, version, architecture and hash of each,
    /// separated by tabs. Argument: the directory with kept packages, or an empty one.
    pub lock: Step,
    pub update: Step,
    /// A program, run by `sh`: what asks for a reboot after the update, a line each.
    pub reboot_for: &'static str,
    /// Arguments: the packages.
    pub install: Step,
    /// Arguments: packages that keep their version whenever others are updated. They must be installed.
    pub hold: Step,
    /// Gathers the files of all installed packages. Argument: the directory. `None`: Kiln cannot do that here.
    pub keep: Option<Step>,
    /// Removes what the package manager leaves behind.
    pub clean: Step,
    /// Arguments: packages that are needed, too. Adds kernel, boot loader and network to an image that has none, for a disk
    /// that boots by itself; only that is installed. Leaves GRUB in /boot/kiln: boot.img, core.img and bootx64.efi. They look for /boot/grub on the third
    /// partition of their disk. `None`: Kiln cannot do that here.
    pub bootable: Option<Step>,
}

/// A program for the build instance, run by `sh`. What comes from the file is passed as arguments or on standard
/// input; the script itself is a constant.
#[derive(Debug)]
pub struct Step {
    pub says: &'static str,
    pub script: &'static str,
}

/// How packages are listed and compared.
#[derive(Debug)]
pub struct Packages {
    /// A program for the build instance, run by `sh` while the lists of packages are still there: a line for every
    /// installed package.
    pub list: &'static str,
    /// Reads such a line.
    pub parse: fn(&str) -> Option<ListedPackage<'_>>,
    /// Which of two versions is newer.
    pub compare: fn(&str, &str) -> Ordering,
    /// What a package URL begins with: `pkg:deb/debian`.
    pub url: &'static str,
    /// Whether the hash of a listed package is that of its file.
    pub hash_of_file: bool,
    /// The version of a kernel, if the package with this name and version is one.
    pub kernel: for<'a> fn(name: &'a str, version: &'a str) -> Option<&'a str>,
}

/// A question that a node of the family is asked, and what is wrong where the command fails.
#[derive(Debug)]
pub struct Ask {
    pub complaint: &'static str,
    pub command: &'static [&'static str],
}

/// An installed package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedPackage<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub architecture: &'a str,
    /// Of its file, or of what the family has instead; `None` for one that is in no list.
    pub sha256: Option<&'a str>,
}

/// How the local cloud makes the plain image of a system, such as a cloud's official image is.
#[derive(Debug)]
pub struct Bootstrap {
    /// Given a release and the directory to fill. Standard error has a line for each step.
    pub command: fn(&str, &str) -> Vec<String>,
    /// The keys of its packages, where the command does not bring them along.
    pub keyring: Option<Keyring>,
    /// What such a line begins with.
    pub step: &'static str,
    /// Units of no use in an instance that is thrown away.
    pub masked: &'static [&'static str],
}

/// A file that the host must have.
#[derive(Debug, Clone, Copy)]
pub struct Keyring {
    pub path: &'static str,
    pub package: &'static str,
    /// Where the package is to be had.
    pub hint: &'static str,
}

impl Family {
    pub const ALL: [&'static Family; 3] = [&debian::DEBIAN, &debian::UBUNTU, &el::EL];

    pub fn of_system(system: System) -> &'static Family {
        match system {
            System::Debian(_) => &debian::DEBIAN,
            System::Ubuntu(_) => &debian::UBUNTU,
            System::El(_) => &el::EL,
        }
    }

    /// The family that calls itself so.
    pub fn named(name: &str) -> Option<&'static Family> {
        Family::ALL.into_iter().find(|family| family.name == name)
    }

    /// The Slurm that a system brings: its major release; the patch level may have been raised since.
    pub fn slurm_of(system: System) -> Option<Release> {
        let brought = Family::of_system(system).slurm;
        brought.iter().find(|(name, _)| *name == system.name()).map(|(_, release)| *release)
    }

    /// The family of one of the spec's images.
    pub fn of_image(spec: &Spec, image: &str) -> &'static Family {
        Family::of_system(spec.images.get(image).map_or(System::ALL[0], |image| image.system))
    }

    /// The packages that hold a piece of software.
    pub fn packages<'a>(&self, software: &'a str) -> Vec<&'a str> {
        let named = self.packages.iter().find(|(name, _)| *name == software);
        match (named, self.like) {
            (Some((_, packages)), _) => packages.to_vec(),
            (None, Some(other)) => other.packages(software),
            (None, None) => vec![software],
        }
    }

    /// What a unit is called here. `name` is with its suffix.
    pub fn unit<'a>(&self, name: &'a str) -> &'a str {
        let named = self.units.iter().find(|(other, _)| *other == name);
        match (named, self.like) {
            (Some((_, own)), _) => own,
            (None, Some(other)) => other.unit(name),
            (None, None) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_a_family() {
        for system in System::ALL {
            let family = Family::of_system(system);
            assert!(Family::ALL.iter().any(|known| known.name == family.name));
            assert_eq!(family.bootstrap.is_some(), system.is_made_by_local(), "{}", system.name());
            let brings_slurm = Family::slurm_of(system).is_some();
            assert_eq!(brings_slurm, !family.slurm.is_empty(), "{}", system.name());
        }
    }

    #[test]
    fn an_image_is_of_the_family_that_it_was_built_on() {
        let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n\
                    [image.default]\nsource = \"trixie\"\n[image.more]\nsource = \"default\"\n\
                    [image.el]\nprebuilt = \"rocky\"\nsystem = \"rocky9\"\n[image.top]\nsource = \"el\"\n";
        let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Family::of_image(&spec, "more").name, "debian");
        assert_eq!(Family::of_image(&spec, "unknown").name, "debian");
        assert_eq!(Family::of_image(&spec, "el").name, "el");
        assert_eq!(Family::of_image(&spec, "top").name, "el");
    }
}
