//! Security groups.

use std::future::Future;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::driver::{Driver, checked};
use super::labels::{cluster_of, describe, with_tags};
use super::networks::Labelled;
use super::session::Service::Network;
use crate::{Class, Error, Labels, NewSecurityGroup, Peers, Result, Rule, SecurityGroup};

/// Neutron notices a little late that a port is gone.
const IN_USE_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
struct WireGroup {
    id: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    security_group_rules: Vec<WireRule>,
}

#[derive(Debug, Deserialize)]
struct WireRule {
    id: String,
    direction: String,
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    port_range_min: Option<u16>,
    #[serde(default)]
    remote_ip_prefix: Option<IpNet>,
    #[serde(default)]
    remote_group_id: Option<String>,
}

impl WireGroup {
    /// With their ids.
    fn rules(&self) -> impl Iterator<Item = (&str, Rule)> {
        let rules = self.security_group_rules.iter().filter(|r| r.direction == "ingress");
        // Every group lets ping in, as every other cloud does; that is not written down.
        rules.filter(|r| !is_ping(r)).filter_map(|rule| {
            let members = || (rule.remote_group_id.as_ref() == Some(&self.id)).then_some(Peers::Members);
            let from = rule.remote_ip_prefix.map(Peers::Net).or_else(members)?;
            let tcp_port = rule.port_range_min.filter(|_| rule.protocol.as_deref() == Some("tcp"));
            Some((rule.id.as_str(), Rule { from, tcp_port }))
        })
    }

    fn group(self) -> SecurityGroup {
        SecurityGroup {
            rules: self.rules().map(|(_, rule)| rule).collect(),
            labels: with_tags(self.description.as_deref(), &self.tags),
            id: self.id,
            name: self.name,
        }
    }
}

fn is_ping(rule: &WireRule) -> bool {
    rule.protocol.as_deref() == Some("icmp")
}

impl Labelled for NewSecurityGroup {
    fn name(&self) -> &str {
        &self.name
    }
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Driver {
    pub async fn security_groups(&self, cluster: &str) -> Result<Vec<SecurityGroup>> {
        let all: Vec<WireGroup> = self.described("security-groups", cluster).await?;
        Ok(all.into_iter().map(WireGroup::group).collect())
    }

    pub async fn create_security_group(&self, new: NewSecurityGroup) -> Result<SecurityGroup> {
        let body = json!({ "name": new.name, "description": describe(&new.labels) });
        let group: WireGroup = self.ensure("security-groups", "security_group", &new, body).await?;
        self.tag("security-groups", &group.id, &new.labels).await?;
        let ping = json!({ "direction": "ingress", "ethertype": "IPv4", "protocol": "icmp",
                           "security_group_id": group.id });
        let bodies = std::iter::once(ping).chain(new.rules.iter().map(|rule| rule_body(&group.id, rule)));
        for body in bodies {
            let body = json!({ "security_group_rule": body });
            match self
                .client
                .request(Network, Method::POST, "/security-group-rules", Some(&body))
                .retried()
                .await
            {
                // The very same rule is there: Neutron takes none twice.
                Ok(_) | Err(Error { class: Class::Conflict, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        for (id, _) in group.rules().filter(|(_, rule)| new.without.contains(rule)) {
            self.client.delete(Network, &format!("/security-group-rules/{id}")).await?;
        }
        Ok(SecurityGroup { id: group.id, name: new.name, labels: new.labels, rules: new.rules })
    }

    pub async fn delete_security_group(&self, id: &str) -> Result<()> {
        let path = format!("/security-groups/{}", checked("security group", id)?);
        let group: WireGroup = match self.client.get(Network, &path, "security_group").await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        let group = group.group();
        if cluster_of(&group.labels).is_none() {
            return Err(Error::conflict(format!("security group {} ({id}) is not Kiln's", group.name)));
        }
        self.while_in_use(|| self.client.delete(Network, &path)).await
    }

    /// Tries again while the thing is said to be in use.
    pub(super) async fn while_in_use<F: Future<Output = Result<()>>>(
        &self,
        delete: impl Fn() -> F,
    ) -> Result<()> {
        let deadline = tokio::time::Instant::now() + IN_USE_LIMIT;
        loop {
            match delete().await {
                Err(Error { class: Class::Conflict, .. }) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(super::driver::LOOK_EVERY).await;
                }
                other => return other,
            }
        }
    }
}

fn rule_body(group: &str, rule: &Rule) -> Value {
    let mut body = json!({ "direction": "ingress", "ethertype": "IPv4", "security_group_id": group });
    match rule.from {
        Peers::Members => body["remote_group_id"] = json!(group),
        Peers::Net(net) => body["remote_ip_prefix"] = json!(net.trunc().to_string()),
    }
    if matches!(rule.from, Peers::Net(IpNet::V6(_))) {
        body["ethertype"] = json!("IPv6");
    }
    if let Some(port) = rule.tcp_port {
        body["protocol"] = json!("tcp");
        body["port_range_min"] = json!(port);
        body["port_range_max"] = json!(port);
    }
    body
}
