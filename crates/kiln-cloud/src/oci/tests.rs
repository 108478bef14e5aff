//! The driver against the fake.

use std::slice::from_ref;
use std::time::Duration;

use kiln_wire::{Attachment, labels};

use super::Settings;
use super::client::Call;
use super::fake::{Fake, Fault};
use super::region::Service::{Core, Objects};
use crate::{
    Class, Cloud, Error, InstanceStatus, Kind, Labels, Limit, Network, NewImage, NewInstance, NewNetwork,
    NewSecurityGroup, NewVolume, Peers, Rebuild, RightState, Rule,
};

mod compute_clusters;
mod file_storage;
mod images;
mod reports;

const SHAPE: &str = "VM.Standard.E5.Flex.2.24";
const LAUNCH: &str = "POST /20160918/instances";

struct Site {
    fake: Fake,
    cloud: Cloud,
    network: Network,
    group: String,
    images: [String; 2],
}

fn of_cluster() -> Labels {
    Labels::from([(labels::CLUSTER.to_string(), "demo".to_string())])
}

fn deadline() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(300)
}

impl Site {
    async fn new() -> Site {
        let fake = Fake::start().await.unwrap();
        let cloud = fake.cloud().unwrap();
        let network = NewNetwork {
            name: "demo".into(),
            cidr: Some("10.31.0.0/24".parse().unwrap()),
            labels: of_cluster(),
            automatic: vec![],
        };
        let network = cloud.create_network(network).await.unwrap();
        let rules = vec![Rule { from: Peers::Members, tcp_port: None }];
        let group =
            NewSecurityGroup { name: "demo-nodes".into(), labels: of_cluster(), rules, without: vec![] };
        let group = cloud.create_security_group(group).await.unwrap().id;
        let [a, b] = ["image-a", "image-b"];
        let images = [cloud.find_image(a).await.unwrap().id, cloud.find_image(b).await.unwrap().id];
        Site { fake, cloud, network, group, images }
    }

    fn wanted(&self, name: &str) -> NewInstance {
        let mut labels = of_cluster();
        labels.insert(labels::NODE.into(), name.into());
        NewInstance {
            name: name.into(),
            image: self.images[0].clone(),
            flavor: SHAPE.into(),
            zone: None,
            network: self.network.id.clone(),
            address: None,
            public: false,
            security_groups: vec![self.group.clone()],
            user_data: "first".into(),
            ssh_key: "ssh-ed25519 AAAA kiln".into(),
            labels,
            volumes: vec![],
            disk_gib: None,
            request: None,
        }
    }

    async fn create(&self, new: NewInstance) -> Result<crate::Instance, Error> {
        self.cloud.create(vec![new]).await.pop().unwrap()
    }

    /// One that runs.
    async fn running(&self, name: &str) -> crate::Instance {
        let made = self.create(self.wanted(name)).await.unwrap();
        assert!(made.address.is_some(), "others need it at once");
        self.cloud.wait_active(&[made.id], deadline(), |_| {}).await.unwrap().remove(0)
    }

    /// Everything that a cluster has goes, and nothing is left.
    async fn clear(self) {
        let ids: Vec<String> =
            self.cloud.instances("demo").await.unwrap().into_iter().map(|i| i.id).collect();
        for result in self.cloud.delete_all(&ids, &|_| {}).await {
            result.unwrap();
        }
        for volume in self.cloud.volumes("demo").await.unwrap() {
            self.cloud.delete_volume(&volume.id).await.unwrap();
        }
        for group in self.cloud.security_groups("demo").await.unwrap() {
            self.cloud.delete_security_group(&group.id).await.unwrap();
        }
        for network in self.cloud.networks("demo").await.unwrap() {
            self.cloud.delete_network(&network.id).await.unwrap();
        }
        self.cloud.revoke("demo").await.unwrap();
        assert_eq!(self.fake.left(), [""; 0]);
    }
}

