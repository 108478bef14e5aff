//! What an instance can learn about itself, in `OpenStack`'s format: at 169.254.169.254, and on the config
//! drive. Real clouds give a block device labelled `config-2`; here the same tree is mounted read-only at
//! `/mnt/config`.

use std::net::Ipv4Addr;

use serde_json::json;

use super::records::{InstanceRecord, Phase};
use super::{Daemon, networks, store};
use crate::local::{METADATA_PORT, names};
use crate::{Error, Network, Result};

impl Daemon {
    /// The answer to a request for `path` from an instance's address.
    pub fn metadata(&self, from: Ipv4Addr, path: &str) -> Result<String> {
        let missing = || Error::not_found("metadata", path.to_string());
        let (record, network) = {
            let world = self.world();
            let mut alive = world.instances.iter().filter(|i| i.phase != Phase::Deleting);
            let record = alive.find(|i| i.address == from).ok_or_else(missing)?.clone();
            let network = world.networks.get(&record.network)?.clone();
            (record, network)
        };
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        match parts.as_slice() {
            ["openstack"] => Ok("latest\n".into()),
            ["openstack", "latest"] => Ok(FILES.map(|(name, _)| format!("{name}\n")).concat()),
            ["openstack", "latest", file] => render(file, &record, &network).ok_or_else(missing),
            ["latest", "user-data"] => Ok(record.user_data.expose_secret().to_string()),
            ["latest", "meta-data"] => Ok("hostname\ninstance-id\nlocal-ipv4\n".into()),
            ["latest", "meta-data", "hostname"] => Ok(record.name),
            ["latest", "meta-data", "instance-id"] => Ok(record.id),
            ["latest", "meta-data", "local-ipv4"] => Ok(record.address.to_string()),
            _ => Err(missing()),
        }
    }

    /// Nothing is written where the network's instances have none.
    pub fn write_config_drive(&self, record: &InstanceRecord) -> Result<()> {
        let network = self.world().networks.get(&record.network)?.clone();
        if elsewhere(&network).is_some() {
            return Ok(());
        }
        let dir = self.instance_dir(&record.id).join("config/openstack/latest");
        store::make_dir(&dir)?;
        FILES.iter().try_for_each(|(name, content)| {
            store::write_file(&dir.join(name), content(record, &network).as_bytes())
        })
    }
}

/// The port of the gateway where somebody else serves the metadata of a network's instances.
pub fn elsewhere(network: &Network) -> Option<u16> {
    network.labels.get(METADATA_PORT)?.parse().ok()
}

type Content = fn(&InstanceRecord, &Network) -> String;

const FILES: [(&str, Content); 4] = [
    ("meta_data.json", meta_data),
    ("network_data.json", network_data),
    ("user_data", |record, _| record.user_data.expose_secret().to_string()),
    ("vendor_data.json", |_, _| "{}\n".into()),
];

fn render(file: &str, record: &InstanceRecord, network: &Network) -> Option<String> {
    FILES.iter().find(|(name, _)| *name == file).map(|(_, content)| content(record, network))
}

fn meta_data(record: &InstanceRecord, _: &Network) -> String {
    let mut keys = serde_json::Map::new();
    if !record.ssh_key.is_empty() {
        keys.insert("kiln".into(), record.ssh_key.clone().into());
    }
    json!({
        "uuid": record.id,
        "name": record.name,
        "hostname": record.name,
        "meta": record.labels,
        "public_keys": keys,
        "availability_zone": "local",
        "launch_index": 0,
    })
    .to_string()
}

fn network_data(record: &InstanceRecord, network: &Network) -> String {
    json!({
        "links": [
            {"id": "eth0", "type": "phy", "mtu": 1500, "ethernet_mac_address": names::mac(&record.id)},
        ],
        "networks": [{
            "id": "network0",
            "link": "eth0",
            "network_id": network.id,
            "type": "ipv4",
            "ip_address": record.address,
            "netmask": network.cidr.netmask(),
            "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": networks::gateway(network.cidr)}],
        }],
        "services": [],
    })
    .to_string()
}
