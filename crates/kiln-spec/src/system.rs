//! The operating systems that images start from. What Kiln knows of each family of them is in `kiln-distro`.

use serde::Serialize;

/// A release of an operating system, by the name that the file gives it. The variant is its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    Debian(&'static str),
    Ubuntu(&'static str),
    /// Enterprise Linux: what is made from the sources of RHEL.
    El(&'static str),
}

impl System {
    /// The first is the default.
    pub const ALL: [System; 8] = [
        System::Debian("bookworm"),
        System::Debian("trixie"),
        System::Debian("forky"),
        System::Ubuntu("noble"),
        System::El("rocky9"),
        System::El("rocky10"),
        System::El("alma9"),
        System::El("alma10"),
    ];

    pub fn name(self) -> &'static str {
        match self {
            System::Debian(name) | System::Ubuntu(name) | System::El(name) => name,
        }
    }

    pub fn of(name: &str) -> Option<System> {
        System::ALL.into_iter().find(|system| system.name() == name)
    }

    /// Whether the local cloud can make its plain image. Elsewhere the cloud has images of any system.
    pub fn is_made_by_local(self) -> bool {
        matches!(self, System::Debian(_) | System::Ubuntu(_))
    }

    /// The names of those that `wanted` holds for.
    pub fn names(wanted: impl Fn(System) -> bool) -> Vec<&'static str> {
        System::ALL.into_iter().filter(|system| wanted(*system)).map(System::name).collect()
    }

    /// Whether a package can have this name, with `:ARCHITECTURE` and `=VERSION` behind it where they are wanted.
    pub(crate) fn is_package(self, text: &str) -> bool {
        let (name, version) =
            text.split_once('=').map_or((text, None), |(name, version)| (name, Some(version)));
        let (name, arch) = name.split_once(':').map_or((name, None), |(name, arch)| (name, Some(arch)));
        let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let letter = |c: char| match self {
            System::Debian(_) | System::Ubuntu(_) => lower(c),
            System::El(_) => c.is_ascii_alphanumeric(),
        };
        let sign = |c: char| matches!(c, '+' | '-' | '.') || c == '_' && matches!(self, System::El(_));
        name.len() >= 2
            && name.starts_with(letter)
            && name.chars().all(|c| letter(c) || sign(c))
            && arch.is_none_or(|arch| {
                !arch.is_empty() && arch.chars().all(|c| lower(c) || matches!(c, '-' | '_'))
            })
            && version.is_none_or(|version| {
                let of_versions = |c: char| {
                    c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '~' | ':' | '_' | '^')
                };
                version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(of_versions)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_name_their_packages_otherwise() {
        let [debian, ubuntu, el] =
            [System::Debian("bookworm"), System::Ubuntu("noble"), System::El("rocky9")];
        for both in ["munge", "libstdc++6", "libc6:amd64", "slurmd=22.05.8-4+deb12u3", "a0=1:2~3"] {
            assert!(debian.is_package(both) && el.is_package(both), "{both}");
        }
        for one in ["NetworkManager", "slurm-pam_slurm", "slurm=22.05.9-1.el9", "glibc:x86_64"] {
            assert!(el.is_package(one), "{one}");
        }
        assert!(!debian.is_package("NetworkManager") && !debian.is_package("slurm-pam_slurm"));
        assert!(ubuntu.is_package("slurmd=23.11.4-1.2ubuntu5") && !ubuntu.is_package("NetworkManager"));
        for none in ["", "a", "-ab", "ab;rm", "ab=", "ab=x", "@core", "ab cd", "ab:"] {
            assert!(!debian.is_package(none) && !el.is_package(none), "{none}");
        }
    }
}