#[tokio::test]
async fn an_instance_lives_and_goes() {
    let site = Site::new().await;
    let state = NewVolume { name: "demo-state".into(), size_gib: 20, labels: of_cluster() };
    let state = site.cloud.create_volume(state).await.unwrap();
    assert_eq!(state.size_gib, 50, "Oracle makes none smaller");
    let wanted = NewInstance {
        address: Some("10.31.0.9".parse().unwrap()),
        volumes: vec![Attachment { volume: state.id.clone(), read_only: false }],
        ..site.wanted("control")
    };
    let made = site.create(wanted.clone()).await.unwrap();
    assert_eq!(made.status, InstanceStatus::Building);
    let up = site.cloud.wait_active(from_ref(&made.id), deadline(), |_| {}).await.unwrap().remove(0);
    assert_eq!(up.address, wanted.address);
    assert_eq!((up.flavor.as_str(), up.image.as_deref()), (SHAPE, Some(site.images[0].as_str())));
    assert_eq!((up.volumes.as_slice(), up.labels == wanted.labels), ([state.id.clone()].as_slice(), true));
    assert!(up.built.is_some());
    let twin = site.create(wanted).await.unwrap_err();
    assert_eq!(twin.to_string(), "the cluster has an instance control already");
    let off = site.cloud.stop(&up.id, false).await.unwrap();
    assert_eq!(off.status, InstanceStatus::Stopped);
    assert_eq!(site.cloud.start(&up.id).await.unwrap().status, InstanceStatus::Active);
    let log = site.cloud.console_log(&up.id, 1).await.unwrap();
    assert_eq!(log, "control login:");
    let held = site.cloud.volumes("demo").await.unwrap();
    assert_eq!(held[0].attached_to, from_ref(&up.id));
    site.cloud.delete(&up.id).await.unwrap();
    site.cloud.delete(&up.id).await.unwrap();
    assert!(site.cloud.instance(&up.id).await.unwrap_err().is_not_found());
    site.clear().await;
}

#[tokio::test]
async fn a_rebuild_replaces_the_boot_volume() {
    let site = Site::new().await;
    let before = site.running("n-0").await;
    let rebuild = |image: &str, key: &str| Rebuild {
        image: image.into(),
        user_data: "second".into(),
        ssh_key: key.into(),
        labels: before.labels.clone(),
    };
    let key = "ssh-ed25519 AAAA kiln";
    let other = site.cloud.rebuild(&before.id, rebuild(&site.images[1], "another")).await.unwrap_err();
    assert!(other.to_string().contains("another SSH key"), "{other}");
    let during = site.cloud.rebuild(&before.id, rebuild(&site.images[1], key)).await.unwrap();
    assert_eq!(during.status, InstanceStatus::Rebuilding);
    let mut seen = Vec::new();
    let ids = [before.id.clone()];
    let look = |all: &[crate::Instance]| seen.extend(all.iter().map(|i| i.status.clone()));
    let after = site.cloud.wait_active(&ids, deadline(), look).await.unwrap().remove(0);
    assert!(!seen.contains(&InstanceStatus::Stopped), "{seen:?}");
    assert_eq!((after.image.as_ref(), after.address), (Some(&site.images[1]), before.address));
    assert!(after.built > before.built);
    assert_eq!(after.labels, before.labels);
    site.clear().await;
}

#[tokio::test]
async fn a_rebuild_that_fails_is_told_from_its_work_request() {
    let site = Site::new().await;
    let before = site.running("n-0").await;
    site.fake.break_launches(Some(("InternalError", "the image cannot be read")));
    let rebuild = Rebuild {
        image: site.images[1].clone(),
        user_data: "second".into(),
        ssh_key: "ssh-ed25519 AAAA kiln".into(),
        labels: before.labels.clone(),
    };
    site.cloud.rebuild(&before.id, rebuild).await.unwrap();
    let told = site.cloud.wait_active(&[before.id], deadline(), |_| {}).await.unwrap_err();
    assert_eq!(told.to_string(), "n-0: InternalError: the image cannot be read");
    site.fake.break_launches(None);
    site.clear().await;
}

#[tokio::test]
async fn a_lost_answer_makes_no_twin() {
    let site = Site::new().await;
    for fault in [Fault::lose_answer(LAUNCH), Fault::cut(LAUNCH), Fault::throttle(LAUNCH)] {
        site.fake.order(fault);
    }
    site.fake.order(Fault::refuse(LAUNCH, 500, "InternalError", "Internal error"));
    site.running("n-0").await;
    assert_eq!(site.fake.count("n-0"), 1);
    assert_eq!(site.fake.faults_left(), [""; 0]);
    site.clear().await;
}

