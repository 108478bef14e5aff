//! What the control node may do: it signs as itself, an instance, and a policy of the compartment says what that may. Nothing
//! of a person's goes there.

use serde::{Deserialize, Serialize};

use super::Settings;
use super::driver::Driver;
use super::login::{Identity, Login, METADATA};
use super::region::Endpoints;
use crate::{Error, Result};

/// How kilnd reaches the cloud.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    region: String,
    tenancy: String,
    /// One address for all services, in place of Oracle's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    /// Where an instance asks who it is, in place of Oracle's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<String>,
    /// PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_bundle: Option<String>,
    settings: Settings,
}

impl Driver {
    pub fn at(access: &Access) -> Result<Driver> {
        let endpoints = match &access.endpoint {
            Some(url) => Endpoints::One(url.clone()),
            None => Endpoints::of(&access.region, &access.tenancy)?,
        };
        let login = Login {
            identity: Identity::Instance { metadata: access.metadata.clone().unwrap_or(METADATA.into()) },
            endpoints,
            tenancy: Some(access.tenancy.clone()),
            region: Some(access.region.clone()),
            ca_bundle: access.ca_bundle.as_ref().map(|pem| pem.clone().into_bytes()),
            origin: "this instance".into(),
        };
        Driver::with_login(login, access.settings.clone())
    }

    pub fn access(&self) -> Result<Access> {
        let login = &self.client.login;
        let no_region = || Error::no_rights(format!("no `region` in {}", login.origin));
        Ok(Access {
            region: login.region.clone().ok_or_else(no_region)?,
            tenancy: self.tenancy()?.to_string(),
            endpoint: match &login.endpoints {
                Endpoints::One(url) => Some(url.clone()),
                Endpoints::Oracle { .. } => None,
            },
            metadata: None,
            ca_bundle: login.ca_bundle.as_ref().map(|pem| String::from_utf8_lossy(pem).into_owned()),
            // Whose credentials those are is the deploy host's affair.
            settings: Settings { profile: None, ..(*self.settings).clone() },
        })
    }
}

#[cfg(any(test, feature = "testing"))]
impl Access {
    /// Of a control node whose metadata are elsewhere.
    #[must_use]
    pub fn with_metadata(self, url: String) -> Access {
        Access { metadata: Some(url), ..self }
    }
}
