//! Sets of software that Kiln knows, besides those of the roles. What is in each is in `kiln-site`.

use serde::Serialize;

/// What an image may have in addition to the software of its roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Software {
    /// Containers for jobs.
    Apptainer,
    /// Time synchronisation.
    Chrony,
    /// A directory server, for users and groups of the site.
    Directory,
    /// Prometheus, and what shows it the figures of a node.
    Monitoring,
    /// Open MPI, with what it takes to compile programs.
    Mpi,
    /// The driver of NVIDIA's GPUs.
    Nvidia,
    /// Users and groups from a directory server.
    Sssd,
}

impl Software {
    pub const ALL: [Software; 7] = [
        Software::Apptainer,
        Software::Chrony,
        Software::Directory,
        Software::Monitoring,
        Software::Mpi,
        Software::Nvidia,
        Software::Sssd,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Software::Apptainer => "apptainer",
            Software::Chrony => "chrony",
            Software::Directory => "directory",
            Software::Monitoring => "monitoring",
            Software::Mpi => "mpi",
            Software::Nvidia => "nvidia",
            Software::Sssd => "sssd",
        }
    }

    pub fn of(name: &str) -> Option<Software> {
        Software::ALL.into_iter().find(|set| set.name() == name)
    }
}
