//! A cluster's place in the project, and the official client beside it.

use std::time::Duration;

use kiln_cloud::openstack::Settings;
use kiln_cloud::{Cloud, Labels, Network, NewInstance, NewNetwork, NewSecurityGroup, Peers, Rule};
use kiln_wire::labels;

use crate::client;

pub struct Site {
    pub cloud: Cloud,
    pub network: Network,
    pub image_a: String,
    pub image_b: String,
    cluster: &'static str,
    group: String,
    settings: Settings,
}

pub fn deadline() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(300)
}

impl Site {
    pub async fn new(cluster: &'static str, settings: Settings) -> Site {
        let settings =
            Settings { cloud: Some("demo".into()), external_network: Some("public".into()), ..settings };
        let cloud = Cloud::openstack(&settings).unwrap();
        // What a run that was cut off has left.
        clear(&cloud, cluster).await;
        let labels = Labels::from([(labels::CLUSTER.to_string(), cluster.to_string())]);
        let cidr = Some("10.31.0.0/24".parse().unwrap());
        let network = NewNetwork { name: cluster.into(), cidr, labels: labels.clone(), automatic: vec![] };
        let network = cloud.create_network(network).await.unwrap();
        let rules = vec![Rule { from: Peers::Members, tcp_port: None }];
        let group = NewSecurityGroup { name: format!("{cluster}-nodes"), labels, rules, without: vec![] };
        let group = cloud.create_security_group(group).await.unwrap().id;
        let [image_a, image_b] = ["image-a", "image-b"].map(|name| cloud.find_image(name));
        let (image_a, image_b) = (image_a.await.unwrap().id, image_b.await.unwrap().id);
        Site { cloud, network, image_a, image_b, cluster, group, settings }
    }

    pub fn labels(&self) -> Labels {
        Labels::from([(labels::CLUSTER.to_string(), self.cluster.to_string())])
    }

    pub fn wanted(&self, name: &str) -> NewInstance {
        let mut labels = self.labels();
        labels.insert(labels::NODE.into(), name.into());
        labels.insert(labels::GROUP.into(), "compute.standard".into());
        NewInstance {
            name: name.into(),
            image: self.image_a.clone(),
            flavor: "tiny".into(),
            network: self.network.id.clone(),
            address: None,
            public: false,
            zone: None,
            security_groups: vec![self.group.clone()],
            user_data: "first".into(),
            ssh_key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE5H4qOYcgAdZgHuEXeN5Vz5KJV6hLh0xCRfpM0T5Bdr kiln"
                .into(),
            labels,
            volumes: vec![],
            disk_gib: None,
            request: None,
        }
    }

    /// The same cloud with one service elsewhere, and the credential for it, which is to be held as long.
    pub fn through(&self, service: &str, url: &str) -> (Cloud, Credential) {
        let credential = Credential(format!("{}-through", self.cluster));
        let name = credential.0.as_str();
        openstack(&["application", "credential", "create", "--unrestricted", "--secret", "lab", name]);
        let access = serde_json::json!({
            "kind": "openstack",
            "auth_url": "http://127.0.0.1:5000/v3",
            "interface": "public",
            "overrides": { service: url },
            "user_id": openstack(&["token", "issue"])["user_id"],
            "credential": name,
            "secret": "lab",
            "settings": self.settings,
        });
        (Cloud::at(&serde_json::from_value(access).unwrap()).unwrap(), credential)
    }

    /// Everything is deleted, and the official client finds nothing.
    pub async fn end(self) {
        clear(&self.cloud, self.cluster).await;
        let lists = [
            "server list",
            "port list",
            "network list --internal",
            "router list",
            "security group list",
            "volume list",
            "keypair list",
            "server group list",
            "floating ip list --long",
        ];
        for (list, rows) in lists.iter().zip(client::ask("demo", &lists)) {
            let text = rows.to_string();
            assert!(!text.contains(self.cluster), "{list} still shows {text}");
        }
    }
}

/// A test that fails leaves nothing either.
impl Drop for Site {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let (settings, cluster) = (self.settings.clone(), self.cluster);
        // On a thread of its own, because this one belongs to a runtime that does nothing else any more.
        let cleared = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async { clear(&Cloud::openstack(&settings).unwrap(), cluster).await });
        });
        if cleared.join().is_err() {
            eprintln!("{cluster}: not everything of a test that failed could be removed");
        }
    }
}

/// Goes when it is no longer held.
pub struct Credential(String);

impl Drop for Credential {
    fn drop(&mut self) {
        client::attempt("demo", &[&format!("application credential delete {}", self.0)]);
    }
}

async fn clear(cloud: &Cloud, cluster: &str) {
    let ids: Vec<String> = cloud.instances(cluster).await.unwrap().into_iter().map(|i| i.id).collect();
    cloud.delete_all(&ids, &|_| {}).await.into_iter().for_each(|r| r.unwrap());
    cloud.sweep(cluster).await.unwrap();
    for group in cloud.security_groups(cluster).await.unwrap() {
        cloud.delete_security_group(&group.id).await.unwrap();
    }
    for network in cloud.networks(cluster).await.unwrap() {
        cloud.delete_network(&network.id).await.unwrap();
    }
    for volume in cloud.volumes(cluster).await.unwrap() {
        cloud.delete_volume(&volume.id).await.unwrap();
    }
}

/// What a command of the official client answers; nothing where it changes what is there.
pub fn openstack(arguments: &[&str]) -> serde_json::Value {
    openstack_as("demo", arguments)
}

pub fn openstack_as(cloud: &str, arguments: &[&str]) -> serde_json::Value {
    // Names may have spaces.
    let words: Vec<String> =
        arguments.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let command = words.join(" ");
    if ["delete", "set", "unset"].iter().any(|word| arguments.contains(word)) {
        client::tell(cloud, &[&command]);
        return serde_json::Value::Null;
    }
    client::ask(cloud, &[&command]).remove(0)
}