/// Oracle throttles, breaks inside, breaks off, and does what it was asked without saying so.
#[tokio::test]
async fn power_gets_through_faults_of_every_kind() {
    let site = Site::new().await;
    let up = site.running("n-0").await;
    let order = |faults: [Fault; 3]| faults.into_iter().for_each(|fault| site.fake.order(fault));
    let broken = |what: &str| Fault::refuse(what, 500, "InternalServerError", "Internal error");
    let power = format!("POST /20160918/instances/{}?action=", up.id);
    let power = power.as_str();
    order([Fault::throttle(power), broken(power), Fault::lose_answer(power)]);
    assert_eq!(site.cloud.stop(&up.id, true).await.unwrap().status, InstanceStatus::Stopped);
    assert_eq!(site.fake.faults_left(), [""; 0]);
    order([Fault::throttle(power), Fault::cut(power), Fault::lose_answer(power)]);
    assert_eq!(site.cloud.start(&up.id).await.unwrap().status, InstanceStatus::Active);
    assert_eq!(site.fake.faults_left(), [""; 0]);
    let terminate = "DELETE /20160918/instances/";
    order([Fault::throttle(terminate), broken(terminate), Fault::lose_answer(terminate)]);
    site.cloud.delete(&up.id).await.unwrap();
    assert_eq!((site.fake.count("n-0"), site.fake.faults_left()), (0, vec![]));
    site.clear().await;
}

/// Whoever asks again after a restart has nothing but the name of the launch; the instance is in no listing yet.
#[tokio::test]
async fn a_launch_that_is_asked_for_again_after_a_restart_makes_no_twin() {
    let site = Site::new().await;
    let wanted = NewInstance { request: Some("3f1c-0".into()), ..site.wanted("n-0") };
    site.fake.lag(true);
    site.fake.order(Fault::lose_answer(LAUNCH));
    let lost = crate::retry::once(site.create(wanted.clone())).await.unwrap_err();
    assert!(lost.is_temporary(), "{lost}");
    assert_eq!(site.fake.count("n-0"), 1);
    let restarted = site.fake.cloud().unwrap();
    let found = restarted.create(vec![wanted.clone()]).await.pop().unwrap().unwrap();
    assert_eq!(site.fake.count("n-0"), 1);
    site.fake.lag(false);
    // What came of it is gone, and with it the token that made it.
    restarted.delete(&found.id).await.unwrap();
    let again = restarted.create(vec![wanted]).await.pop().unwrap().unwrap();
    assert_ne!(again.id, found.id);
    assert_eq!(site.fake.count("n-0"), 1);
    site.clear().await;
}

const DOMAINS: [&str; 3] = ["Fake:PHX-AD-1", "Fake:PHX-AD-2", "Fake:PHX-AD-3"];

#[tokio::test]
async fn other_domains_are_tried_in_order() {
    let site = Site::new().await;
    site.fake.fill(DOMAINS[0], "VM.Standard.E5.Flex");
    site.fake.fill_quietly(DOMAINS[1], "VM.Standard.E5.Flex");
    let new = (0..3).map(|n| site.wanted(&format!("n-{n}"))).collect();
    for made in site.cloud.create(new).await {
        let made = made.unwrap();
        assert!(made.address.is_some(), "{made:?}");
        assert_eq!(site.fake.domains_of(&made.name), [DOMAINS[2]]);
    }
    site.fake.take_calls();
    site.running("n-3").await;
    let calls = site.fake.take_calls();
    assert_eq!(
        calls.iter().filter(|call| *call == "POST instances").count(),
        1,
        "known to be full: {calls:?}"
    );
    // Who says where, is not taken elsewhere.
    for zone in ["AD-1", "AD-2"] {
        let there = NewInstance { zone: Some(zone.into()), ..site.wanted("n-4") };
        let full = site.create(there).await.unwrap_err();
        assert_eq!(full.class, Class::NoRoom, "{zone}: {full}");
    }
    let there = Settings { availability_domain: Some("1".into()), ..Fake::settings() };
    let there = site.fake.cloud_with(there).unwrap();
    let full = there.create(vec![site.wanted("n-4")]).await.pop().unwrap().unwrap_err();
    assert_eq!(full.class, Class::NoRoom, "{full}");
    assert_eq!(site.fake.count("n-4"), 0);
    site.clear().await;
}

