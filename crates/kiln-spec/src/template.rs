//! The file that `kiln init` writes.

/// A commented `cluster.toml` of a small cluster with this name, ready to be raised.
pub fn template(name: &str) -> String {
    include_str!("template.toml").replace("@NAME@", name)
}
