//! How a compute node says which bundle it has: in the `Extra` field of its own record in Slurm, where kilnd reads it
//! together with everything else. A node and kilnd have nothing else in common that both can reach.

const PREFIX: &str = "kiln-bundle:";
/// Enough to tell bundles apart, and short enough for `scontrol show node`.
const LENGTH: usize = 12;

/// The text for `Extra`.
pub fn write(digest: &str) -> String {
    format!("{PREFIX}{}", digest.get(..LENGTH).unwrap_or(digest))
}

/// The beginning of the bundle's digest, if `Extra` holds a tag of Kiln's.
pub fn read(extra: &str) -> Option<&str> {
    extra.strip_prefix(PREFIX)
}

/// Whether a tag that was read belongs to the bundle with this digest.
pub fn matches(tag: &str, digest: &str) -> bool {
    !tag.is_empty() && digest.starts_with(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_bundle_and_no_other() {
        let digest = "0123456789abcdef0123";
        let extra = write(digest);
        let tag = read(&extra).unwrap();
        assert!(matches(tag, digest));
        assert!(!matches(tag, "1123456789abcdef0123"));
        assert_eq!(read("an administrator's words"), None);
        assert!(!matches("", digest));
    }
}