#[tokio::test]
async fn no_room_is_told_in_all_its_shapes() {
    let site = Site::new().await;
    for domain in DOMAINS {
        site.fake.fill(domain, "VM.Standard.E5.Flex");
        site.fake.fill_quietly(domain, "VM.Standard2.1");
    }
    let full = site.create(site.wanted("n-0")).await.unwrap_err();
    assert_eq!(full.class, Class::NoRoom, "{full}");
    let quietly = NewInstance { flavor: "VM.Standard2.1".into(), ..site.wanted("n-0") };
    let quietly = site.create(quietly).await.unwrap_err();
    assert_eq!(quietly.class, Class::NoRoom);
    assert_eq!(quietly.to_string(), "the cloud has no room: OutOfHostCapacity: Out of host capacity.");
    assert_eq!(site.cloud.instances("demo").await.unwrap(), []);
    site.fake.limit("hpc2-36-count", 0);
    let limited = NewInstance { flavor: "BM.HPC2.36".into(), ..site.wanted("n-1") };
    let limited = site.create(limited).await.unwrap_err();
    assert_eq!(limited.class, Class::NoRoom, "{limited}");
    assert!(limited.message.contains("hpc2-36-count"), "{limited}");
    site.clear().await;
}

/// Oracle gives up after the instance has got its address.
#[tokio::test]
async fn a_launch_that_fails_later_says_why() {
    let site = Site::new().await;
    for (code, message, told) in [
        ("InternalError", "the image cannot be read", "n-0: InternalError: the image cannot be read"),
        (
            "OutOfHostCapacity",
            "Out of host capacity.",
            "n-0: the cloud has no room: OutOfHostCapacity: Out of host capacity.",
        ),
    ] {
        site.fake.break_launches(Some((code, message)));
        let wanted = NewInstance { address: Some("10.31.0.9".parse().unwrap()), ..site.wanted("n-0") };
        let made = site.create(wanted).await.unwrap();
        let error = site.cloud.wait_active(from_ref(&made.id), deadline(), |_| {}).await.unwrap_err();
        assert_eq!(error.to_string(), told);
        site.cloud.delete(&made.id).await.unwrap();
        assert_eq!(site.cloud.instances("demo").await.unwrap(), []);
    }
    // The name is free again; the domain that had no room comes last.
    site.fake.break_launches(None);
    site.running("n-0").await;
    assert_eq!(site.fake.domains_of("n-0"), [DOMAINS[1]]);
    site.clear().await;
}

#[tokio::test]
async fn a_node_that_is_reached_from_outside_has_its_own_way_out() {
    let site = Site::new().await;
    let mut wanted = NewInstance { public: true, ..site.wanted("login") };
    wanted.labels.insert(labels::ROLE.into(), "login".into());
    let made = site.create(wanted).await.unwrap();
    let up = site.cloud.wait_active(&[made.id], deadline(), |_| {}).await.unwrap().remove(0);
    assert!(up.public_address.is_some());
    let calls = site.fake.take_calls();
    assert_eq!(calls.iter().filter(|call| *call == "PUT vnics/*").count(), 1, "{calls:?}");
    site.clear().await;
}

#[tokio::test]
async fn a_quiet_cluster_costs_two_calls_a_listing() {
    let site = Site::new().await;
    site.fake.page(1000);
    let new = (0..5).map(|n| site.wanted(&format!("n-{n}"))).collect();
    let ids: Vec<String> = site.cloud.create(new).await.into_iter().map(|made| made.unwrap().id).collect();
    site.cloud.wait_active(&ids, deadline(), |_| {}).await.unwrap();
    site.fake.take_calls();
    assert_eq!(site.cloud.instances("demo").await.unwrap().len(), 5);
    assert_eq!(site.fake.take_calls(), ["GET instances", "GET volumeAttachments"]);
    site.clear().await;
}

#[tokio::test]
async fn labels_are_merged_with_those_of_others() {
    let site = Site::new().await;
    let up = site.running("n-0").await;
    let one = |key: &str| Labels::from([(key.to_string(), "x".to_string())]);
    let (a, b) = tokio::join!(
        site.cloud.label(Kind::Instance, &up.id, one("a")),
        site.cloud.label(Kind::Instance, &up.id, one("b"))
    );
    a.unwrap();
    b.unwrap();
    let all = site.cloud.instance(&up.id).await.unwrap().labels;
    assert!(all.contains_key("a") && all.contains_key("b") && all.contains_key(labels::NODE), "{all:?}");
    site.cloud.label(Kind::Network, &site.network.id, one("c")).await.unwrap();
    assert!(site.cloud.networks("demo").await.unwrap()[0].labels.contains_key("c"));
    site.clear().await;
}

