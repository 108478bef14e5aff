//! What lets a control node work: it signs as the instance that it is, a tag puts it into a dynamic group, and a policy of the
//! compartment says what that group may do. Kiln makes them where its user may; otherwise an administrator does, once.
//!
//! The tag is for all clusters of the tenancy, and stays. Group and policy are one cluster's and go with it.

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::client::Call;
use super::driver::{Driver, PAGE, cluster_of};
use super::region::Service::Identity;
use crate::remote::encode;
use crate::{Class, Error, Labels, Result, Right, RightState};
use kiln_wire::labels;

/// A tag that only those can set who may use its namespace. Free-form tags count for nothing in a group's rule.
const NAMESPACE: &str = "kiln";
const TAG: &str = "control";

/// What kilnd does, and with what.
const MAY: [&str; 14] = [
    "manage instances",
    "manage compute-clusters",
    "manage console-histories",
    "read instance-images",
    "use vnics",
    "read vnic-attachments",
    "use subnets",
    "read route-tables",
    "use network-security-groups",
    "use private-ips",
    "use volume-family",
    "read work-requests",
    "read buckets",
    "read objects",
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    id: String,
    name: String,
    #[serde(default)]
    lifecycle_state: String,
    #[serde(default)]
    freeform_tags: Labels,
    #[serde(default)]
    matching_rule: Option<String>,
    #[serde(default)]
    statements: Vec<String>,
}

impl Found {
    fn is_there(&self) -> bool {
        !["DELETING", "DELETED"].contains(&self.lifecycle_state.as_str())
    }
}

/// Names and texts of one cluster's.
struct Wanted<'a> {
    cluster: &'a str,
    compartment: &'a str,
}

impl Wanted<'_> {
    fn policy(&self) -> String {
        format!("kiln-{}", self.cluster)
    }

    /// Its name is the tenancy's, in which other compartments may have a cluster of the same name.
    fn group(&self) -> String {
        let digest = hex::encode(Sha256::digest(self.compartment));
        format!("kiln-{}-{}", self.cluster, &digest[..8])
    }

    fn rule(&self) -> String {
        format!(
            "All {{instance.compartment.id = '{}', tag.{NAMESPACE}.{TAG}.value = '{}'}}",
            self.compartment, self.cluster
        )
    }

    fn statements(&self) -> Vec<String> {
        let place = if self.compartment.starts_with("ocid1.tenancy.") {
            "tenancy".to_string()
        } else {
            format!("compartment id {}", self.compartment)
        };
        let group = self.group();
        MAY.iter().map(|may| format!("Allow dynamic-group {group} to {may} in {place}")).collect()
    }
}

impl Driver {
    /// What the control node of a cluster needs. `make`: whatever is missing is made.
    pub async fn rights(&self, cluster: &str, make: bool) -> Result<Vec<Right>> {
        let tenancy = self.tenancy()?;
        let wanted = Wanted { cluster, compartment: &self.settings.compartment };
        let about = format!("The control node of cluster {cluster}, by Kiln");
        let tags = json!({ labels::CLUSTER: cluster });

        let spaces = format!("/tagNamespaces?compartmentId={}&limit={PAGE}", encode(tenancy));
        let body = json!({ "compartmentId": tenancy, "name": NAMESPACE, "description": "Kiln's clusters" });
        let (state, space) = self.ensure_named(&spaces, "/tagNamespaces", NAMESPACE, &body, make).await?;
        let mut rights = vec![Right {
            name: format!("tag namespace {NAMESPACE}"),
            purpose: "of the tenancy, for all clusters: tags in it are set only by those who may use it",
            text: vec![NAMESPACE.into()],
            state,
        }];

        let state = match &space {
            None => rights[0].state.clone(),
            Some(space) => {
                let path = format!("/tagNamespaces/{}/tags", space.id);
                let body = json!({ "name": TAG, "description": "The cluster whose control node it is" });
                self.ensure_named(&format!("{path}?limit={PAGE}"), &path, TAG, &body, make).await?.0
            }
        };
        rights.push(Right {
            name: format!("tag key {NAMESPACE}.{TAG}"),
            purpose: "of that namespace: Kiln sets it on new control nodes",
            text: vec![TAG.into()],
            state,
        });

        let (name, rule) = (wanted.group(), wanted.rule());
        let groups =
            format!("/dynamicGroups?compartmentId={}&name={}&limit={PAGE}", encode(tenancy), encode(&name));
        let body = json!({ "compartmentId": tenancy, "name": name, "matchingRule": rule, "description": about,
                           "freeformTags": tags });
        let (mut state, group) = self.ensure_named(&groups, "/dynamicGroups", &name, &body, make).await?;
        if let Some(other) = group.filter(|group| group.matching_rule.as_ref() != Some(&rule)) {
            let change = json!({ "matchingRule": rule });
            state = self.change(&format!("/dynamicGroups/{}", other.id), &change, make).await?;
        }
        rights.push(Right {
            name: format!("dynamic group {name}"),
            purpose: "of the tenancy: the instances with that tag",
            text: vec![rule],
            state,
        });

        let (name, statements) = (wanted.policy(), wanted.statements());
        let body = json!({ "compartmentId": wanted.compartment, "name": name, "statements": statements,
                           "description": about, "freeformTags": tags });
        let policies = self.policies(&name);
        let (mut state, policy) = self.ensure_named(&policies, "/policies", &name, &body, make).await?;
        if let Some(other) = policy.filter(|policy| policy.statements != statements) {
            let change = json!({ "statements": statements });
            state = self.change(&format!("/policies/{}", other.id), &change, make).await?;
        }
        rights.push(Right {
            name: format!("policy {name}"),
            purpose: "of the compartment: what the group may do",
            text: statements,
            state,
        });
        Ok(rights)
    }

