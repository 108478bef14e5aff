//! The planner, row by row: what was observed, what is to be done.

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
use crate::upgrade::{Open, Phase};

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
    let flavor =
        Flavor { name: "medium".into(), cpus: 2, memory_mib: 4096, features: vec![], topology: None };
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

/// An image of Kiln's with this Slurm.
fn image(id: &str, slurm: &str) -> kiln_cloud::Image {
    let manifest = serde_json::json!({
        "recipe": id, "source": "", "built": "2026-01-01T00:00:00Z", "kiln": "",
        "packages": [{ "name": "slurm-client", "version": slurm }],
    });
    let properties = [("kiln_recipe", id.to_string()), ("kiln_manifest", manifest.to_string())];
    kiln_cloud::Image {
        id: id.into(),
        name: id.into(),
        properties: properties.map(|(key, value)| (key.to_string(), value)).into(),
        labels: Labels::new(),
        size_bytes: 0,
        created: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// The control node's Slurm must be able to read what is there, and to talk to every node.
#[test]
fn a_plan_keeps_to_slurms_releases() {
    let spec =
        spec(&FILE.replace("[compute.batch]", "[image.default]\nsource = \"trixie\"\n[compute.batch]"));
    // What nodes run; what control and login, and what compute nodes are to get.
    let refusal = |present: &str, control: &str, compute: &str| {
        let mut spec = spec.clone();
        spec.images.insert("other".into(), spec.images["default"].clone());
        for group in &mut spec.compute {
            group.image = "other".into();
        }
        let images = [("old", present), ("a", control), ("b", compute)];
        let images = images.map(|(id, slurm)| image(id, slurm)).to_vec();
        let observed = Observed { images, ..whole(&spec) };
        let targets = [("default", "a"), ("other", "b")];
        let targets = targets.map(|(name, id)| (name.to_string(), Some(id.to_string()))).into();
        plan(&spec, &observed, &targets).err().map(|error| error.to_string())
    };
    assert_eq!(refusal("24.11.5-4", "24.11.5-4", "24.11.5-4"), None);
    assert_eq!(refusal("24.11.5-4", "26.05.5-1", "26.05.5-1"), None);
    assert_eq!(refusal("24.11.5-4", "26.05.5-1", "24.11.5-4"), None);
    let too_far = "control runs Slurm 22.05.8; Slurm 24.11.5 cannot take over its database and state";
    assert_eq!(refusal("22.05.8-4", "24.11.5-4", "24.11.5-4").as_deref(), Some(too_far));
    let back = "control runs Slurm 26.05.5; Slurm 24.11.5 cannot take over its database and state";
    assert_eq!(refusal("26.05.5-1", "24.11.5-4", "24.11.5-4").as_deref(), Some(back));
    let newer =
        "compute.standard has Slurm 26.05.5, which does not work with Slurm 24.11.5 on the control node";
    assert_eq!(refusal("24.11.5-4", "24.11.5-4", "26.05.5-1").as_deref(), Some(newer));
}

/// Before an image is built: its system says which Slurm it gets. And after one was deleted: the node says it.
#[test]
fn releases_are_known_without_images() {
    let spec =
        spec(&FILE.replace("[compute.batch]", "[image.default]\nsource = \"trixie\"\n[compute.batch]"));
    let unbuilt = Targets::from([("default".to_string(), None)]);
    let mut observed = whole(&spec);
    assert!(plan(&spec, &observed, &unbuilt).is_ok(), "nothing is known of what runs");
    observed.releases.insert("control".into(), "22.05.8".parse().unwrap());
    assert!(matches!(plan(&spec, &observed, &unbuilt), Err(Error::SlurmConversion { .. })));
    observed.releases.insert("control".into(), "24.11.5".parse().unwrap());
    assert!(plan(&spec, &observed, &unbuilt).is_ok());
}

#[test]
fn what_is_there_needs_nothing() {
    let spec = spec(FILE);
    let plan = plan(&spec, &whole(&spec), &built("old")).unwrap();
    assert!(plan.is_empty(), "{plan}");
}

#[test]
fn a_new_image_rebuilds_all_but_what_is_left_to_slurm() {
    let spec = spec(FILE);
    let plan = plan(&spec, &whole(&spec), &built("new")).unwrap();
    assert_eq!(
        lines(&plan),
        [
            "~ control: rebuild control in place, old -> new (1 node)",
            "~ login.login: rebuild login-0 in place, old -> new (1 node)",
            "= compute.standard: image change left to Slurm (2 nodes): standard-[0-1] -> new",
            "~ compute.batch: rebuild batch-0 in place, old -> new (1 node)",
        ]
    );
    assert!(plan.is_destructive());
}

#[test]
fn a_recorded_target_is_not_recorded_again() {
    let spec = spec(FILE);
    let mut observed = whole(&spec);
    for instance in &mut observed.instances {
        instance.labels.insert(labels::TARGET_IMAGE.into(), "new".into());
        if !instance.name.starts_with("standard") {
            instance.image = Some("new".into());
        }
    }
    let plan = plan(&spec, &observed, &built("new")).unwrap();
    assert!(plan.is_empty(), "{plan}");
}

#[test]
fn turning_image_update_to_slurm_recreates_nothing() {
    let before = spec(FILE);
    let after = spec(&FILE.replace("\nimage_update = \"apply\"", ""));
    let plan = plan(&after, &whole(&before), &built("old")).unwrap();
    assert_eq!(
        lines(&plan),
        ["= compute.batch: image changes are left to Slurm from now on (1 node): batch-0"]
    );
}

#[test]
fn nodes_that_left_the_file_are_deleted_and_new_ones_made() {
    let before = spec(FILE);
    let after = spec(&FILE.replace("standard-[0-1]", "standard-[1-2]"));
    let plan = plan(&after, &whole(&before), &built("old")).unwrap();
    assert_eq!(
        lines(&plan),
        [
            "- compute.standard: delete standard-0 (1 node) with the jobs on them, no longer in the file",
            "+ compute.standard: create standard-2 from old (1 node)",
        ]
    );
}

/// What Slurm says of nodes, and one job on `standard-0`.
fn known(lines: &str) -> SlurmView {
    let job = JobOnNodes {
        id: "17".into(),
        user: "demo".into(),
        partition: "standard".into(),
        until: None,
        nodes: vec!["standard-0".into()],
    };
    SlurmView::Known { nodes: kiln_slurm::parse_nodes(lines), jobs: vec![job] }
}

#[test]
fn compute_nodes_go_through_slurm() {
    let before = spec(FILE);
    let after = spec(&FILE.replace("standard-[0-1]", "standard-1"));
    let seen = |slurm: SlurmView, removal: Removal| {
        let observed = Observed { slurm, ..whole(&before) };
        lines(&super::plan(&after, Some(ID), &observed, &built("old"), removal).unwrap())
    };
    let drain =
        "- compute.standard: drain standard-0 (1 node), then delete, no longer in the file; job 17 there now";
    let delete = "- compute.standard: delete standard-0 (1 node), no longer in the file";
    let rows = [
        ("NodeName=standard-0 State=IDLE", drain),
        ("NodeName=standard-0 State=DOWN", drain),
        ("NodeName=standard-0 State=MIXED+DRAIN Reason=fan [root@1]", drain),
        ("NodeName=standard-0 State=ALLOCATED*+DRAIN", drain),
        ("NodeName=standard-0 State=IDLE+COMPLETING+DRAIN", drain),
        ("NodeName=standard-0 State=ALLOCATED+CLOUD+POWERING_UP+DRAIN", drain),
        ("NodeName=standard-0 State=IDLE+DRAIN Reason=fan [root@1]", delete),
        ("NodeName=standard-0 State=DOWN+DRAIN CPUAlloc=2", delete),
        ("NodeName=standard-1 State=IDLE", delete),
    ];
    for (slurm, expected) in rows {
        assert_eq!(seen(known(slurm), Removal::AfterJobs), [expected], "{slurm}");
    }
    assert_eq!(
        seen(known("NodeName=standard-0 State=MIXED"), Removal::Now),
        ["- compute.standard: delete standard-0 (1 node) with job 17, no longer in the file"]
    );
    assert_eq!(
        seen(SlurmView::Unreachable("control is stopped".into()), Removal::AfterJobs),
        ["= compute.standard: standard-0 (1 node) stays until Slurm can be asked, no longer in the file: \
          control is stopped"]
    );
    assert_eq!(
        seen(SlurmView::Unreachable("control is stopped".into()), Removal::Now),
        ["- compute.standard: delete standard-0 (1 node) with the jobs on them, no longer in the file"]
    );
}

#[test]
fn a_node_of_another_flavor_is_recreated_when_it_is_free() {
    let before = spec(FILE);
    let after = spec(&FILE.replace("standard-[0-1]\"", "standard-[0-1]\"\nflavor = \"large\""));
    let seen = |slurm: &str| {
        let mut observed = Observed { slurm: known(slurm), ..whole(&before) };
        let large = Flavor { name: "large".into(), ..observed.flavors[0].clone() };
        observed.flavors.push(large);
        lines(&plan(&after, &observed, &built("old")).unwrap())
    };
    let slurm = "NodeName=standard-0 State=MIXED+DRAIN\nNodeName=standard-1 State=IDLE+DRAIN";
    assert_eq!(
        seen(slurm),
        [
            "- compute.standard: drain standard-0 (1 node), then delete, flavor medium -> large; job 17 there now",
            "- compute.standard: delete standard-1 (1 node), flavor medium -> large",
            "+ compute.standard: create standard-1 from old (1 node)",
        ]
    );
}

#[test]
fn slurm_powers_down_an_elastic_node_of_another_flavor() {
    let file = |flavor: &str| {
        let group = format!("[compute.e]\nnodes = \"e-0\"\nflavor = \"{flavor}\"\nelastic = {{}}\n");
        spec(&format!("{FILE}{group}"))
    };
    let seen = |flavor: &str, slurm: &str| {
        let mut observed = Observed { slurm: known(slurm), ..whole(&file("medium")) };
        let large = Flavor { name: "large".into(), ..observed.flavors[0].clone() };
        observed.flavors.push(large);
        observed.networks[0].automatic =
            crate::addresses::automatic(&file("medium"), observed.networks[0].cidr).into_iter().collect();
        lines(&plan(&file(flavor), &observed, &built("old")).unwrap())
    };
    assert_eq!(seen("medium", "NodeName=e-0 State=MIXED+CLOUD"), Vec::<String>::new());
    assert_eq!(
        seen("large", "NodeName=e-0 State=MIXED+CLOUD"),
        ["- compute.e: Slurm powers down e-0 (1 node) when their jobs have ended, flavor medium -> large"]
    );
    assert_eq!(seen("large", "NodeName=e-0 State=MIXED+CLOUD+POWER_DOWN"), Vec::<String>::new());
}

/// The cloud says that it is broken; Slurm hears from it all the same.
#[test]
fn a_broken_instance_that_runs_jobs_is_let_end_them() {
    let spec = spec(FILE);
    let seen = |slurm: &str| {
        let mut observed = Observed { slurm: known(slurm), ..whole(&spec) };
        observed.instances[2].status = InstanceStatus::Error { reason: "no host".into() };
        lines(&plan(&spec, &observed, &built("old")).unwrap())
    };
    let drained =
        "- compute.standard: drain standard-0 (1 node), then delete, broken: no host; job 17 there now";
    assert_eq!(seen("NodeName=standard-0 State=MIXED"), [drained]);
    let replaced = [
        "- compute.standard: delete standard-0 (1 node), broken: no host",
        "+ compute.standard: create standard-0 from old (1 node)",
    ];
    assert_eq!(seen("NodeName=standard-0 State=MIXED*"), replaced);
    assert_eq!(seen("NodeName=standard-0 State=IDLE"), replaced);
}

#[test]
fn volumes_grow_and_do_not_shrink() {
    let sized = |size: &str| spec(&format!("{FILE}[volumes]\nhome = {{ size = \"{size}\" }}\n"));
    let observed = whole(&sized("10 GiB"));
    assert_eq!(plan(&sized("10 GiB"), &observed, &built("old")).unwrap().actions, []);
    let grown = plan(&sized("12 GiB"), &observed, &built("old")).unwrap();
    assert_eq!(lines(&grown), ["~ volume demo-home: extend, 10 -> 12 GiB"]);
    assert!(!grown.is_destructive());
    let backup = spec(&format!("{FILE}[backup]\nsize = \"20 GiB\"\n"));
    let grown = plan(&backup, &observed, &built("old")).unwrap();
    assert_eq!(lines(&grown), ["~ volume demo-backup: extend, 10 -> 20 GiB"]);
    let refused = plan(&sized("9 GiB"), &observed, &built("old")).unwrap_err();
    assert_eq!(refused.to_string(), "volume demo-home has 10 GiB; it cannot shrink to 9 GiB");
}

#[test]
fn broken_instances_are_replaced_and_stopped_ones_started() {
    let spec = spec(FILE);
    let mut observed = whole(&spec);
    observed.instances[1].status = InstanceStatus::Stopped;
    observed.instances[2].status = InstanceStatus::Error { reason: "no host".into() };
    let plan = plan(&spec, &observed, &built("old")).unwrap();
    assert_eq!(
        lines(&plan),
        [
            "- compute.standard: delete standard-0 (1 node) with the jobs on them, broken: no host",
            "~ login.login: start login-0 (1 node)",
            "+ compute.standard: create standard-0 from old (1 node)",
        ]
    );
}

/// As when Nova made a server twice because the first answer got lost: only one can have the port.
#[test]
fn a_broken_twin_goes_alone() {
    let spec = spec(FILE);
    for broken_is_newer in [false, true] {
        let mut observed = whole(&spec);
        let mut twin = observed.instances[0].clone();
        twin.id = "id-twin".into();
        twin.status = InstanceStatus::Error { reason: "the port is in use".into() };
        observed.instances.insert(usize::from(broken_is_newer), twin);
        let plan = plan(&spec, &observed, &built("old")).unwrap();
        assert_eq!(lines(&plan), ["- control: delete control (1 node), broken: the port is in use"]);
        let Action::DeleteInstances { instances, .. } = &plan.actions[0] else { panic!("{plan}") };
        assert_eq!(instances.0, [ExistingNode { node: "control".into(), id: "id-twin".into() }]);
        assert_eq!(observed.nodes()["control"].id, "id-control");
    }
}

#[test]
fn what_a_run_that_was_cut_off_left_half_made_is_completed() {
    let spec = spec(FILE);
    let planned = |change: &dyn Fn(&mut Observed)| {
        let mut observed = whole(&spec);
        change(&mut observed);
        plan(&spec, &observed, &built("old")).unwrap()
    };
    let routerless = planned(&|o| o.networks[0].lacks = Some(NetworkPart::Router));
    assert_eq!(lines(&routerless), ["~ network demo: create its missing router"]);
    // As it was made, not as the file may have it by now.
    let Action::CreateNetwork { cidr, .. } = &routerless.actions[0] else { panic!("{routerless}") };
    assert_eq!(*cidr, "10.8.0.0/24".parse().ok());

    let closed = planned(&|o| o.security_groups[0].rules.clear());
    assert_eq!(
        lines(&closed),
        [
            "~ security group demo-cluster: add its missing rules (the cluster's own nodes, SSH from its network)"
        ]
    );
    let open = planned(&|o| {
        o.security_groups[1].rules.push(Rule { from: Ipv4Net::default().into(), tcp_port: Some(443) });
    });
    assert!(open.is_empty(), "what an administrator added stays: {open}");

    let making = planned(&|o| o.volumes[0].status = VolumeStatus::Building);
    assert_eq!(lines(&making), ["~ volume demo-state: wait until the cloud has created it"]);
    assert!(!making.is_destructive());
    let broken = planned(&|o| {
        o.volumes[0].status = VolumeStatus::Error;
        o.volumes[0].labels.insert(labels::USED.into(), labels::USED_NO.into());
    });
    assert_eq!(
        lines(&broken),
        ["- volume demo-state: the cloud could not create it; deleted and recreated (10 GiB)"]
    );
    assert!(broken.is_destructive() && !broken.changes_instances());
    assert_eq!(broken.deleted_volumes(), ["demo-state"]);
}

/// Labels say that it was used, or say nothing, as on volumes of older releases; or an instance has it now.
#[test]
fn a_volume_that_may_hold_data_is_never_recreated() {
    let spec = spec(FILE);
    let rows = [(Some(labels::USED_YES), false), (None, false), (Some(labels::USED_NO), true)];
    for (used, attached) in rows {
        let mut observed = whole(&spec);
        let volume = &mut observed.volumes[0];
        volume.status = VolumeStatus::Error;
        volume.labels.extend(used.map(|used| (labels::USED.to_string(), used.to_string())));
        volume.attached_to.extend(attached.then(|| "id-control".to_string()));
        let refused = plan(&spec, &observed, &built("old")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the cloud reports an error for volume demo-state (state), which has been in use and may hold data"
        );
        assert!(refused.hint().unwrap().starts_with("Kiln does not delete it."));
    }
}

/// Created before clusters had that volume.
#[test]
fn a_control_node_without_the_volume_for_backups_is_told_of() {
    let spec = spec(FILE);
    let mut observed = whole(&spec);
    assert!(control_has_backup_volume(&spec, &observed));
    observed.volumes.retain(|volume| volume.name != "demo-backup");
    assert!(!control_has_backup_volume(&spec, &observed));
    let planned = plan(&spec, &observed, &built("old")).unwrap();
    assert_eq!(lines(&planned), ["+ volume demo-backup (10 GiB)"]);
    let note = "control: has no volume demo-backup until its instance is recreated; backups are kept on the state volume";
    assert_eq!(planned.notes, [note]);
    observed.instances.retain(|instance| instance.name != "control");
    assert_eq!(plan(&spec, &observed, &built("old")).unwrap().notes, [""; 0], "it is created with it");
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

/// On a cloud where others, too, take addresses in the cluster's network.
#[test]
fn addresses_are_kept_for_nodes_that_come_and_go() {
    let burst = "[compute.burst]\nnodes = \"burst-[0-3]\"\nelastic = {}\n";
    let file = FILE.replace("kind = \"local\"", "kind = \"local\"\nsubnet = \"10.8.0.0/24\"") + burst;
    let wanted = spec(&file);
    let mut observed = whole(&wanted);
    observed.instances.retain(|instance| !instance.name.starts_with("burst"));
    let network = &mut observed.networks[0];
    network.automatic = vec![AddressRange { first: [10, 8, 0, 2].into(), last: [10, 8, 0, 254].into() }];
    // Somebody else's network stays as it is.
    assert!(plan(&wanted, &observed, &built("old")).unwrap().is_empty());
    observed.networks[0].labels.insert(labels::CLUSTER.into(), "demo".into());
    let kept = "~ network demo: addresses from 10.8.0.2 to 10.8.0.64 are assigned by the cloud, the others are reserved \
                for nodes";
    assert_eq!(lines(&plan(&wanted, &observed, &built("old")).unwrap()), [kept]);
    observed.networks[0].automatic[0].last = [10, 8, 0, 64].into();
    let settled = plan(&wanted, &observed, &built("old")).unwrap();
    assert!(settled.is_empty() && settled.notes.is_empty(), "{settled}");

    // One of them is taken all the same.
    let address = crate::addresses::reserved_addresses(&wanted, &observed).unwrap()["burst-2"];
    observed.foreign.insert(address, "port x (1)".into());
    let told = plan(&wanted, &observed, &built("old")).unwrap();
    let note = format!(
        "burst-2: addresses are in use by others ({address} by port x (1)); `kiln configure` gives these nodes new ones"
    );
    assert_eq!(told.notes, [note]);
    let named = format!("{file}override.burst-2.address = \"{address}\"\n");
    let refused = plan(&spec(&named), &observed, &built("old")).unwrap_err();
    let said = format!("burst-2 should have the address {address}, which is taken by port x (1)");
    assert_eq!(refused.to_string(), said);
    assert!(refused.hint().is_some());
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
fn ssh_is_opened_to_whom_the_file_names_and_closed_to_others() {
    let file = |ssh_from: &str| {
        let login = "[login.login]\nnodes = \"login-0\"\n";
        spec(&format!(
            "{}{login}",
            OPENSTACK.replace("kind = \"openstack\"\n", &format!("kind = \"openstack\"\n{ssh_from}"))
        ))
    };
    let open = file("");
    let fenced = file("ssh_from = [\"192.0.2.0/24\", \"198.51.100.7/32\"]\n");
    let groups = |spec: &Spec, observed: &Observed| {
        let plan = plan(spec, observed, &built("old")).unwrap();
        lines(&plan).into_iter().filter(|line| line.contains("security group")).collect::<Vec<_>>()
    };
    let login_only = |mut observed: Observed, mend: &dyn Fn(&mut SecurityGroup)| {
        observed.security_groups.iter_mut().filter(|group| group.name == "demo-login").for_each(mend);
        observed
    };
    assert_eq!(groups(&open, &whole(&open)), Vec::<String>::new());
    assert_eq!(groups(&fenced, &whole(&fenced)), Vec::<String>::new());
    assert_eq!(
        groups(&fenced, &whole(&open)),
        ["~ security group demo-login: SSH from 192.0.2.0/24, 198.51.100.7/32, no longer from anywhere"]
    );
    assert_eq!(
        groups(&open, &whole(&fenced)),
        ["~ security group demo-login: SSH from anywhere, no longer from 192.0.2.0/24, 198.51.100.7/32"]
    );
    // A rule for another port is the administrator's.
    let web = Rule { from: Peers::Net("0.0.0.0/0".parse().unwrap()), tcp_port: Some(443) };
    let observed = login_only(whole(&fenced), &|group| group.rules.push(web.clone()));
    assert_eq!(groups(&fenced, &observed), Vec::<String>::new());
    let missing = login_only(whole(&fenced), &|group| group.rules.truncate(1));
    let line = "~ security group demo-login: add its missing rules (SSH from 192.0.2.0/24, 198.51.100.7/32)";
    assert_eq!(groups(&fenced, &missing), [line]);
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

#[test]
fn slurm_daemons_are_stopped_only_on_a_control_node_that_is_rebuilt() {
    let spec = spec(FILE);
    let mut observed = whole(&spec);
    observed.instances[0].address = Some([10, 8, 0, 9].into());
    let plan = plan(&spec, &observed, &built("new")).unwrap();
    let rebuilt = plan.actions.iter().filter_map(|action| match action {
        Action::RebuildInstances { instances, .. } => Some(&instances.0),
        _ => None,
    });
    let stopped: Vec<_> = rebuilt.flatten().filter_map(|node| node.stop_daemons.as_ref()).collect();
    assert_eq!(stopped, [&kiln_ssh::Host::new("control", [10, 8, 0, 9].into())]);
}

/// Two people may choose one name in one project.
#[test]
fn another_cluster_of_the_same_name_is_left_alone() {
    let spec = spec(FILE);
    let refused = |own: Option<&str>| {
        super::plan(&spec, own, &whole(&spec), &built("old"), Removal::AfterJobs).unwrap_err().to_string()
    };
    for own in [Some("ffff"), None] {
        assert_eq!(
            refused(own),
            "the cloud has another cluster demo: network demo belongs to the one with the id 1a2b"
        );
    }
    // A network that the cluster only uses may be another cluster's.
    let file = "[cloud]\nkind = \"openstack\"\nnetwork = \"lent\"\n";
    let image = "[image.default]\nprebuilt = \"old\"\n";
    let uses = self::spec(&format!("{}{image}", FILE.replace("[cloud]\nkind = \"local\"\n", file)));
    let mut observed = nothing();
    observed.networks = whole(&spec).networks;
    observed.networks[0].name = "lent".into();
    observed.networks[0].labels = Labels::from([
        (labels::CLUSTER.to_string(), "other".to_string()),
        (labels::ID.to_string(), "ffff".to_string()),
    ]);
    assert!(plan(&uses, &observed, &built("old")).is_ok());
}

#[test]
fn resources_of_an_earlier_release_are_adopted() {
    let spec = spec(FILE);
    let mut observed = whole(&spec);
    observed.volumes[1].labels.remove(labels::ID);
    observed.instances[0].labels.remove(labels::ID);
    observed.instances[1].labels.remove(labels::ID);
    observed.instances[1].status = InstanceStatus::Error { reason: "no host".into() };
    let plan = plan(&spec, &observed, &built("old")).unwrap();
    assert_eq!(
        lines(&plan)[1],
        "= mark what has no id yet as this cluster's: demo-home, control",
        "not what is deleted anyway"
    );
}

#[test]
fn a_lost_control_node_gets_its_address_again() {
    let spec = spec(FILE);
    let mut observed = whole(&spec);
    let address: std::net::IpAddr = "10.8.0.7".parse().unwrap();
    observed.instances[0].address = Some(address);
    let noted = plan(&spec, &observed, &built("old")).unwrap();
    assert_eq!(lines(&noted), ["= control: its address 10.8.0.7 is kept for it"]);

    let share = observed.volumes.iter_mut().find(|v| v.name == "demo-share").unwrap();
    share.labels.insert(labels::CONTROL_ADDRESS.into(), "10.8.0.7".into());
    assert!(plan(&spec, &observed, &built("old")).unwrap().is_empty());

    let new_control = |observed: &Observed| {
        let plan = plan(&spec, observed, &built("old")).unwrap();
        let created = plan.actions.iter().find_map(|action| match action {
            Action::CreateInstances { group, instances, .. } if group == "control" => Some(instances),
            _ => None,
        });
        created.unwrap_or_else(|| panic!("{plan}")).0[0].clone()
    };
    // Gone, or broken and to be recreated.
    let mut broken = observed.clone();
    broken.instances[0].status = InstanceStatus::Error { reason: "no host".into() };
    broken.instances[0].address = None;
    assert_eq!(new_control(&broken).address, Some(address));
    observed.instances.remove(0);
    assert_eq!(new_control(&observed).address, Some(address));
    let mut taken = observed.clone();
    taken.foreign.insert(address, "a printer".into());
    let refused = plan(&spec, &taken, &built("old")).unwrap_err();
    assert_eq!(refused.to_string(), "control had the address 10.8.0.7, which is taken by a printer now");
    assert!(refused.hint().is_some());
    // In another network the address means nothing.
    observed.networks[0].cidr = "10.9.0.0/24".parse().unwrap();
    assert_eq!(new_control(&observed).address, None);
}

/// For a maintenance upgrade: nothing is left to Slurm, and only what nodes are to run has to fit together.
#[test]
fn together_every_node_gets_its_image_at_once() {
    let file = format!("{FILE}[compute.burst]\nnodes = \"burst-[0-1]\"\nelastic = {{ idle = \"1h\" }}\n");
    let spec = spec(&file);
    let images = [("old", "22.05.8-4"), ("new", "24.11.5-4")].map(|(id, slurm)| image(id, slurm)).to_vec();
    let mut observed = Observed { images, ..whole(&spec) };
    // One is off.
    observed.instances.retain(|instance| instance.name != "burst-1");
    assert!(matches!(plan(&spec, &observed, &built("new")), Err(Error::SlurmConversion { .. })));
    let together = plan_together(&spec, Some(ID), &observed, &built("new")).unwrap();
    assert_eq!(
        lines(&together)[lines(&together).len() - 5..],
        [
            "~ control: rebuild control in place, old -> new (1 node)",
            "~ login.login: rebuild login-0 in place, old -> new (1 node)",
            "~ compute.batch: rebuild batch-0 in place, old -> new (1 node)",
            "- compute.burst: delete burst-0 (1 node), Slurm has them created again with the new image",
            "~ compute.standard: rebuild standard-[0-1] in place, old -> new (2 nodes)",
        ]
    );
    // What has its image already is left alone: the next run continues.
    for instance in &mut observed.instances {
        instance.image = Some("new".into());
        if instance.labels.contains_key(labels::TARGET_IMAGE) {
            instance.labels.insert(labels::TARGET_IMAGE.into(), "new".into());
        }
    }
    let rest = plan_together(&spec, Some(ID), &observed, &built("new")).unwrap();
    assert!(!rest.is_destructive(), "{rest}");
}

/// A step that Slurm allows: by its own action, with a way back, and continued where it was cut off.
#[test]
fn another_slurm_on_control_is_a_step_with_a_way_back() {
    let spec = spec(FILE);
    let images = [("old", "24.11.5-4"), ("new", "26.05.5-1")].map(|(id, slurm)| image(id, slurm)).to_vec();
    let mut observed = Observed { images, ..whole(&spec) };
    let upgrade = |observed: &Observed, target: &str| {
        let plan = plan(&spec, observed, &built(target)).unwrap_or_else(|error| panic!("{error}"));
        let found = plan.actions.iter().find_map(|action| match action {
            Action::UpgradeControl(upgrade) => Some((upgrade.begins, upgrade.to_string())),
            _ => None,
        });
        assert!(!lines(&plan).iter().any(|line| line.starts_with("~ control: rebuild")), "{plan}");
        found
    };
    let (begins, text) = upgrade(&observed, "new").expect("an upgrade");
    assert_eq!(begins, Begins::AtTheStart);
    assert_eq!(
        text,
        "~ control: upgrade Slurm 24.11.5 -> 26.05.5: make a backup, stop Slurm, rebuild control in place, old -> new, \
         convert, compare queue and accounts; if that fails, put image and backup back"
    );
    assert!(plan(&spec, &observed, &built("new")).unwrap().is_destructive());
    assert_eq!(upgrade(&observed, "old"), None);

    let directory = "/var/lib/state/upgrades/20261116-050606-slurm-24.11.5".to_string();
    let mut open = |phase, image: &str| {
        let open = Open { phase, directory: directory.clone(), image: "old".into() };
        let control = observed.instances.iter_mut().find(|i| i.name == "control").expect("control");
        control.image = Some(image.into());
        control.labels.extend(open.label());
        observed.clone()
    };
    let begins = |observed: &Observed, target: &str| upgrade(observed, target).expect("an upgrade").0;
    assert_eq!(begins(&open(Phase::Going, "new"), "new"), Begins::HalfDone);
    assert_eq!(begins(&open(Phase::Going, "new"), "old"), Begins::OldWanted, "which Slurm alone could not");
    assert_eq!(begins(&open(Phase::Going, "old"), "new"), Begins::AtTheStart);
    assert_eq!(begins(&open(Phase::Back, "new"), "new"), Begins::FailedBefore);
    assert_eq!(begins(&open(Phase::Back, "old"), "new"), Begins::FailedBefore);
    let (_, text) = upgrade(&open(Phase::Back, "new"), "new").expect("an upgrade");
    assert!(text.contains("half done: go back to Slurm 24.11.5") && text.contains("with old"), "{text}");
}