#[tokio::test]
async fn rules_are_added_once_and_removed() {
    let site = Site::new().await;
    let ssh = |net: &str| Rule { from: Peers::Net(net.parse().unwrap()), tcp_port: Some(22) };
    let new = |rules: Vec<Rule>, without: Vec<Rule>| NewSecurityGroup {
        name: "demo-login".into(),
        labels: of_cluster(),
        rules,
        without,
    };
    let add = "POST /20160918/networkSecurityGroups/";
    site.fake.order(Fault::lose_answer(add));
    site.cloud.create_security_group(new(vec![ssh("192.0.2.0/24")], vec![])).await.unwrap();
    site.cloud.create_security_group(new(vec![ssh("192.0.2.0/24")], vec![])).await.unwrap();
    let rules = |groups: Vec<crate::SecurityGroup>| {
        groups.into_iter().find(|group| group.name == "demo-login").unwrap().rules
    };
    assert_eq!(rules(site.cloud.security_groups("demo").await.unwrap()), [ssh("192.0.2.0/24")]);
    let (old, wanted) = (ssh("192.0.2.0/24"), ssh("198.51.100.0/24"));
    site.cloud.create_security_group(new(vec![wanted.clone()], vec![old])).await.unwrap();
    assert_eq!(rules(site.cloud.security_groups("demo").await.unwrap()), [wanted]);
    site.clear().await;
}

#[tokio::test]
async fn what_is_wrong_is_told_before_anything_is_made() {
    let site = Site::new().await;
    let told = |error: Error| {
        let text = error.to_string();
        text.split(" (opc-request-id").next().unwrap().to_string()
    };
    site.cloud.check().await.unwrap();
    let stranger = site.fake.cloud_as("ocid1.user.oc1..stranger").unwrap();
    let error = stranger.check().await.unwrap_err();
    assert_eq!(error.class, Class::NoRights);
    assert!(error.message.contains("opc-request-id"), "{error}");
    let elsewhere = Settings { compartment: "ocid1.compartment.oc1..other".into(), ..Fake::settings() };
    let elsewhere = site.fake.cloud_with(elsewhere).unwrap();
    let error = elsewhere.instances("demo").await.unwrap_err();
    assert!(error.message.contains("does not exist, or these credentials may not"), "{error}");
    let domain = Settings { availability_domain: Some("AD-9".into()), ..Fake::settings() };
    let error = site.fake.cloud_with(domain).unwrap().check().await.unwrap_err();
    assert_eq!(told(error.clone()), "the cloud has no availability domain AD-9");
    assert!(error.hint().unwrap().contains("Fake:PHX-AD-1, Fake:PHX-AD-2"), "{error:?}");
    let shape = NewInstance { flavor: "VM.Nothing".into(), ..site.wanted("n-0") };
    assert_eq!(told(site.create(shape).await.unwrap_err()), "the cloud has no shape VM.Nothing");
    let size = NewInstance { flavor: "VM.Standard.E5.Flex.200.1".into(), ..site.wanted("n-0") };
    assert!(told(site.create(size).await.unwrap_err()).contains("does not come in the size"));
    site.clear().await;
}

#[tokio::test]
async fn flavors_of_flexible_shapes_have_any_size() {
    let fake = Fake::start().await.unwrap();
    let cloud = fake.cloud().unwrap();
    let names = ["VM.Standard.E5.Flex.3.17".to_string(), "VM.Standard.E5.Flex.95.17".to_string()];
    let all = cloud.flavors_named(&names).await.unwrap();
    let odd = all.iter().find(|flavor| flavor.name == names[0]).unwrap();
    assert_eq!((odd.cpus, odd.memory_mib), (6, 17 * 1024));
    assert!(!all.iter().any(|flavor| flavor.name == names[1]));
    assert!(all.iter().any(|flavor| flavor.name == "VM.Standard2.1"));
}

