//! kilnd on Oracle Cloud, which signs as an instance: what is in its store is what a launch is known by.

use kiln_cloud::oci::fake::{Fake, Fault};
use kiln_cloud::{Cloud, Labels, NewInstance, NewNetwork};
use kiln_fleet::hooks;
use kiln_fleet::store::RequestState;
use kiln_wire::labels;

use crate::lab::{Lab, until};

const LAUNCH: &str = "POST /20160918/instances";
const FLAVOR: &str = "VM.Standard.E5.Flex.1.8";

/// A control node with rights, and an elastic node that is off and asked for.
async fn region() -> (Fake, Lab) {
    let fake = Fake::start().await.unwrap();
    let cloud: Cloud = fake.cloud().unwrap();
    let own = Labels::from([(labels::CLUSTER.to_string(), "c".to_string())]);
    let cidr = "10.31.0.0/24".parse().ok();
    let network = NewNetwork { name: "c".into(), cidr, labels: own.clone(), automatic: vec![] };
    let network = cloud.create_network(network).await.unwrap().id;
    let image = cloud.find_image("image-a").await.unwrap().id;
    cloud.rights("c", true).await.unwrap();
    let mut labels = own;
    labels.insert(labels::ROLE.into(), "control".into());
    labels.insert(labels::NODE.into(), "control".into());
    let control = NewInstance {
        name: "control".into(),
        image: image.clone(),
        flavor: FLAVOR.into(),
        zone: None,
        network: network.clone(),
        address: None,
        public: false,
        security_groups: vec![],
        user_data: "u".into(),
        ssh_key: "k".into(),
        labels,
        volumes: vec![],
        disk_gib: None,
        request: None,
    };
    cloud.create(vec![control]).await.remove(0).unwrap();

    let lab = Lab::new();
    let access = serde_json::to_string(&fake.access().unwrap()).unwrap();
    let text = format!(
        r#"{{"cluster":"c","cloud":{access},
        "nodes":{{"e-0":{{"group":"e","image":"{image}","user_data":"u","ssh_key":"k"}}}},
        "surroundings":{{"network":"{network}","security_groups":[],"volumes":[]}},
        "elastic":{{"e":{{"places":[{{"flavor":"{FLAVOR}"}}]}}}}}}"#
    );
    std::fs::write(lab.path("fleet.json"), text).unwrap();
    lab.slurm.node("e-0", "ALLOCATED+CLOUD+POWERING_UP", "None");
    lab.call(|paths| hooks::resume(paths, "e-0", None));
    (fake, lab)
}

/// Tokens of the launches of a node that were carried out, or known as an earlier one.
fn tokens(fake: &Fake, node: &str) -> Vec<String> {
    let launches = fake.exchanges().into_iter().filter(|one| one.name() == "POST instances");
    let of_node = launches.filter(|one| one.request.as_ref().is_some_and(|body| body["displayName"] == node));
    of_node.filter_map(|one| one.retry_token).collect()
}

/// The launch is carried out, nobody hears of it, no listing has it, and kilnd is restarted before it can ask again.
#[tokio::test]
async fn a_lost_answer_makes_no_twin_over_a_restart() {
    let (fake, mut lab) = region().await;
    fake.lag(true);
    fake.order(Fault::lose_answer(LAUNCH));
    (0..1000).for_each(|_| fake.order(Fault::cut(LAUNCH)));
    lab.start();
    until("the cloud has launched it", || fake.count("e-0") == 1).await;
    lab.kill().await;
    fake.forget_faults();
    lab.start();
    until("kilnd has asked again", || tokens(&fake, "e-0").len() > 1).await;
    fake.lag(false);
    let settled = lab.settled("e-0").await;
    assert_eq!(settled.state, RequestState::Done, "{settled:?}");
    lab.stop().await;
    let mut tokens = tokens(&fake, "e-0");
    tokens.dedup();
    assert_eq!((fake.count("e-0"), tokens.len()), (1, 1), "{tokens:?}");
}
