//! The secrets of services.

/// A secret of the cluster: made once on the deploy host, and rotated by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Secret {
    pub name: &'static str,
    pub purpose: &'static str,
    pub form: Form,
    /// Whether its value itself is written on nodes. Of the others they have something that is derived from them.
    pub on_nodes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// 32 random bytes in hexadecimal: safe in SQL, JSON and configuration files without quoting.
    Hex,
    /// So many random bytes in base64.
    Base64(usize),
    /// An OpenSSH private key.
    SshKey,
    /// A certificate authority of the cluster's own: its key and its certificate, in PEM.
    Authority,
    /// A certificate for the control node by that authority: its key, itself, and the authority's, in PEM.
    Certificate,
    /// A line of text, which is the site's.
    Text,
}
