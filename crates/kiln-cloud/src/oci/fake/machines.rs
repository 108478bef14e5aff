//! Instances that boot: each one that the services have is a system of the local cloud, on its address, with its volumes.
//!
//! The services know nothing of it. What they say there is, is looked at over and over, and the local cloud made to match.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::lock;
use super::network::rules_of;
use super::world::{Resource, World};
use crate::{
    Cloud, Error, Labels, Network, NewInstance, NewSecurityGroup, NewVolume, Peers, Rebuild, Result, Rule,
};
use kiln_wire::Attachment;

/// Cores and memory are the host's, whatever the name.
const FLAVOR: &str = "medium";
const EVERY: Duration = Duration::from_millis(200);

pub struct Machines {
    cloud: Cloud,
    pub network: Network,
    /// Ids of the local cloud by those of the services.
    images: BTreeMap<String, String>,
    volumes: BTreeMap<String, String>,
    groups: BTreeMap<String, String>,
    booted: BTreeMap<String, Machine>,
    /// What went wrong last, which is tried again.
    told: String,
}

/// A system as it was last made.
struct Machine {
    id: String,
    boot_volume: String,
    is_on: bool,
    resets: u64,
}

/// An instance as it has to be.
#[derive(Debug, PartialEq)]
struct Wanted {
    id: String,
    name: String,
    image: String,
    boot_volume: String,
    address: Option<IpAddr>,
    groups: Vec<String>,
    labels: Labels,
    /// With whether it is read-only.
    volumes: Vec<(String, bool)>,
    is_on: bool,
    resets: u64,
}

impl Machines {
    pub fn new(cloud: Cloud, network: Network, images: BTreeMap<String, String>) -> Machines {
        Machines {
            cloud,
            network,
            images,
            volumes: BTreeMap::new(),
            groups: BTreeMap::new(),
            booted: BTreeMap::new(),
            told: String::new(),
        }
    }

