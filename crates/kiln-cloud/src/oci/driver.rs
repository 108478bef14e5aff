//! The driver: a client, what the cluster file says, and what is looked up once.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex, OnceCell};

use super::Settings;
use super::capacity::Room;
use super::client::{Call, Client};
use super::login::Login;
use super::region::Service;
use super::shapes::WireShape;
use crate::remote::Pace;
use crate::remote::encode;
use crate::{Error, Labels, Result};
use kiln_wire::labels;

/// At first soon, then less often, because Oracle throttles.
pub(super) const PACE: Pace = Pace { first: Duration::from_millis(250), last: Duration::from_secs(5) };
/// For what is in the way of something else to be gone.
const BUSY_LIMIT: Duration = Duration::from_secs(300);
/// As many as a page can have.
pub(super) const PAGE: usize = 1000;

#[derive(Clone)]
pub struct Driver {
    pub(super) client: Arc<Client>,
    pub(super) settings: Arc<Settings>,
    pub(super) known: Arc<Known>,
}

/// What does not change while a cluster is worked on, by the id of what it is about.
#[derive(Default)]
pub(super) struct Known {
    pub domains: OnceCell<Vec<String>>,
    pub namespace: OnceCell<String>,
    /// Whether there is a tag for control nodes.
    pub has_control_tag: OnceCell<bool>,
    pub shapes: Mutex<Vec<WireShape>>,
    /// Subnets of networks.
    pub subnets: Mutex<BTreeMap<String, String>>,
    /// Of instances.
    pub addresses: Mutex<BTreeMap<String, Addresses>>,
    /// Boot volumes of instances.
    pub roots: Mutex<BTreeMap<String, Root>>,
    /// Instances that this process has launched, each with the work request that says how that goes.
    pub launched: Mutex<BTreeMap<String, Option<String>>>,
    /// Availability domains that had no room for a shape, and when that was.
    pub full: Mutex<BTreeMap<(String, String), tokio::time::Instant>>,
    /// Held by whoever looks for a compute cluster, to make one that is missing.
    pub compute_clusters: Mutex<()>,
    /// What Oracle reported of its room for a flavor, and when.
    pub reports: Mutex<BTreeMap<String, (tokio::time::Instant, Vec<Room>)>>,
    /// Properties of images that are kept as objects.
    pub properties: Mutex<BTreeMap<String, BTreeMap<String, String>>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub private: IpAddr,
    pub public: Option<IpAddr>,
}

#[derive(Debug, Clone)]
pub(super) struct Root {
    pub volume: String,
    pub since: Timestamp,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("oci::Driver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Driver {
    /// With the credentials of the person at the deploy host. Nothing is sent yet.
    pub fn open(settings: &Settings) -> Result<Driver> {
        let login = Login::find(settings.profile.as_deref(), settings.region.as_deref())?;
        Self::with_login(login, settings.clone())
    }

    pub fn with_login(login: Login, settings: Settings) -> Result<Driver> {
        let client = Arc::new(Client::new(login)?);
        Ok(Driver { client, settings: Arc::new(settings), known: Arc::default() })
    }

    /// That the credentials work and what the file names is there: told before anything is made.
    pub async fn check(&self) -> Result<()> {
        self.domain(None).await?;
        if let Some(name) = &self.settings.network
            && self.network_by_name(name).await?.is_none()
        {
            return Err(Error::not_found("subnet", name.clone()));
        }
        Ok(())
    }

    /// The root compartment, which limits, groups and tags are of.
    pub(super) fn tenancy(&self) -> Result<&str> {
        let login = &self.client.login;
        let lacks = || Error::no_rights(format!("no `tenancy` in {}", login.origin));
        login.tenancy.as_deref().ok_or_else(lacks)
    }

    /// A listing of what the compartment has.
    pub(super) fn in_compartment(&self, kind: &str) -> String {
        format!("/{kind}?compartmentId={}&limit={PAGE}", encode(&self.settings.compartment))
    }

    /// Adds to the tags of something that carries Kiln's, whoever changes them at the same time.
    pub(super) async fn merge_tags(
        &self,
        service: Service,
        kind: &'static str,
        path: &str,
        labels: &Labels,
    ) -> Result<()> {
        let deadline = tokio::time::Instant::now() + BUSY_LIMIT;
        loop {
            let answer = missing(self.client.send(&Call::get(service, path)).await, kind, path)?;
            let there: Tagged = answer.read(path)?;
            if cluster_of(&there.freeform_tags).is_none() && !there.is_image_of_kiln() {
                return Err(not_ours(kind, path));
            }
            let mut tags = there.freeform_tags.clone();
            tags.extend(labels.clone());
            if tags == there.freeform_tags {
                return Ok(());
            }
            let body = serde_json::json!({ "freeformTags": tags });
            let call = Call::put(service, path, &body).if_match(answer.etag.as_deref());
            match self.client.send(&call).await {
                Err(error) if error.is_conflict() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(PACE.first).await;
                }
                answer => return answer.map(drop),
            }
        }
    }

    /// Tries again while something is in the way that is going to be gone.
    pub(super) async fn while_busy<T, F: Future<Output = Result<T>>>(
        &self,
        work: impl Fn() -> F,
    ) -> Result<T> {
        let deadline = tokio::time::Instant::now() + BUSY_LIMIT;
        let mut pace = PACE;
        loop {
            match work().await {
                Err(error) if error.is_conflict() && tokio::time::Instant::now() < deadline => {
                    pace.step().await;
                }
                other => return other,
            }
        }
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tagged {
    #[serde(default)]
    freeform_tags: Labels,
}

impl Tagged {
    fn is_image_of_kiln(&self) -> bool {
        self.freeform_tags.keys().any(|key| key.starts_with("kiln_"))
    }
}

/// Ids are the cloud's own: anything else cannot exist, and must not become part of a path.
pub(super) fn checked<'i>(kind: &'static str, id: &'i str) -> Result<&'i str> {
    let plain = id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if plain && id.starts_with("ocid1.") { Ok(id) } else { Err(Error::not_found(kind, id.to_string())) }
}

/// Names the thing that was looked for.
pub(super) fn missing<T>(answer: Result<T>, kind: &'static str, name: &str) -> Result<T> {
    match answer {
        Err(error) if error.is_not_found() => Err(Error::not_found(kind, name.to_string())
            .with_hint("Oracle answers the same to those who may not see it")),
        other => other,
    }
}

pub(super) fn cluster_of(labels: &Labels) -> Option<&str> {
    labels.get(labels::CLUSTER).map(String::as_str)
}

pub(super) fn not_ours(kind: &str, what: &str) -> Error {
    Error::conflict(format!("{kind} {what} is not Kiln's"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_become_parts_of_paths() {
        assert!(checked("instance", "ocid1.instance.oc1.phx.abc_d-e").is_ok());
        for wrong in ["", "x", "ocid1.instance/../vcns", "ocid1.x?y"] {
            assert!(checked("instance", wrong).unwrap_err().is_not_found(), "{wrong}");
        }
    }
}
