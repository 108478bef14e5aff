//! What is in Kiln's own sets of software, by the names of its authors: one value each. A family of systems translates them.

use kiln_distro::Family;
use kiln_spec::{Role, Software};

use crate::services;

#[derive(Debug)]
struct Set {
    software: &'static [&'static str],
    /// Units that come with it and would start with the system. An image has them disabled: what runs on a node is decided when it
    /// is configured.
    units: &'static [&'static str],
}

fn set(software: Software) -> Set {
    match software {
        Software::Apptainer => Set { software: &["apptainer"], units: &[] },
        // Of the service that has it; where nodes have a clock of their own, it runs.
        Software::Chrony => Set { software: services::software_of("time", Role::Compute), units: &[] },
        // No image has an instance of it that could start.
        Software::Directory => {
            Set { software: services::software_of("directory server", Role::Control), units: &[] }
        }
        Software::Monitoring => Set {
            software: &["node-exporter", "prometheus"],
            units: &["node-exporter.service", "prometheus.service"],
        },
        Software::Mpi => Set { software: &["openmpi", "pmix"], units: &[] },
        Software::Nvidia => Set { software: &["nvidia-driver"], units: &["nvidia-persistenced.service"] },
        Software::Sssd => {
            Set { software: services::software_of("directory", Role::Compute), units: &["sssd.service"] }
        }
    }
}

/// The packages of a set.
pub fn packages(software: Software, family: &Family) -> Vec<&'static str> {
    set(software).software.iter().flat_map(|name| family.packages(name)).collect()
}

/// The units of a set that an image has disabled, by the family's names for them.
pub fn units(software: Software, family: &Family) -> Vec<&'static str> {
    set(software).units.iter().map(|name| family.unit(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_packages_in_every_family() {
        for family in Family::ALL {
            for software in Software::ALL {
                assert!(!packages(software, family).is_empty(), "{}", software.name());
            }
        }
        let debian = Family::ALL[0];
        assert_eq!(packages(Software::Chrony, debian), ["chrony"]);
        assert_eq!(packages(Software::Mpi, debian), ["openmpi-bin", "libopenmpi-dev", "libpmix2"]);
        assert_eq!(
            units(Software::Monitoring, debian),
            ["prometheus-node-exporter.service", "prometheus.service"]
        );
    }
}