    /// Never ends.
    pub async fn follow(machines: Arc<tokio::sync::Mutex<Machines>>, world: Arc<Mutex<World>>) {
        loop {
            {
                let mut machines = machines.lock().await;
                let told = machines.step(&world).await.err().map(|error| error.chain()).unwrap_or_default();
                if !told.is_empty() && told != machines.told {
                    eprintln!("the fake's machines: {told}");
                }
                machines.told = told;
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// The network, and whatever is on it.
    pub async fn remove(&mut self) -> Result<()> {
        self.keep(&[], &BTreeSet::new()).await?;
        self.cloud.delete_network(&self.network.id).await?;
        self.cloud.retire().await.map(drop)
    }

    async fn step(&mut self, world: &Mutex<World>) -> Result<()> {
        let (wanted, there) = {
            let mut world = lock(world);
            world.advance();
            let kinds = ["volumes", "networkSecurityGroups"].into_iter();
            let there = kinds.flat_map(|kind| world.list(kind)).filter(|r| r.is_there());
            (wanted(&world), there.map(|r| r.id().to_string()).collect::<BTreeSet<_>>())
        };
        self.keep(&wanted, &there).await?;
        for wanted in &wanted {
            self.make(wanted, world).await?;
        }
        Ok(())
    }

    /// Everything else goes. An address may be somebody else's by now, so this is first.
    async fn keep(&mut self, wanted: &[Wanted], there: &BTreeSet<String>) -> Result<()> {
        let gone = |id: &&String| !wanted.iter().any(|w| w.id == **id);
        for id in self.booted.keys().filter(gone).cloned().collect::<Vec<_>>() {
            self.cloud.delete(&self.booted[&id].id).await?;
            self.booted.remove(&id);
        }
        for id in self.volumes.keys().filter(|id| !there.contains(*id)).cloned().collect::<Vec<_>>() {
            self.cloud.delete_volume(&self.volumes[&id]).await?;
            self.volumes.remove(&id);
        }
        for id in self.groups.keys().filter(|id| !there.contains(*id)).cloned().collect::<Vec<_>>() {
            self.cloud.delete_security_group(&self.groups[&id]).await?;
            self.groups.remove(&id);
        }
        Ok(())
    }

    async fn make(&mut self, wanted: &Wanted, world: &Mutex<World>) -> Result<()> {
        let image = self.images.get(&wanted.image).cloned();
        let image = image.ok_or_else(|| Error::not_found("image to boot", wanted.image.clone()))?;
        let Some(machine) = self.booted.get_mut(&wanted.id) else {
            return self.create(wanted, image, world).await;
        };
        if machine.boot_volume != wanted.boot_volume && wanted.is_on {
            let new = Rebuild {
                image,
                user_data: "".into(),
                ssh_key: String::new(),
                labels: wanted.labels.clone(),
            };
            self.cloud.rebuild(&machine.id, new).await?;
            machine.boot_volume.clone_from(&wanted.boot_volume);
        } else if machine.is_on && !wanted.is_on {
            self.cloud.stop(&machine.id, false).await?;
        } else if !machine.is_on && wanted.is_on {
            self.cloud.start(&machine.id).await?;
        } else if machine.resets != wanted.resets {
            self.cloud.reboot(&machine.id, false).await?;
        }
        (machine.is_on, machine.resets) = (wanted.is_on, wanted.resets);
        Ok(())
    }

    async fn create(&mut self, wanted: &Wanted, image: String, world: &Mutex<World>) -> Result<()> {
        let mut volumes = Vec::new();
        for (id, read_only) in &wanted.volumes {
            volumes.push(Attachment { volume: self.volume(id, world).await?, read_only: *read_only });
        }
        let mut security_groups = Vec::new();
        for id in &wanted.groups {
            security_groups.push(self.group(id, world).await?);
        }
        let new = NewInstance {
            name: wanted.name.clone(),
            image,
            flavor: FLAVOR.into(),
            zone: None,
            network: self.network.id.clone(),
            address: wanted.address,
            public: false,
            security_groups,
            // The services tell it who it is.
            user_data: "".into(),
            ssh_key: String::new(),
            labels: wanted.labels.clone(),
            volumes,
            disk_gib: None,
            request: None,
        };
        let made = self.cloud.create(vec![new]).await.remove(0)?;
        let machine = Machine {
            id: made.id,
            boot_volume: wanted.boot_volume.clone(),
            is_on: true,
            resets: wanted.resets,
        };
        self.booted.insert(wanted.id.clone(), machine);
        Ok(())
    }

    async fn volume(&mut self, id: &str, world: &Mutex<World>) -> Result<String> {
        if let Some(known) = self.volumes.get(id) {
            return Ok(known.clone());
        }
        let value = shown(world, "volumes", id)?;
        let new = NewVolume {
            // A node looks for this.
            name: id.to_string(),
            size_gib: value["sizeInGBs"].as_u64().unwrap_or_default(),
            labels: labels(&value),
        };
        let made = self.cloud.create_volume(new).await?.id;
        self.volumes.insert(id.to_string(), made.clone());
        Ok(made)
    }

    /// With the rules that it has now.
    async fn group(&mut self, id: &str, world: &Mutex<World>) -> Result<String> {
        if let Some(known) = self.groups.get(id) {
            return Ok(known.clone());
        }
        let value = shown(world, "networkSecurityGroups", id)?;
        let rules = rules_of(&lock(world), id);
        let new = NewSecurityGroup {
            name: text(&value["displayName"]),
            labels: labels(&value),
            rules: rules.iter().filter_map(rule).collect(),
            without: vec![],
        };
        let made = self.cloud.create_security_group(new).await?.id;
        self.groups.insert(id.to_string(), made.clone());
        Ok(made)
    }
}

fn shown(world: &Mutex<World>, kind: &str, id: &str) -> Result<Value> {
    let found = lock(world).get(kind, id).map(|resource| resource.value.clone());
    found.ok_or_else(|| Error::failed(format!("there is no {id} among {kind}")))
}

/// In the order of their launch.
fn wanted(world: &World) -> Vec<Wanted> {
    let instances = world.list("instances").iter();
    let there = instances.filter(|r| r.is_there() && r.state() != "TERMINATING");
    there.filter_map(|instance| wanted_of(world, instance)).collect()
}

/// `None` of one that will come to nothing.
fn wanted_of(world: &World, instance: &Resource) -> Option<Wanted> {
    let own = |kind: &'static str| {
        let of = |r: &&Resource| r.is_there() && r.value["instanceId"] == instance.id();
        world.list(kind).iter().filter(of).map(|r| &r.value)
    };
    let boot_volume = text(&own("bootVolumeAttachments").next_back()?["bootVolumeId"]);
    let vnic = own("vnicAttachments").next()?;
    let vnic = &world.get("vnics", vnic["vnicId"].as_str()?)?.value;
    let groups = vnic["nsgIds"].as_array().into_iter().flatten().map(text);
    Some(Wanted {
        id: instance.id().to_string(),
        name: text(&instance.value["displayName"]),
        image: text(&world.get("bootVolumes", &boot_volume)?.value["imageId"]),
        boot_volume,
        address: vnic["privateIp"].as_str().and_then(|address| address.parse().ok()),
        groups: groups.collect(),
        labels: labels(&instance.value),
        volumes: own("volumeAttachments").map(|a| (text(&a["volumeId"]), a["isReadOnly"] == true)).collect(),
        is_on: !["STOPPING", "STOPPED"].contains(&instance.state()),
        resets: world.resets.get(instance.id()).copied().unwrap_or_default(),
    })
}

/// `None` of what goes out: nothing keeps a system of the local cloud from that.
fn rule(rule: &Value) -> Option<Rule> {
    if rule["direction"] != "INGRESS" {
        return None;
    }
    let from = match rule["sourceType"].as_str() {
        Some("NETWORK_SECURITY_GROUP") => Peers::Members,
        _ => Peers::Net(rule["source"].as_str()?.parse().ok()?),
    };
    let tcp_port = rule["tcpOptions"]["destinationPortRange"]["min"].as_u64();
    Some(Rule { from, tcp_port: tcp_port.and_then(|port| port.try_into().ok()) })
}

fn labels(value: &Value) -> Labels {
    serde_json::from_value(value["freeformTags"].clone()).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Fake, IMAGES};
    use super::*;
    use crate::NewNetwork;
    use crate::memory::Memory;

    fn of_cluster() -> Labels {
        Labels::from([(kiln_wire::labels::CLUSTER.to_string(), "demo".to_string())])
    }

    /// Whatever is done to an instance is asked of the local cloud, once.
    #[tokio::test]
    async fn the_local_cloud_follows() {
        let fake = Fake::start().await.unwrap();
        let oracle = fake.cloud().unwrap();
        let local = Memory::new("the fake's machines");
        let cidr = "10.31.0.0/24".parse().ok();
        let network = NewNetwork { name: "demo".into(), cidr, labels: of_cluster(), automatic: vec![] };
        let network = oracle.create_network(network).await.unwrap();
        let volume = NewVolume { name: "demo-state".into(), size_gib: 50, labels: of_cluster() };
        let volume = oracle.create_volume(volume).await.unwrap().id;
        let [a, b] = IMAGES.map(|name| oracle.find_image(name));
        let (a, b) = (a.await.unwrap().id, b.await.unwrap().id);
        let images = [(a.clone(), "local-a".to_string()), (b.clone(), "local-b".to_string())];
        let mut machines = Machines::new(local.cloud(), network.clone(), images.into());

        let new = NewInstance {
            name: "n-0".into(),
            image: a,
            flavor: "VM.Standard.E5.Flex.1.8".into(),
            zone: None,
            network: network.id,
            address: None,
            public: false,
            security_groups: vec![],
            user_data: "first".into(),
            ssh_key: "ssh-ed25519 AAAA kiln".into(),
            labels: of_cluster(),
            volumes: vec![Attachment { volume: volume.clone(), read_only: false }],
            disk_gib: None,
            request: None,
        };
        let id = oracle.create(vec![new]).await.remove(0).unwrap().id;
        let mut seen = Vec::new();
        let mut step = async |expected: &[&str]| {
            machines.step(&fake.world).await.unwrap();
            machines.step(&fake.world).await.unwrap();
            seen.extend(expected.iter().map(ToString::to_string));
            assert_eq!(local.calls(), seen);
        };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(300);
        let ids = [id.clone()];
        let active = async || drop(oracle.wait_active(&ids, deadline, |_| {}).await.unwrap());
        active().await;
        step(&["create 1"]).await;
        let made = local.instance("n-0").unwrap();
        assert_eq!((made.image.as_deref(), made.address.is_some()), (Some("local-a"), true));
        let attached = local.cloud().volumes("demo").await.unwrap();
        assert_eq!(
            (attached[0].name.as_str(), &made.volumes),
            (volume.as_str(), &vec![attached[0].id.clone()])
        );

        let new = Rebuild {
            image: b,
            user_data: "second".into(),
            ssh_key: "ssh-ed25519 AAAA kiln".into(),
            labels: of_cluster(),
        };
        oracle.rebuild(&id, new).await.unwrap();
        active().await;
        step(&["rebuild n-0 local-b"]).await;
        oracle.reboot(&id, true).await.unwrap();
        active().await;
        step(&["reboot n-0"]).await;
        oracle.stop(&id, true).await.unwrap();
        step(&["stop n-0"]).await;
        oracle.start(&id).await.unwrap();
        active().await;
        step(&["start n-0"]).await;
        oracle.delete(&id).await.unwrap();
        step(&["delete n-0"]).await;
    }

    #[test]
    fn rules_of_a_group_become_those_of_the_local_cloud() {
        let ssh = json!({
            "direction": "INGRESS", "protocol": "6", "source": "192.0.2.0/24", "sourceType": "CIDR_BLOCK",
            "tcpOptions": { "destinationPortRange": { "min": 22, "max": 22 } },
        });
        let net = Peers::Net("192.0.2.0/24".parse().unwrap());
        assert_eq!(rule(&ssh), Some(Rule { from: net, tcp_port: Some(22) }));
        let own = json!({
            "direction": "INGRESS", "protocol": "all", "source": "ocid1.nsg", "sourceType": "NETWORK_SECURITY_GROUP",
        });
        assert_eq!(rule(&own), Some(Rule { from: Peers::Members, tcp_port: None }));
        let out = json!({ "direction": "EGRESS", "protocol": "all", "destination": "0.0.0.0/0" });
        assert_eq!(rule(&out), None);
    }
}
