//! What the stages of a plan have made so far, from which later stages resolve their references.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::Ipv4Net;
use kiln_cloud::{Instance, Labels, Network, Peers, Rule};
use kiln_wire::Attachment;
use kiln_wire::bundle::MountSource;

use crate::error::{Error, Result};
use crate::nodes::node_of;
use crate::plan::{PlannedAttachment, PlannedLabels, PlannedRule, Ref, Resource, exported_share};

#[derive(Debug, Default)]
pub struct Made {
    ids: BTreeMap<Resource, String>,
    subnets: BTreeMap<Resource, Ipv4Net>,
    addresses: BTreeMap<Resource, IpAddr>,
    /// Where file systems are mounted from.
    exports: BTreeMap<Resource, String>,
}

impl Made {
    pub fn extend(&mut self, other: Made) {
        self.ids.extend(other.ids);
        self.subnets.extend(other.subnets);
        self.addresses.extend(other.addresses);
        self.exports.extend(other.exports);
    }

    pub fn one(resource: Resource, id: String) -> Made {
        Made { ids: BTreeMap::from([(resource, id)]), ..Made::default() }
    }

    pub fn network(network: Network) -> Made {
        let resource = Resource::Network(network.name);
        let subnets = BTreeMap::from([(resource.clone(), network.cidr)]);
        Made { subnets, ..Made::one(resource, network.id) }
    }

    /// A file system, and from where it is mounted.
    pub fn add_export(&mut self, name: String, at: String) {
        self.exports.insert(Resource::Volume(name), at);
    }

    pub fn add_instance(&mut self, instance: &Instance) {
        let resource = Resource::Instance(node_of(instance).to_string());
        self.ids.insert(resource.clone(), instance.id.clone());
        self.addresses.extend(instance.address.map(|address| (resource, address)));
    }

    pub fn id(&self, id: &Ref<String>) -> Result<String> {
        match id {
            Ref::Known(id) => Ok(id.clone()),
            Ref::Made(resource) => find(&self.ids, resource).cloned(),
        }
    }

    pub fn ids(&self, ids: &[Ref<String>]) -> Result<Vec<String>> {
        ids.iter().map(|id| self.id(id)).collect()
    }

    pub fn labels(&self, labels: &PlannedLabels) -> Result<Labels> {
        labels.iter().map(|(key, value)| Ok((key.clone(), self.id(value)?))).collect()
    }

    pub fn attachments(&self, planned: &[PlannedAttachment]) -> Result<Vec<Attachment>> {
        let attachment = |planned: &PlannedAttachment| {
            Ok(Attachment { volume: self.id(&planned.volume)?, read_only: planned.read_only })
        };
        planned.iter().map(attachment).collect()
    }

    pub fn rules(&self, planned: &[PlannedRule]) -> Result<Vec<Rule>> {
        let peers = |from: &Ref<Peers>| match from {
            Ref::Known(peers) => Ok(*peers),
            Ref::Made(network) => find(&self.subnets, network).map(|subnet| Peers::from(*subnet)),
        };
        planned.iter().map(|rule| Ok(Rule { from: peers(&rule.from)?, tcp_port: rule.tcp_port })).collect()
    }

    pub fn share(&self, share: &Ref<MountSource>) -> Result<MountSource> {
        match share {
            Ref::Known(source) => Ok(source.clone()),
            Ref::Made(volume @ Resource::Volume(name)) => match self.exports.get(volume) {
                Some(at) => Ok(MountSource::Nfs3(at.clone())),
                None => Err(Error::NotReady(format!("file system {name} is not exported"))),
            },
            Ref::Made(control) => find(&self.addresses, control).map(|address| exported_share(*address)),
        }
    }

    pub fn address(&self, address: &Ref<IpAddr>) -> Result<IpAddr> {
        match address {
            Ref::Known(address) => Ok(*address),
            Ref::Made(instance) => find(&self.addresses, instance).copied(),
        }
    }

    pub fn subnet(&self, subnet: &Ref<Ipv4Net>) -> Result<Ipv4Net> {
        match subnet {
            Ref::Known(subnet) => Ok(*subnet),
            Ref::Made(network) => find(&self.subnets, network).copied(),
        }
    }
}

fn find<'m, T>(made: &'m BTreeMap<Resource, T>, resource: &Resource) -> Result<&'m T> {
    made.get(resource).ok_or_else(|| match resource {
        Resource::Image(name) => Error::ImageNotBuilt(name.clone()),
        Resource::Volume(name) => Error::NoVolume(name.clone()),
        Resource::Instance(node) => Error::NoInstance(node.clone()),
        Resource::Network(_) | Resource::SecurityGroup(_) => {
            Error::NotReady(format!("{resource} is missing"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_what_an_earlier_stage_made() {
        let mut made = Made::one(Resource::Volume("v".into()), "id-v".into());
        let network = Network {
            id: "id-n".into(),
            name: "n".into(),
            cidr: "10.8.0.0/24".parse().unwrap(),
            labels: Labels::new(),
            lacks: None,
            api_url: None,
            automatic: vec![],
        };
        made.extend(Made::network(network));
        assert_eq!(made.id(&Ref::Known("known".into())).unwrap(), "known");
        assert_eq!(made.id(&Ref::Made(Resource::Volume("v".into()))).unwrap(), "id-v");
        assert_eq!(made.id(&Ref::Made(Resource::Network("n".into()))).unwrap(), "id-n");
        let rule = PlannedRule { from: Ref::Made(Resource::Network("n".into())), tcp_port: Some(22) };
        let subnet: Ipv4Net = "10.8.0.0/24".parse().unwrap();
        assert_eq!(made.rules(&[rule]).unwrap()[0].from, Peers::from(subnet));
        let control = Ref::Made(Resource::Instance("control".into()));
        let share = Ref::Made(Resource::Volume("c-share".into()));
        assert_eq!(made.share(&share).unwrap_err().to_string(), "file system c-share is not exported");
        made.add_export("c-share".into(), "10.8.0.5:/c-share".into());
        assert_eq!(made.share(&share).unwrap(), MountSource::Nfs3("10.8.0.5:/c-share".into()));
        assert_eq!(made.share(&control).unwrap_err().to_string(), "control has no instance");
        let image = made.id(&Ref::Made(Resource::Image("default".into()))).unwrap_err();
        assert_eq!(image.to_string(), "image default is not built yet");
    }
}
