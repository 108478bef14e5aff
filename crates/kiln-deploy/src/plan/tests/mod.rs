//! The planner, row by row: what was observed, what is to be done.

mod images;
mod network;
mod owners;
mod removal;
mod repair;
mod upgrade;
mod volumes;

use ipnet::Ipv4Net;
use kiln_cloud::{
    AddressRange, Flavor, Instance, InstanceStatus, Labels, Network, NetworkPart, Peers, Rule, SecurityGroup,
    Volume, VolumeStatus,
};
use kiln_site::{Purpose, volume_name};
use kiln_spec::{ImageUpdate, Node};
use kiln_wire::labels;

use super::network::{cluster_group, login_group, rules};
use super::*;
use crate::slurm_view::SlurmView;

const FILE: &str = r#"
[cluster]
name = "demo"
[cloud]
kind = "local"
[login.login]
nodes = "login-0"
[compute.standard]
nodes = "standard-[0-1]"
[compute.batch]
nodes = "batch-0"
image_update = "apply"
"#;

fn spec(file: &str) -> Spec {
    kiln_spec::parse(file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn built(id: &str) -> Targets {
    Targets::from([("default".to_string(), Some(id.to_string()))])
}

fn nothing() -> Observed {
    let flavor = Flavor {
        name: "medium".into(),
        cpus: 2,
        memory_mib: 4096,
        features: vec![],
        topology: None,
        gpus: None,
    };
    Observed { flavors: vec![flavor], ..Observed::default() }
}

/// The cluster as the file says, with every node on image `old`.
fn whole(spec: &Spec) -> Observed {
    let labels = |node: &Node<'_>| {
        let mut labels = Labels::from([
            (labels::NODE.to_string(), node.name.to_string()),
            (labels::GROUP.to_string(), group_label(node)),
        ]);
        if node.image_update == ImageUpdate::Slurm {
            labels.insert(labels::TARGET_IMAGE.into(), "old".into());
        }
        labels
    };
    let instance = |node: Node<'_>| Instance {
        id: format!("id-{}", node.name),
        name: node.name.to_string(),
        status: InstanceStatus::Active,
        image: Some("old".into()),
        flavor: node.flavor.to_string(),
        address: None,
        public_address: None,
        labels: marked(labels(&node)),
        volumes: Vec::new(),
        created: jiff::Timestamp::UNIX_EPOCH,
        built: None,
    };
    let volume = |purpose: Purpose| Volume {
        id: purpose.name().into(),
        name: volume_name(spec, purpose),
        size_gib: 10,
        labels: marked(Labels::new()),
        // Of the others nothing is made of it.
        attached_to: (purpose == Purpose::Backup).then(|| "id-control".to_string()).into_iter().collect(),
        status: VolumeStatus::Usable,
        served: None,
    };
    let network = Network {
        id: "n".into(),
        name: "demo".into(),
        cidr: "10.8.0.0/24".parse().unwrap(),
        labels: marked(Labels::new()),
        lacks: None,
        api_url: None,
        automatic: vec![],
    };
    let group = |name: String, login: bool| SecurityGroup {
        id: name.clone(),
        name,
        labels: marked(Labels::new()),
        rules: crate::apply::Made::default().rules(&rules(spec, login, Ref::Known(network.cidr))).unwrap(),
    };
    Observed {
        security_groups: vec![group(cluster_group(spec), false), group(login_group(spec), true)],
        networks: vec![network],
        volumes: Purpose::ALL.map(volume).to_vec(),
        instances: spec.nodes().map(instance).collect(),
        ..nothing()
    }
}

/// As the cluster that has made what is there.
fn plan(spec: &Spec, observed: &Observed, targets: &Targets) -> Result<Plan> {
    super::plan(spec, Some(ID), observed, targets, Removal::AfterJobs)
}

const ID: &str = "1a2b";

fn marked(labels: Labels) -> Labels {
    labels.into_iter().chain([(labels::ID.to_string(), ID.to_string())]).collect()
}

fn lines(plan: &Plan) -> Vec<String> {
    plan.actions.iter().map(ToString::to_string).collect()
}

#[test]
fn from_nothing_everything_is_created() {
    let spec = spec(FILE);
    let targets = Targets::from([("default".to_string(), None)]);
    let plan = plan(&spec, &nothing(), &targets).unwrap();
    insta::assert_snapshot!(plan);
    assert!(!plan.is_destructive());
    let stages: Vec<Stage> = plan.actions.iter().map(Action::stage).collect();
    assert!(stages.is_sorted(), "{stages:?}");
}

#[test]
fn what_is_there_needs_nothing() {
    let spec = spec(FILE);
    let plan = plan(&spec, &whole(&spec), &built("old")).unwrap();
    assert!(plan.is_empty(), "{plan}");
}