/// A second run finds what the first one has left, at whatever step it was cut off.
#[tokio::test]
async fn a_network_whose_making_was_cut_off_is_completed() {
    let steps = ["internetGateways", "natGateways", "routeTables", "securityLists", "subnets"];
    for step in steps {
        let fake = Fake::start().await.unwrap();
        let cloud = fake.cloud().unwrap();
        let new = || NewNetwork {
            name: "demo".into(),
            cidr: Some("10.31.0.0/24".parse().unwrap()),
            labels: of_cluster(),
            automatic: vec![],
        };
        fake.order(Fault::refuse(&format!("POST /20160918/{step}"), 400, "InvalidParameter", "no"));
        cloud.create_network(new()).await.unwrap_err();
        let half = cloud.networks("demo").await.unwrap();
        assert!(half.len() == 1 && half[0].lacks.is_some(), "{step}: {half:?}");
        let whole = cloud.create_network(new()).await.unwrap();
        assert_eq!(cloud.networks("demo").await.unwrap(), from_ref(&whole), "{step}");
        cloud.delete_network(&whole.id).await.unwrap();
        assert_eq!(fake.left(), [""; 0], "{step}");
    }
}

/// The control node has no credentials but its own certificate.
#[tokio::test]
async fn an_instance_may_do_what_its_policy_says() {
    let site = Site::new().await;
    let control = site.fake.cloud_of_instance().unwrap();
    let refused = control.instances("demo").await.unwrap_err();
    assert_eq!(refused.class, Class::NoRights, "without a policy: {refused}");
    let made = site.cloud.rights("demo", true).await.unwrap();
    assert!(made.iter().all(|right| right.state == RightState::Made), "{made:?}");
    let mut node = site.wanted("control");
    node.labels.insert(labels::ROLE.into(), "control".into());
    site.create(node).await.unwrap();
    let made = control.create(vec![site.wanted("n-0")]).await.pop().unwrap().unwrap();
    control.wait_active(from_ref(&made.id), deadline(), |_| {}).await.unwrap();
    let volume = NewVolume { name: "demo-x".into(), size_gib: 50, labels: of_cluster() };
    let refused = control.create_volume(volume).await.unwrap_err();
    assert_eq!(refused.class, Class::NoRights, "{refused}");
    // A token that was revoked is replaced once.
    site.fake.forget_tokens();
    control.delete(&made.id).await.unwrap();
    site.clear().await;
}

/// The fake refuses an instance what no statement gives it, so whatever is missing from the policy shows here.
#[tokio::test]
async fn the_policy_is_enough_for_all_that_a_control_node_does() {
    let site = Site::new().await;
    site.cloud.rights("demo", true).await.unwrap();
    for (name, role) in [("control", "control"), ("login", "login")] {
        let mut node = NewInstance { public: role == "login", ..site.wanted(name) };
        node.labels.insert(labels::ROLE.into(), role.into());
        site.create(node).await.unwrap();
    }
    let control = site.fake.cloud_of_instance().unwrap();
    let login = |all: Vec<crate::Instance>| all.into_iter().find(|i| i.name == "login").unwrap();
    // Not asked by anybody else before.
    let up = login(control.instances("demo").await.unwrap());
    control.wait_active(&[up.id], deadline(), |_| {}).await.unwrap();
    let made = control.create(vec![site.wanted("n-0")]).await.pop().unwrap().unwrap();
    control.wait_active(from_ref(&made.id), deadline(), |_| {}).await.unwrap();
    assert!(control.console_log(&made.id, 1).await.unwrap().contains("n-0"));
    let rebuild = Rebuild {
        image: site.images[1].clone(),
        user_data: "second".into(),
        ssh_key: "ssh-ed25519 AAAA kiln".into(),
        labels: made.labels.clone(),
    };
    control.rebuild(&made.id, rebuild).await.unwrap();
    control.wait_active(from_ref(&made.id), deadline(), |_| {}).await.unwrap();
    control.image(&site.images[1]).await.unwrap();
    control.reboot(&made.id, true).await.unwrap();
    control.stop(&made.id, true).await.unwrap();
    control.start(&made.id).await.unwrap();
    site.fake.break_launches(Some(("InternalError", "the image cannot be read")));
    let wanted = NewInstance { address: Some("10.31.0.9".parse().unwrap()), ..site.wanted("n-1") };
    let broken = control.create(vec![wanted]).await.pop().unwrap().unwrap();
    let told = control.wait_active(from_ref(&broken.id), deadline(), |_| {}).await.unwrap_err();
    assert_eq!(told.to_string(), "n-1: InternalError: the image cannot be read");
    site.fake.break_launches(None);
    control.delete(&made.id).await.unwrap();

    // Somebody takes statements away, the last first.
    site.fake.shorten_policies();
    site.fake.shorten_policies();
    let node = control.create(vec![site.wanted("n-2")]).await.pop().unwrap();
    assert!(node.is_ok(), "neither objects nor buckets are needed for it: {node:?}");
    site.fake.shorten_policies();
    site.fake.break_launches(Some(("InternalError", "the image cannot be read")));
    let wanted = NewInstance { address: Some("10.31.0.9".parse().unwrap()), ..site.wanted("n-3") };
    let broken = control.create(vec![wanted]).await.pop().unwrap().unwrap();
    let told = control.wait_active(from_ref(&broken.id), deadline(), |_| {}).await.unwrap_err();
    assert_eq!(
        told.to_string(),
        "n-3: the launch failed",
        "who may not read work requests does not learn why"
    );
    site.fake.break_launches(None);
    site.clear().await;
}

