//! Network security groups.

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Call;
use super::driver::{Driver, PAGE, checked, cluster_of, not_ours};
use super::region::Service::Core;
use super::wire::Part;
use crate::retry::{Policy, retry};
use crate::{NewSecurityGroup, Peers, Result, Rule, SecurityGroup};

/// As many rules as Oracle takes in one call.
const AT_ONCE: usize = 25;
const KIND: &str = "networkSecurityGroups";
const TCP: &str = "6";
const PING: &str = "1";

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRule {
    #[serde(default)]
    id: String,
    direction: String,
    protocol: String,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    source_type: Option<String>,
    #[serde(default)]
    tcp_options: Option<TcpOptions>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TcpOptions {
    #[serde(default)]
    destination_port_range: Option<PortRange>,
}

#[derive(Debug, Clone, Deserialize)]
struct PortRange {
    min: u16,
}

impl WireRule {
    /// `None`: not one that Kiln has words for, such as those for ping and for what goes out.
    fn rule(&self, group: &str) -> Option<Rule> {
        let source = self.source.as_deref().filter(|_| self.direction == "INGRESS")?;
        let from = match self.source_type.as_deref() {
            Some("NETWORK_SECURITY_GROUP") => (source == group).then_some(Peers::Members)?,
            _ => Peers::Net(source.parse::<IpNet>().ok()?),
        };
        let port = self.tcp_options.as_ref().and_then(|tcp| tcp.destination_port_range.as_ref());
        match self.protocol.as_str() {
            "all" => Some(Rule { from, tcp_port: None }),
            TCP => Some(Rule { from, tcp_port: Some(port?.min) }),
            _ => None,
        }
    }
}

impl Driver {
    pub async fn security_groups(&self, cluster: &str) -> Result<Vec<SecurityGroup>> {
        let mut groups = Vec::new();
        for part in self.tagged(KIND, cluster).await? {
            let rules = self.rules(&part.id).await?.iter().filter_map(|rule| rule.rule(&part.id)).collect();
            groups.push(SecurityGroup {
                id: part.id,
                name: part.display_name,
                labels: part.freeform_tags,
                rules,
            });
        }
        Ok(groups)
    }

    async fn rules(&self, group: &str) -> Result<Vec<WireRule>> {
        self.client.list(Core, &format!("/{KIND}/{group}/securityRules?limit={PAGE}")).await
    }

    pub async fn create_security_group(&self, new: NewSecurityGroup) -> Result<SecurityGroup> {
        let vcn = self.vcn_of(&new.labels).await?;
        let group = self.ensure(KIND, Some(&vcn), &new.name, &new.labels, json!({})).await?;
        let (id, wanted) = (group.id.as_str(), &wanted_rules(&group.id, &new.rules));
        // Oracle does not know a second attempt as such here, and would make every rule twice.
        retry(&Policy::REMOTE, |_| async move {
            let there = self.rules(id).await?;
            let missing: Vec<&Value> = wanted.iter().filter(|rule| !has(&there, rule)).collect();
            for some in missing.chunks(AT_ONCE) {
                let body = json!({ "securityRules": some });
                let path = format!("/{KIND}/{id}/actions/addSecurityRules");
                self.client.send_once(&Call::post(Core, path, &body)).await?;
            }
            Ok(())
        })
        .await?;
        let there = self.rules(id).await?;
        let old = there.iter().filter(|r| r.rule(id).is_some_and(|rule| new.without.contains(&rule)));
        let old: Vec<&str> = old.map(|rule| rule.id.as_str()).collect();
        if !old.is_empty() {
            let body = json!({ "securityRuleIds": old });
            let path = format!("/{KIND}/{id}/actions/removeSecurityRules");
            self.client.send(&Call::post(Core, path, &body)).await?;
        }
        Ok(SecurityGroup { id: group.id.clone(), name: new.name, labels: new.labels, rules: new.rules })
    }

    pub async fn delete_security_group(&self, id: &str) -> Result<()> {
        let path = format!("/{KIND}/{}", checked("security group", id)?);
        let group: Part = match self.client.get(Core, &path).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        if cluster_of(&group.freeform_tags).is_none() {
            return Err(not_ours("security group", &format!("{} ({id})", group.display_name)));
        }
        self.delete_part(&path).await
    }
}

/// With what every group has: ping comes in, as on every other cloud, and everything goes out.
fn wanted_rules(group: &str, rules: &[Rule]) -> Vec<Value> {
    let ping = json!({ "direction": "INGRESS", "protocol": PING, "source": "0.0.0.0/0", "sourceType": "CIDR_BLOCK",
                       "isStateless": false });
    let out = json!({ "direction": "EGRESS", "protocol": "all", "destination": "0.0.0.0/0",
                      "destinationType": "CIDR_BLOCK", "isStateless": false });
    let own = rules.iter().map(|rule| {
        let (source, kind) = match rule.from {
            Peers::Members => (group.to_string(), "NETWORK_SECURITY_GROUP"),
            Peers::Net(net) => (net.trunc().to_string(), "CIDR_BLOCK"),
        };
        let mut body = json!({ "direction": "INGRESS", "protocol": "all", "source": source, "sourceType": kind,
                               "isStateless": false });
        if let Some(port) = rule.tcp_port {
            body["protocol"] = json!(TCP);
            body["tcpOptions"] = json!({ "destinationPortRange": { "min": port, "max": port } });
        }
        body
    });
    [ping, out].into_iter().chain(own).collect()
}

fn has(there: &[WireRule], wanted: &Value) -> bool {
    there.iter().any(|rule| {
        let port = rule.tcp_options.as_ref().and_then(|tcp| tcp.destination_port_range.as_ref());
        wanted["direction"] == rule.direction.as_str()
            && wanted["protocol"] == rule.protocol.as_str()
            && wanted["source"].as_str() == rule.source.as_deref()
            && wanted["tcpOptions"]["destinationPortRange"]["min"].as_u64()
                == port.map(|port| port.min.into())
    })
}