#[test]
fn an_unknown_flavor_and_a_missing_volume_are_errors() {
    let file = FILE.replace("nodes = \"batch-0\"", "nodes = \"batch-0\"\nflavor = \"huge\"");
    let error = plan(&spec(&file), &nothing(), &built("old")).unwrap_err();
    assert_eq!(error.to_string(), "the local cloud has no flavor huge; it has medium");

    let file = format!("{FILE}[compute.burst]\nnodes = \"burst-0\"\nelastic = {{ flavors = [\"vast\"] }}\n");
    let error = plan(&spec(&file), &nothing(), &built("old")).unwrap_err();
    assert_eq!(error.to_string(), "the local cloud has no flavor vast; it has medium");

    let file = format!("{FILE}[volumes]\nhome = {{ mode = \"attach\", name = \"homes\" }}\n");
    let error = plan(&spec(&file), &nothing(), &built("old")).unwrap_err();
    assert_eq!(error.to_string(), "volume homes should be attached but does not exist");
    assert!(error.hint().is_some());
}

#[test]
fn ten_thousand_nodes_are_one_line_per_group() {
    let spec = spec(&FILE.replace("standard-[0-1]", "standard-[0-9999]"));
    let plan = plan(&spec, &nothing(), &built("old")).unwrap();
    assert!(
        lines(&plan)
            .iter()
            .any(|l| l == "+ compute.standard: create standard-[0-9999] from old (10000 nodes)")
    );
}

#[test]
fn what_apply_cannot_change_is_told() {
    let before = spec(FILE);
    let after = spec(
        &FILE
            .replace("kind = \"local\"", "kind = \"local\"\nsubnet = \"10.9.0.0/24\"")
            .replace("nodes = \"login-0\"", "nodes = \"login-0\"\nflavor = \"large\""),
    );
    let mut observed = whole(&before);
    observed.flavors.push(Flavor {
        name: "large".into(),
        cpus: 4,
        memory_mib: 8192,
        features: vec![],
        topology: None,
        gpus: None,
    });
    for instance in &mut observed.instances {
        if instance.name.starts_with("standard") {
            instance.labels.insert(labels::TARGET_IMAGE.into(), "new".into());
        } else {
            instance.image = Some("new".into());
        }
    }
    let plan = plan(&after, &observed, &built("new")).unwrap();
    insta::assert_snapshot!(plan);
}

const OPENSTACK: &str = r#"
[cluster]
name = "demo"
[cloud]
kind = "openstack"
subnet = "10.8.0.0/24"
[image.default]
prebuilt = "debian"
[control]
flavor = "medium"
[compute.standard]
nodes = "standard-[0-1]"
flavor = "medium"
override.standard-1.address = "10.8.0.20"
"#;

fn creations(plan: &Plan) -> Vec<&NewNode> {
    let created = plan.actions.iter().filter_map(|action| match action {
        Action::CreateInstances { instances, .. } => Some(&instances.0),
        _ => None,
    });
    created.flatten().collect()
}

#[test]
fn what_an_earlier_stage_makes_is_referred_to() {
    let spec = spec(OPENSTACK);
    let plan = plan(&spec, &nothing(), &built("old")).unwrap();
    let [control, first, second] = creations(&plan)[..] else { panic!("{plan}") };
    assert_eq!(control.network, Ref::Made(Resource::Network("demo".into())));
    assert_eq!(control.security_groups, [Ref::Made(Resource::SecurityGroup("demo-cluster".into()))]);
    let volumes: Vec<_> = control.volumes.iter().map(|v| v.volume.clone()).collect();
    assert!(volumes.contains(&Ref::Made(Resource::Volume("demo-state".into()))), "{volumes:?}");
    assert_eq!(control.image_id, Ref::Known("old".into()));
    assert_eq!(control.share, None);
    assert_eq!(first.share, Some(Ref::Made(Resource::Instance("control".into()))));
    assert_eq!((first.address, second.address), (None, Some([10, 8, 0, 20].into())));
    assert_eq!(first.labels[labels::TARGET_IMAGE], Ref::Known("old".into()));
    let groups = plan.actions.iter().find_map(|action| match action {
        Action::CreateSecurityGroup { rules, .. } => Some(rules),
        _ => None,
    });
    let subnet = &groups.expect("a security group")[1].from;
    assert_eq!(*subnet, Ref::Made(Resource::Network("demo".into())));
}

#[test]
fn what_is_there_already_is_named_by_its_id() {
    let spec = spec(OPENSTACK);
    let mut observed = whole(&spec);
    observed.instances.truncate(1);
    observed.instances[0].address = Some([10, 8, 0, 9].into());
    let plan = plan(&spec, &observed, &built("old")).unwrap();
    let json = serde_json::to_value(plan.actions.last().unwrap()).unwrap();
    assert_eq!(json["nodes"], serde_json::json!(["standard-0", "standard-1"]));
    insta::assert_snapshot!(serde_json::to_string_pretty(&json["instances"][1]).unwrap());
}
