//! Nodes get other images, and with them another Slurm.

use super::*;

/// An image of Kiln's with this Slurm.
pub(super) fn image(id: &str, slurm: &str) -> kiln_cloud::Image {
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

/// Compute nodes would be configured for the other family while they still have the old image. Others are rebuilt first.
#[test]
fn a_compute_node_keeps_its_family() {
    let el = "[image.default]\nprebuilt = \"p\"\nsystem = \"rocky9\"\n[compute.batch]";
    let el = spec(&FILE.replace("[compute.batch]", el));
    let of_family = |id: &str, family: &str| {
        let mut image = image(id, "22.05.8-1");
        let manifest = image.properties.get_mut("kiln_manifest").unwrap();
        *manifest = manifest.replacen('{', &format!("{{\"family\":\"{family}\","), 1);
        image
    };
    let refusal = |present: &str| {
        let observed = Observed { images: vec![of_family("old", present)], ..whole(&el) };
        plan(&el, &observed, &built("old")).err()
    };
    assert_eq!(refusal("el").map(|error| error.to_string()), None);
    let refused = refusal("debian").expect("refused");
    let said =
        "compute.standard has nodes of the debian family of systems; image default is of the el family";
    assert_eq!(refused.to_string(), said);
    assert!(refused.hint().is_some_and(|hint| hint.contains("a group of another name")));
    // Only of compute nodes, and only where there are some.
    let mut observed = Observed { images: vec![of_family("old", "debian")], ..whole(&el) };
    observed.instances.retain(|i| !i.labels[labels::GROUP].starts_with("compute."));
    assert!(plan(&el, &observed, &built("old")).is_ok());
    // Nothing is known of an image that Kiln has not built.
    assert!(plan(&el, &whole(&el), &built("old")).is_ok());
}

/// What a new image brings is told before anything is done, for nodes that are rebuilt at once and for those that Slurm moves.
#[test]
fn a_plan_says_what_images_bring() {
    let spec = spec(FILE);
    let targets = Targets::from([("default".to_string(), Some("new".to_string()))]);
    let images = vec![image("old", "24.11.5-4"), image("new", "24.11.5-5")];
    let observed = Observed { images, ..whole(&spec) };
    let shown = plan(&spec, &observed, &targets).unwrap();
    let all: Vec<&str> = spec.nodes().map(|node| node.name).collect();
    assert_eq!(shown.software.len(), 1);
    assert_eq!(shown.software[0].nodes, all);
    let line = "old -> new: 1 package changed; slurm 24.11.5-4 -> 24.11.5-5";
    assert!(shown.to_string().contains(line), "{shown}");
    assert_eq!(serde_json::json!(shown)["software"][0]["changed"][0]["to"], "24.11.5-5");
    // Nothing is known of an image that Kiln has not built.
    let observed = Observed { images: vec![image("new", "24.11.5-5")], ..whole(&spec) };
    assert!(plan(&spec, &observed, &targets).unwrap().software.is_empty());
}

/// A rollout is judged by the Slurm that the control node runs now.
#[test]
fn a_rollout_keeps_to_slurms_releases() {
    let spec = spec(FILE);
    let refusal = |control: &str, target: &str| {
        let images = vec![image("old", control), image("new", target)];
        let observed = Observed { images, ..whole(&spec) };
        let node = spec.compute[0].nodes[0].as_str();
        releases::check_rollout(&spec, &observed, &[(node, "new")]).err().map(|error| error.to_string())
    };
    assert_eq!(refusal("24.11.5-4", "24.11.5-5"), None);
    assert_eq!(refusal("26.05.5-1", "24.11.5-5"), None);
    let newer = refusal("24.11.5-4", "26.05.5-1").unwrap_or_default();
    assert!(newer.contains("does not work with Slurm 24.11.5 on the control node"), "{newer}");
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
