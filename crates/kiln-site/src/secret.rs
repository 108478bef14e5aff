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
    /// A key and a certificate for it, signed with the key itself, in PEM. It is good for the control node's names.
    Certificate,
}