/// What is there is left alone, what says something else is corrected, and what may not be made is told.
#[tokio::test]
async fn rights_of_the_control_node() {
    let fake = Fake::start().await.unwrap();
    let cloud = fake.cloud().unwrap();
    let states = async |make: bool| -> Vec<RightState> {
        cloud.rights("demo", make).await.unwrap().into_iter().map(|right| right.state).collect()
    };
    assert_eq!(states(false).await, vec![RightState::Missing; 4]);
    fake.close_identity();
    for right in cloud.rights("demo", true).await.unwrap() {
        assert!(matches!(right.state, RightState::NotMade { .. }), "{right:?}");
        assert!(right.why().unwrap().contains("opc-request-id"), "{right:?}");
    }
    let fake = Fake::start().await.unwrap();
    let cloud = fake.cloud().unwrap();
    fake.order(Fault::lose_answer("POST /20160918/policies"));
    let made = cloud.rights("demo", true).await.unwrap();
    assert!(made.iter().all(crate::Right::is_there), "{made:?}");
    let again = cloud.rights("demo", true).await.unwrap();
    assert!(again.iter().all(|right| right.state == RightState::There), "{again:?}");
    fake.shorten_policies();
    let told = cloud.rights("demo", false).await.unwrap();
    assert_eq!(told[3].why(), Some("it says something else"));
    assert_eq!(cloud.rights("demo", true).await.unwrap()[3].state, RightState::Made);
    assert_eq!(cloud.rights("demo", false).await.unwrap()[3].state, RightState::There);
    assert_eq!(fake.left().len(), 2);
    cloud.revoke("other").await.unwrap();
    assert_eq!(fake.left().len(), 2, "another cluster's");
    cloud.revoke("demo").await.unwrap();
    assert_eq!(fake.left(), [""; 0]);
}

#[tokio::test]
async fn limits_say_how_many_fit() {
    let site = Site::new().await;
    site.fake.limit("standard-e5-core-count", 9);
    site.fake.limit("standard-e5-memory-count", 1000);
    site.running("n-0").await;
    let flavors = [SHAPE.to_string(), "BM.HPC2.36".to_string()];
    let told = site.cloud.limits(&flavors).await.unwrap();
    let shown = |limit: &Limit| {
        let zone = limit.zone.as_deref().unwrap_or("-");
        format!("{zone} {} {:?} {} {}", limit.name, limit.used.unwrap(), limit.free, limit.room())
    };
    let shown: Vec<String> = told.iter().map(shown).collect();
    assert_eq!(shown.len(), 9, "{shown:?}");
    assert_eq!(shown[..2], ["ad1 standard-e5-core-count 2 7 3", "ad2 standard-e5-core-count 0 9 4"]);
    assert_eq!(shown[3], "ad1 standard-e5-memory-count 24 976 40");
    assert_eq!(shown[8], "ad3 hpc2-36-count 0 10 10");
    let unknown = site.cloud.limits(&["VM.Nothing".to_string()]).await.unwrap_err();
    assert_eq!(unknown.to_string(), "the cloud has no shape VM.Nothing");
    // The zones are as a launch takes them.
    let there = NewInstance { zone: Some("ad2".into()), ..site.wanted("n-1") };
    site.create(there).await.unwrap();
    assert_eq!(site.fake.domains_of("n-1"), [DOMAINS[1]]);
    site.clear().await;
}
