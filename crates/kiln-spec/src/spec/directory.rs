//! Where users and groups come from that are not in the file.

use std::collections::BTreeMap;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Directory {
    /// A server on the control node, whose users `kiln user` adds and removes.
    Server { base: String },
    /// The site's own.
    Ldap(LdapDirectory),
}

/// An LDAP server of the site. Its password, if it wants one, is a secret of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LdapDirectory {
    /// `ldaps://HOST[:PORT]`, or `ldap://HOST[:PORT]` with StartTLS; tried in this order.
    pub uris: Vec<String>,
    pub base: String,
    /// `None`: nodes read it without a name.
    pub bind_dn: Option<String>,
    /// Certificates in PEM that the server's is checked with. `None`: those of the nodes' system.
    pub ca: Option<String>,
    pub schema: LdapSchema,
    /// Where sudo's rules are.
    pub sudo_base: Option<String>,
    /// Numbers of users and groups are made from their SIDs.
    pub id_mapping: bool,
    /// Only members of these groups may log in. Empty: everybody may.
    pub allowed_groups: Vec<String>,
    /// Where homes are, with `%u` for the user's name. `None`: where the directory says.
    pub home: Option<String>,
    /// By sssd's options for them, without `ldap_`.
    pub attributes: BTreeMap<String, String>,
}

/// How entries of groups name their members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LdapSchema {
    /// By user name, in `memberUid`.
    #[default]
    Rfc2307,
    /// By the name of the entry, in `member`.
    Rfc2307bis,
    /// As Active Directory does.
    Ad,
}

impl LdapSchema {
    /// What sssd calls it.
    pub fn name(self) -> &'static str {
        match self {
            LdapSchema::Rfc2307 => "rfc2307",
            LdapSchema::Rfc2307bis => "rfc2307bis",
            LdapSchema::Ad => "ad",
        }
    }
}

impl Directory {
    pub fn is_server(&self) -> bool {
        matches!(self, Directory::Server { .. })
    }

    /// Below which entry everything is.
    pub fn base(&self) -> &str {
        match self {
            Directory::Server { base } => base,
            Directory::Ldap(ldap) => &ldap.base,
        }
    }

    /// The site's, if it wants to know who asks.
    pub fn bind_dn(&self) -> Option<&str> {
        match self {
            Directory::Server { .. } => None,
            Directory::Ldap(ldap) => ldap.bind_dn.as_deref(),
        }
    }
}
