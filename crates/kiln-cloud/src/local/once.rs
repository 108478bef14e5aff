//! Making a thing once although the answer may get lost: the second attempt then finds the name taken, by
//! what the first one made.

use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::driver::Driver;
use crate::driver::Driver as _;
use crate::{Labels, Network, NewNetwork, NewSecurityGroup, NewVolume, Result, SecurityGroup, Volume};
use kiln_wire::labels;

impl Driver {
    pub(super) async fn make_volume(&self, new: NewVolume) -> Result<Volume> {
        self.once("/v1/volumes", &new, async {
            let found = self.volume_by_name(&new.name).await?;
            Ok(found.filter(|v| v.labels == new.labels && v.size_gib == new.size_gib))
        })
        .await
    }

    pub(super) async fn make_network(&self, new: NewNetwork) -> Result<Network> {
        self.once("/v1/networks", &new, async {
            let Some(cluster) = cluster(&new.labels) else { return Ok(None) };
            Ok(self.networks(cluster).await?.into_iter().find(|n| is_network(n, &new)))
        })
        .await
    }

    pub(super) async fn make_security_group(&self, new: NewSecurityGroup) -> Result<SecurityGroup> {
        self.once("/v1/security-groups", &new, async {
            let Some(cluster) = cluster(&new.labels) else { return Ok(None) };
            Ok(self.security_groups(cluster).await?.into_iter().find(|g| is_group(g, &new)))
        })
        .await
    }

    /// `own` looks for what an earlier attempt may have made.
    async fn once<T: DeserializeOwned>(
        &self,
        path: &str,
        new: &impl Serialize,
        own: impl Future<Output = Result<Option<T>>>,
    ) -> Result<T> {
        match self.client.call_counting(Method::POST, path, new).await {
            (Err(error), failed) if failed > 0 && error.is_conflict() => own.await?.ok_or(error),
            (answer, _) => answer,
        }
    }
}

fn cluster(labels: &Labels) -> Option<&str> {
    labels.get(labels::CLUSTER).map(String::as_str)
}

fn is_network(made: &Network, new: &NewNetwork) -> bool {
    made.name == new.name && made.labels == new.labels && new.cidr.is_none_or(|cidr| cidr == made.cidr)
}

fn is_group(made: &SecurityGroup, new: &NewSecurityGroup) -> bool {
    made.name == new.name && made.labels == new.labels && made.rules == new.rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_ones_own() {
        let labels: Labels = [(labels::CLUSTER.to_string(), "c".to_string())].into();
        let cidr = "10.1.0.0/24".parse().unwrap();
        let made = Network {
            id: "1".into(),
            name: "n".into(),
            cidr,
            labels: labels.clone(),
            lacks: None,
            api_url: None,
            automatic: vec![],
        };
        let new = |cidr: Option<&str>, labels: &Labels| NewNetwork {
            name: "n".into(),
            cidr: cidr.map(|c| c.parse().unwrap()),
            labels: labels.clone(),
            automatic: vec![],
        };
        assert!(is_network(&made, &new(None, &labels)));
        assert!(is_network(&made, &new(Some("10.1.0.0/24"), &labels)));
        assert!(!is_network(&made, &new(Some("10.2.0.0/24"), &labels)));
        assert!(!is_network(&made, &new(None, &Labels::new())));
    }
}