    /// Group and policy that Kiln made for the cluster go. Who may not see them has not made them.
    pub async fn revoke(&self, cluster: &str) -> Result<()> {
        let wanted = Wanted { cluster, compartment: &self.settings.compartment };
        self.remove_named(&self.policies(&wanted.policy()), "/policies", cluster).await?;
        if let Ok(tenancy) = self.tenancy() {
            let name = encode(&wanted.group());
            let groups = format!("/dynamicGroups?compartmentId={}&name={name}&limit={PAGE}", encode(tenancy));
            self.remove_named(&groups, "/dynamicGroups", cluster).await?;
        }
        Ok(())
    }

    /// For a new instance: what puts a control node into its cluster's group, where the tag exists.
    pub(super) async fn control_tag(&self, all: &Labels) -> Option<Value> {
        let is_control = all.get(labels::ROLE).is_some_and(|role| role == "control");
        let cluster = cluster_of(all).filter(|_| is_control)?;
        let has_tag = self.known.has_control_tag.get_or_try_init(|| self.find_control_tag()).await;
        match has_tag {
            Ok(true) => Some(json!({ NAMESPACE: { TAG: cluster } })),
            Ok(false) => None,
            Err(error) => {
                tracing::info!(%error, "the control node gets no tag");
                None
            }
        }
    }

    async fn find_control_tag(&self) -> Result<bool> {
        let path = format!("/tagNamespaces?compartmentId={}&limit={PAGE}", encode(self.tenancy()?));
        let Some(space) = self.named(&path, NAMESPACE).await? else { return Ok(false) };
        let path = format!("/tagNamespaces/{}/tags?limit={PAGE}", space.id);
        Ok(self.named(&path, TAG).await?.is_some())
    }

    fn policies(&self, name: &str) -> String {
        let compartment = encode(&self.settings.compartment);
        format!("/policies?compartmentId={compartment}&name={}&limit={PAGE}", encode(name))
    }

    async fn named(&self, listing: &str, name: &str) -> Result<Option<Found>> {
        let all: Vec<Found> = self.client.list(Identity, listing).await?;
        Ok(all.into_iter().find(|found| found.name == name && found.is_there()))
    }

    /// By its name, found or made.
    async fn ensure_named(
        &self,
        listing: &str,
        path: &str,
        name: &str,
        body: &Value,
        make: bool,
    ) -> Result<(RightState, Option<Found>)> {
        match self.named(listing, name).await {
            Ok(Some(found)) => return Ok((RightState::There, Some(found))),
            Ok(None) if !make => return Ok((RightState::Missing, None)),
            Ok(None) => {}
            Err(error) if is_refused(&error) => {
                return Ok((RightState::NotSeen { why: error.to_string() }, None));
            }
            Err(error) => return Err(error),
        }
        match self.client.send(&Call::post(Identity, path, body).once_only()).await {
            Ok(answer) => Ok((RightState::Made, Some(answer.read(path)?))),
            Err(error) if is_refused(&error) => Ok((RightState::NotMade { why: error.to_string() }, None)),
            Err(error) => Err(error),
        }
    }

    /// Of what says something else than it should.
    async fn change(&self, path: &str, body: &Value, make: bool) -> Result<RightState> {
        if !make {
            return Ok(RightState::NotMade { why: "it says something else".into() });
        }
        match self.client.send(&Call::put(Identity, path, body)).await {
            Ok(_) => Ok(RightState::Made),
            Err(error) if is_refused(&error) => Ok(RightState::NotMade { why: error.to_string() }),
            Err(error) => Err(error),
        }
    }

    async fn remove_named(&self, listing: &str, path: &str, cluster: &str) -> Result<()> {
        let all: Vec<Found> = match self.client.list(Identity, listing).await {
            Err(error) if is_refused(&error) => return Ok(()),
            other => other?,
        };
        for own in all.iter().filter(|f| f.is_there() && cluster_of(&f.freeform_tags) == Some(cluster)) {
            self.client.delete(Identity, &format!("{path}/{}", own.id)).await?;
        }
        Ok(())
    }
}

/// Whoever has more rights may get another answer. Identity is written in the tenancy's home region alone.
fn is_refused(error: &Error) -> bool {
    [Class::NoRights, Class::Refused, Class::NoRoom].contains(&error.class) || error.is_not_found()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_the_place() {
        let of = |compartment: &str| Wanted { cluster: "demo", compartment }.statements().remove(0);
        let group = Wanted { cluster: "demo", compartment: "ocid1.compartment.oc1..a" }.group();
        assert_eq!(
            of("ocid1.compartment.oc1..a"),
            format!(
                "Allow dynamic-group {group} to manage instances in compartment id ocid1.compartment.oc1..a"
            )
        );
        assert!(of("ocid1.tenancy.oc1..a").ends_with(" to manage instances in tenancy"));
        assert_ne!(group, Wanted { cluster: "demo", compartment: "ocid1.compartment.oc1..b" }.group());
    }
}
