//! A cluster's place in the project, and the official client beside it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use kiln_cloud::openstack::Settings;
use kiln_cloud::{Cloud, Labels, Network, NewInstance, NewNetwork, NewSecurityGroup, Peers, Rule, label};

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
    tokio::time::Instant::now() + Duration::from_secs(120)
}

impl Site {
    pub async fn new(cluster: &'static str, settings: Settings) -> Site {
        let settings =
            Settings { cloud: Some("demo".into()), external_network: Some("public".into()), ..settings };
        let cloud = Cloud::openstack(settings.clone()).unwrap();
        // What a run that was cut off has left.
        clear(&cloud, cluster).await;
        let labels = Labels::from([(label::CLUSTER.to_string(), cluster.to_string())]);
        let cidr = Some("10.31.0.0/24".parse().unwrap());
        let network = NewNetwork { name: cluster.into(), cidr, labels: labels.clone(), automatic: None };
        let network = cloud.create_network(network).await.unwrap();
        let rules = vec![Rule { from: Peers::Members, tcp_port: None }];
        let group = NewSecurityGroup { name: format!("{cluster}-nodes"), labels, rules };
        let group = cloud.create_security_group(group).await.unwrap().id;
        let [image_a, image_b] = ["image-a", "image-b"].map(|name| cloud.find_image(name));
        let (image_a, image_b) = (image_a.await.unwrap().id, image_b.await.unwrap().id);
        Site { cloud, network, image_a, image_b, cluster, group, settings }
    }

    pub fn labels(&self) -> Labels {
        Labels::from([(label::CLUSTER.to_string(), self.cluster.to_string())])
    }

    pub fn wanted(&self, name: &str) -> NewInstance {
        let mut labels = self.labels();
        labels.insert(label::NODE.into(), name.into());
        labels.insert(label::GROUP.into(), "compute.standard".into());
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
        for (list, text) in lists.iter().zip(openstack_all(&lists)) {
            assert!(!text.contains(self.cluster), "{list} still shows {text}");
        }
    }
}

/// Goes when it is no longer held.
pub struct Credential(String);

impl Drop for Credential {
    fn drop(&mut self) {
        let _ = client("demo").args(["application", "credential", "delete", &self.0]).output();
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

/// The services' own client, which nobody here wrote.
pub fn openstack(arguments: &[&str]) -> serde_json::Value {
    openstack_as("demo", arguments)
}

pub fn openstack_as(cloud: &str, arguments: &[&str]) -> serde_json::Value {
    let quiet = ["delete", "set", "unset"].iter().any(|word| arguments.contains(word));
    let format: &[&str] = if quiet { &[] } else { &["-f", "json"] };
    let output = client(cloud).args(arguments).args(format).output().expect("the openstack client runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "openstack {arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(&text).unwrap_or_default()
}

/// Several commands in one run of the client: starting it takes longer than most of what it does.
pub fn openstack_all(commands: &[&str]) -> Vec<String> {
    let script = commands.join(" -f json\n") + " -f json\n";
    let mut child = client("demo")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the openstack client runs");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answers: Vec<String> = serde_json::Deserializer::from_str(&text)
        .into_iter::<serde_json::Value>()
        .map(|value| value.unwrap().to_string())
        .collect();
    assert_eq!(answers.len(), commands.len(), "{text}");
    answers
}

fn client(cloud: &str) -> Command {
    let clouds =
        PathBuf::from(std::env::var_os("OS_CLIENT_CONFIG_FILE").expect("OS_CLIENT_CONFIG_FILE is set"));
    let mut command = Command::new(clouds.with_file_name("venv").join("bin/openstack"));
    command.env("OS_CLOUD", cloud);
    command
}
