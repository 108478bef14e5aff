//! What is broken or half made is put right.

use super::*;

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
