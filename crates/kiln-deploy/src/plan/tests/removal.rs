//! Nodes that go, and the jobs on them.

use super::*;

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
        lines(&crate::plan::plan(&after, Some(ID), &observed, &built("old"), removal).unwrap())
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
    let seen_with = |flavor: &str, slurm: &str, removal: Removal| {
        let SlurmView::Known { nodes, mut jobs } = known(slurm) else { panic!("it is known") };
        jobs[0].nodes = vec!["e-0".into()];
        let slurm = SlurmView::Known { nodes, jobs };
        let mut observed = Observed { slurm, ..whole(&file("medium")) };
        let large = Flavor { name: "large".into(), ..observed.flavors[0].clone() };
        observed.flavors.push(large);
        observed.networks[0].automatic =
            crate::addresses::automatic(&file("medium"), observed.networks[0].cidr).into_iter().collect();
        lines(&crate::plan::plan(&file(flavor), Some(ID), &observed, &built("old"), removal).unwrap())
    };
    let seen = |flavor: &str, slurm: &str| seen_with(flavor, slurm, Removal::AfterJobs);
    assert_eq!(seen("medium", "NodeName=e-0 State=MIXED+CLOUD"), Vec::<String>::new());
    assert_eq!(
        seen("large", "NodeName=e-0 State=MIXED+CLOUD"),
        ["- compute.e: Slurm powers down e-0 (1 node) when their jobs have ended, flavor medium -> large"]
    );
    assert_eq!(seen("large", "NodeName=e-0 State=MIXED+CLOUD+POWER_DOWN"), Vec::<String>::new());
    // One that waits for its job is hurried, too.
    for state in ["MIXED+CLOUD", "MIXED+CLOUD+DRAIN+POWER_DOWN"] {
        assert_eq!(
            seen_with("large", &format!("NodeName=e-0 State={state}"), Removal::Now),
            ["- compute.e: Slurm powers down e-0 (1 node) at once with job 17, flavor medium -> large"]
        );
    }
    let going = "NodeName=e-0 State=IDLE+CLOUD+POWERING_DOWN";
    assert_eq!(seen_with("large", going, Removal::Now), Vec::<String>::new());
}

/// The cloud says that it is broken; Slurm hears from it all the same.
#[test]
fn nodes_that_go_are_named_in_their_order() {
    let spec = spec(FILE);
    let slurm = SlurmView::Unreachable("control is stopped".into());
    let mut observed = Observed { slurm, ..whole(&spec) };
    for instance in observed.instances.iter_mut().filter(|i| i.name.starts_with("standard-")) {
        instance.status = InstanceStatus::Error { reason: "no host".into() };
    }
    let in_order = lines(&plan(&spec, &observed, &built("old")).unwrap());
    observed.instances.reverse();
    assert_eq!(lines(&plan(&spec, &observed, &built("old")).unwrap()), in_order);
    assert!(in_order[0].contains("standard-[0-1] (2 nodes)"), "{in_order:?}");
}

#[test]
fn a_broken_instance_that_runs_jobs_is_let_end_them() {
    let spec = spec(FILE);
    let seen = |slurm: SlurmView| {
        let mut observed = Observed { slurm, ..whole(&spec) };
        observed.instances[2].status = InstanceStatus::Error { reason: "no host".into() };
        lines(&plan(&spec, &observed, &built("old")).unwrap())
    };
    let drained =
        "- compute.standard: drain standard-0 (1 node), then delete, broken: no host; job 17 there now";
    assert_eq!(seen(known("NodeName=standard-0 State=MIXED")), [drained]);
    let replaced = [
        "- compute.standard: delete standard-0 (1 node), broken: no host",
        "+ compute.standard: create standard-0 from old (1 node)",
    ];
    assert_eq!(seen(known("NodeName=standard-0 State=MIXED*")), replaced);
    assert_eq!(seen(known("NodeName=standard-0 State=IDLE")), replaced);
    // Nobody can say whether jobs run there.
    let kept = "= compute.standard: standard-0 (1 node) stays until Slurm can be asked, broken: no host: control is stopped";
    assert_eq!(seen(SlurmView::Unreachable("control is stopped".into())), [kept]);
}
