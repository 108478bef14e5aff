//! File Storage: file systems that Oracle serves over NFS, in version 3. They are among the cluster's volumes. A mount target in
//! the cluster's network exports them, to the cluster's nodes alone: the control node writes to all of them and is root there,
//! the others are not. Mount target and exports hold no data; they come with the control node's address and go with the network.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{Call, retry_token};
use super::driver::{Driver, PACE, checked, cluster_of, missing, not_ours};
use super::region::Service::{Core, Files};
use super::wire::WirePrivateIp;
use crate::remote::{encode, until};
use crate::retry::{Policy, retry};
use crate::{Class, Error, Labels, NewExport, NewExports, Result, Served, Volume, VolumeStatus};
use kiln_wire::labels;

const LIMIT: Duration = Duration::from_secs(600);

/// A file system or a mount target.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    id: String,
    #[serde(default)]
    display_name: String,
    lifecycle_state: String,
    #[serde(default)]
    freeform_tags: Labels,
    #[serde(default)]
    export_set_id: Option<String>,
    #[serde(default)]
    private_ip_ids: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Export {
    id: String,
    lifecycle_state: String,
    file_system_id: String,
    path: String,
    /// Not in listings.
    #[serde(default, rename = "exportOptions")]
    options: Vec<Access>,
}

/// The first that is for a client's address holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Access {
    source: String,
    #[serde(default)]
    identity_squash: Option<String>,
}

fn is_there(state: &str) -> bool {
    !["DELETING", "DELETED"].contains(&state)
}

pub(super) fn is_file_system(id: &str) -> bool {
    id.starts_with("ocid1.filesystem.")
}

impl Item {
    fn volume(self, served: Option<Served>) -> Volume {
        let status = match self.lifecycle_state.as_str() {
            "FAILED" => VolumeStatus::Error,
            "CREATING" => VolumeStatus::Building,
            _ => VolumeStatus::Usable,
        };
        Volume {
            id: self.id,
            name: self.display_name,
            size_gib: 0,
            labels: self.freeform_tags,
            attached_to: Vec::new(),
            status,
            served: Some(served.unwrap_or_default()),
        }
    }
}

impl Driver {
    /// Those of a cluster, among its volumes.
    pub(super) async fn file_systems(&self, cluster: &str) -> Result<Vec<Volume>> {
        let own = self.items("fileSystems", cluster).await?;
        if own.is_empty() {
            return Ok(Vec::new());
        }
        let mut served = BTreeMap::new();
        for target in self.items("mountTargets", cluster).await? {
            let Some(address) = self.address_of(&target).await? else { continue };
            for export in self.exports_of(&target).await? {
                let path = format!("/exports/{}", export.id);
                let whole: Export = missing(self.client.get(Files, &path).await, "export", &export.path)?;
                let is_root = |a: &&Access| a.identity_squash.as_deref() == Some("NONE");
                let root = whole.options.iter().find(is_root);
                let root = root.and_then(|a| a.source.parse::<IpAddr>().ok());
                served.insert(
                    whole.file_system_id,
                    Served { at: Some(format!("{address}:{}", whole.path)), root },
                );
            }
        }
        let volume = |item: Item| {
            let served = served.remove(&item.id);
            item.volume(served)
        };
        Ok(own.into_iter().map(volume).collect())
    }

    /// Oracle lists them by availability domain. Who may not see them has made none.
    async fn items(&self, kind: &str, cluster: &str) -> Result<Vec<Item>> {
        let mut own = Vec::new();
        for domain in self.domains().await? {
            let path = format!("{}&availabilityDomain={}", self.in_compartment(kind), encode(domain));
            let all: Vec<Item> = match self.client.list(Files, &path).await {
                Err(error) if error.class == Class::NoRights => {
                    tracing::info!(kind, %error, "File Storage is not looked at");
                    return Ok(own);
                }
                other => other?,
            };
            own.extend(all.into_iter().filter(|item| {
                is_there(&item.lifecycle_state) && cluster_of(&item.freeform_tags) == Some(cluster)
            }));
        }
        Ok(own)
    }

    async fn address_of(&self, target: &Item) -> Result<Option<IpAddr>> {
        let Some(id) = target.private_ip_ids.first() else { return Ok(None) };
        let path = format!("/privateIps/{}", checked("private IP", id)?);
        let found: WirePrivateIp = missing(self.client.get(Core, &path).await, "private IP", id)?;
        Ok(found.ip_address)
    }

    async fn exports_of(&self, target: &Item) -> Result<Vec<Export>> {
        let Some(set) = &target.export_set_id else { return Ok(Vec::new()) };
        let path = format!("{}&exportSetId={}", self.in_compartment("exports"), encode(set));
        let mut all: Vec<Export> = self.client.list(Files, &path).await?;
        all.retain(|export| is_there(&export.lifecycle_state));
        Ok(all)
    }

    /// Looked for before every attempt. Returns when it can be used.
    pub async fn create_file_system(&self, name: &str, labels: Labels) -> Result<Volume> {
        let made = self.ensure_item("fileSystems", name, &labels, json!({})).await?;
        Ok(made.volume(None))
    }

