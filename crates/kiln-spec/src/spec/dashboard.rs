//! Who may look at the dashboard over the network.

use ipnet::Ipv4Net;
use serde::Serialize;

use super::Credentials;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dashboard {
    /// At least one.
    pub from: Vec<Ipv4Net>,
    /// `https://NAME` or `https://NAME:PORT`; `None`: the control node's own name.
    pub address: Option<String>,
    /// `None`: the cluster's authority signs one.
    pub certificate: Option<SiteCertificate>,
    /// The site's logins.
    pub oidc: Option<OidcSpec>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteCertificate {
    /// As the file has it.
    pub path: String,
    /// The certificate, and those that signed it.
    #[serde(skip)]
    pub pem: String,
    /// Where its key is.
    pub key: Credentials,
}

/// A provider of OpenID Connect, and who gets which role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OidcSpec {
    pub issuer: String,
    pub client_id: String,
    /// Where it is.
    pub client_secret: Credentials,
    pub scopes: Vec<String>,
    /// With what the next two name.
    pub claim: String,
    pub operators: Vec<String>,
    pub viewers: Vec<String>,
    /// The claim with somebody's name.
    pub name: String,
    /// `None`: all who have a role.
    pub users: Option<Vec<String>>,
}

impl Dashboard {
    /// The name in its address, if the file has one.
    pub fn host(&self) -> Option<&str> {
        let rest = self.address.as_ref()?.strip_prefix("https://")?;
        rest.split(':').next()
    }
}
