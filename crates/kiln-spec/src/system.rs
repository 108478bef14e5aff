//! The operating systems that images start from. What Kiln knows of each family of them is in `kiln-distro`.

use serde::Serialize;

/// A release of an operating system, by the name that the file gives it. The variant is its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    Debian(&'static str),
}

impl System {
    /// The first is the default.
    pub const ALL: [System; 3] =
        [System::Debian("bookworm"), System::Debian("trixie"), System::Debian("forky")];

    pub fn name(self) -> &'static str {
        match self {
            System::Debian(suite) => suite,
        }
    }

    pub fn of(name: &str) -> Option<System> {
        System::ALL.into_iter().find(|system| system.name() == name)
    }
}
