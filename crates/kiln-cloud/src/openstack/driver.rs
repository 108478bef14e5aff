//! The driver: a client, what the cluster file says, and what is looked up once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OnceCell};

use super::Settings;
use super::client::{Client, TIMEOUT};
use super::flavors::WireFlavor;
use super::login::Login;
use super::session::{Caller, Session};
use crate::http::{self, Trust};
use crate::remote::Pace;
use crate::{Error, Result};

/// How often a thing is looked at that somebody waits for.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);
pub(super) const PACE: Pace = Pace::every(LOOK_EVERY);

#[derive(Clone)]
pub struct Driver {
    pub(super) client: Arc<Client>,
    pub(super) settings: Arc<Settings>,
    pub(super) known: Arc<Known>,
}

/// What hardly ever changes while a cluster is worked on. kilnd has it for months.
#[derive(Default)]
pub(super) struct Known {
    pub flavors: Mutex<Vec<WireFlavor>>,
    /// Names of key pairs that are known to be there.
    pub key_pairs: Mutex<BTreeSet<String>>,
    /// Names of server groups and their ids.
    pub server_groups: Mutex<BTreeMap<String, String>>,
    pub external_network: OnceCell<String>,
    /// Ids of the security groups that the settings name.
    pub security_groups: Mutex<Option<Vec<String>>>,
    /// Of the network it was last asked for.
    pub subnet: Mutex<Option<(String, String)>>,
}

impl Known {
    /// Where something of these is gone, or was replaced by another of the same name, the next attempt looks again.
    pub async fn forget(&self) {
        self.flavors.lock().await.clear();
        self.key_pairs.lock().await.clear();
        self.server_groups.lock().await.clear();
        *self.security_groups.lock().await = None;
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("openstack::Driver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Driver {
    /// With the credentials that the file or the environment of the person at the deploy host names. Nothing is sent yet.
    pub fn open(settings: &Settings) -> Result<Driver> {
        let login = Login::find(settings.cloud.as_deref(), settings.region.as_deref())?;
        Self::with_login(login, settings.clone(), Caller::Person)
    }

    pub(super) fn with_login(login: Login, settings: Settings, caller: Caller) -> Result<Driver> {
        let trust = match &login.ca_bundle {
            _ if !login.verify => Trust::Anybody,
            Some(pem) => Trust::Bundle(pem),
            None => Trust::System,
        };
        let http = http::secure(TIMEOUT, trust)?;
        let client = Client::new(Session::new(login, http.clone(), caller), http);
        Ok(Driver { client: Arc::new(client), settings: Arc::new(settings), known: Arc::default() })
    }

    /// Asks for this many at a time in listings, to see that pages are put together.
    #[must_use]
    pub fn with_page(self, page: usize) -> Driver {
        let session = &self.client.session;
        let again = Self::with_login(session.login.clone(), (*self.settings).clone(), session.caller());
        match again {
            Ok(mut driver) => {
                if let Some(client) = Arc::get_mut(&mut driver.client) {
                    client.page = page;
                }
                driver
            }
            Err(_) => self,
        }
    }

    /// That what the cluster file names is there: told before anything is made.
    pub async fn check(&self) -> Result<()> {
        self.check_control_credential().await?;
        self.external_network().await?;
        if let Some(network) = &self.settings.network {
            self.check_subnet(network).await?;
        }
        self.named_security_groups().await?;
        self.check_key_pair().await
    }

    /// Ports, floating IPs and parts of images that a run which was cut off has left, key pairs and server groups.
    pub async fn sweep(&self, cluster: &str) -> Result<()> {
        for port in self.ports(cluster).await? {
            if port.device_id.is_empty() {
                self.delete_port(&port).await?;
            }
        }
        self.release_all_floating(cluster).await?;
        self.clear_build(cluster).await?;
        self.delete_server_groups(cluster).await?;
        self.delete_key_pairs(cluster).await
    }
}

/// Ids are the cloud's own: anything else cannot exist, and must not become part of a path.
pub(super) fn checked<'i>(kind: &'static str, id: &'i str) -> Result<&'i str> {
    let plain = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if plain { Ok(id) } else { Err(Error::not_found(kind, id.to_string())) }
}

/// Names the thing that was looked for.
pub(super) fn missing<T>(answer: Result<T>, kind: &'static str, name: &str) -> Result<T> {
    match answer {
        Err(error) if error.is_not_found() => Err(Error::not_found(kind, name.to_string())),
        other => other,
    }
}