    /// By its name and labels, found or made, where the cluster's volumes are. Returns when it can be used.
    async fn ensure_item(&self, kind: &str, name: &str, labels: &Labels, mut body: Value) -> Result<Item> {
        let domain = self.domain(None).await?;
        for (field, value) in [
            ("compartmentId", json!(self.settings.compartment)),
            ("availabilityDomain", json!(domain)),
            ("displayName", json!(name)),
            ("freeformTags", json!(labels)),
        ] {
            body[field] = value;
        }
        let cluster = cluster_of(labels).unwrap_or_default();
        let (body, token) = (&body, &retry_token());
        let id = retry(&Policy::REMOTE, |_| async move {
            let there = self.items(kind, cluster).await?.into_iter().find(|item| item.display_name == name);
            if let Some(there) = there {
                return Ok(there.id);
            }
            let call = Call::post(Files, format!("/{kind}"), body).with_token(token);
            let made: Item = self.client.send_once(&call).await?.read(kind)?;
            Ok(made.id)
        })
        .await?;
        let path = format!("/{kind}/{id}");
        let look = || async {
            let now: Item = missing(self.client.get(Files, &path).await, "part of File Storage", name)?;
            match now.lifecycle_state.as_str() {
                "ACTIVE" => Ok(Some(now)),
                "CREATING" | "UPDATING" => Ok(None),
                other => Err(Error::failed(format!("{name}: the cloud could not make it, it is {other}"))
                    .with_hint("delete it in Oracle's console, and run the same command again")),
            }
        };
        until(PACE, LIMIT, || format!("{name} is not ready"), look).await
    }

    pub async fn export(&self, new: NewExports) -> Result<BTreeMap<String, String>> {
        let body = json!({ "subnetId": self.subnet_of(&new.network).await?, "nsgIds": new.security_groups });
        let target = self.ensure_item("mountTargets", &new.name, &new.labels, body).await?;
        let unknown = |what: &str| Error::failed(format!("mount target {} has no {what}", new.name));
        let address = self.address_of(&target).await?.ok_or_else(|| unknown("address"))?;
        let set = target.export_set_id.as_deref().ok_or_else(|| unknown("export set"))?;
        let there = self.exports_of(&target).await?;
        let mut served = BTreeMap::new();
        for one in &new.file_systems {
            let used = Labels::from([(labels::USED.to_string(), labels::USED_YES.to_string())]);
            self.label_volume(&one.id, &used).await?;
            let options = options(&new, one);
            let export = match there.iter().find(|export| export.file_system_id == one.id) {
                None => self.create_export(set, one, &options).await?,
                Some(export) => {
                    let body = json!({ "exportOptions": options });
                    let path = format!("/exports/{}", export.id);
                    self.client.send(&Call::put(Files, path, &body)).await?.read("an export")?
                }
            };
            served.insert(one.id.clone(), format!("{address}:{}", export.path));
        }
        Ok(served)
    }

    /// Returns when it can be mounted.
    async fn create_export(&self, set: &str, one: &NewExport, options: &Value) -> Result<Export> {
        let body = json!({ "exportSetId": set, "fileSystemId": one.id, "path": format!("/{}", one.name),
                           "exportOptions": options });
        let call = Call::post(Files, "/exports", &body).once_only();
        let made: Export = self.client.send(&call).await?.read("an export")?;
        let path = format!("/exports/{}", made.id);
        let look = || async {
            let now: Export = missing(self.client.get(Files, &path).await, "export", &one.name)?;
            Ok((now.lifecycle_state == "ACTIVE").then_some(now))
        };
        until(PACE, LIMIT, || format!("the export of {} is not ready", one.name), look).await
    }

    /// With its exports. Returns when it is gone.
    pub(super) async fn delete_file_system(&self, id: &str) -> Result<()> {
        let path = format!("/fileSystems/{}", checked("file system", id)?);
        let there: Item = match self.client.get(Files, &path).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        if cluster_of(&there.freeform_tags).is_none() {
            return Err(not_ours("file system", &format!("{} ({id})", there.display_name)));
        }
        let exports = format!("{}&fileSystemId={}", self.in_compartment("exports"), encode(id));
        self.delete_exports(self.client.list(Files, &exports).await?).await?;
        self.delete_served(&path).await
    }

    /// What exports a cluster's file systems. Those stay.
    pub(super) async fn sweep_exports(&self, cluster: &str) -> Result<()> {
        for target in self.items("mountTargets", cluster).await? {
            self.delete_exports(self.exports_of(&target).await?).await?;
            self.delete_served(&format!("/mountTargets/{}", target.id)).await?;
        }
        Ok(())
    }

    async fn delete_exports(&self, all: Vec<Export>) -> Result<()> {
        for export in all.iter().filter(|export| is_there(&export.lifecycle_state)) {
            self.delete_served(&format!("/exports/{}", export.id)).await?;
        }
        Ok(())
    }

    /// Returns when it is gone.
    async fn delete_served(&self, path: &str) -> Result<()> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct State {
            lifecycle_state: String,
        }
        self.while_busy(|| self.client.delete(Files, path)).await?;
        let look = || async {
            match self.client.get::<State>(Files, path).await {
                Err(error) if error.is_not_found() => Ok(Some(())),
                Ok(now) if now.lifecycle_state == "DELETED" => Ok(Some(())),
                answer => answer.map(|_| None),
            }
        };
        until(PACE, LIMIT, || format!("{path} is not gone"), look).await
    }
}

/// The control node first: the first that is for an address holds. Ports below 1024 are root's, so that users of a node cannot
/// speak NFS themselves.
fn options(new: &NewExports, one: &NewExport) -> Value {
    let access = if one.read_only { "READ_ONLY" } else { "READ_WRITE" };
    json!([
        { "source": new.root.to_string(), "access": "READ_WRITE", "identitySquash": "NONE",
          "requirePrivilegedSourcePort": true },
        { "source": new.subnet.to_string(), "access": access, "identitySquash": "ROOT",
          "anonymousUid": 65534, "anonymousGid": 65534, "requirePrivilegedSourcePort": true },
    ])
}
