//! Debian's security suites.

use crate::{ListedPackage, Security};

pub const SECURITY: Security = Security {
    suffix: "-security",
    list: |suite, component, architecture| {
        format!("dists/{suite}/{component}/binary-{architecture}/Packages")
    },
    read,
};

/// A paragraph for each package.
fn read(list: &str) -> Vec<ListedPackage<'_>> {
    list.split("\n\n").filter_map(package).collect()
}

fn package(paragraph: &str) -> Option<ListedPackage<'_>> {
    let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Some(ListedPackage {
        name: field("Package:")?,
        version: field("Version:")?,
        architecture: field("Architecture:")?,
        sha256: field("SHA256:"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_packages() {
        let list = "Package: bash\nVersion: 5.2-1\nArchitecture: amd64\nDescription: a shell\n Version: 9\n\n\
                    Package: odd\n\nPackage: tzdata\nArchitecture: all\nVersion: 2026a-0\n";
        let found: Vec<_> = read(list).into_iter().map(|p| (p.name, p.version, p.architecture)).collect();
        assert_eq!(found, [("bash", "5.2-1", "amd64"), ("tzdata", "2026a-0", "all")]);
    }
}
