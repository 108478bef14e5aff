//! Addresses, and who may connect.

use super::*;

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

#[test]
fn an_address_that_a_node_has_goes_to_no_other() {
    let subnet = FILE.replace("kind = \"local\"", "kind = \"local\"\nsubnet = \"10.8.0.0/24\"");
    let group = |nodes: &str| format!("{subnet}[compute.extra]\nnodes = \"{nodes}\"\n");
    let mut observed = whole(&spec(&group("extra-0")));
    let address = "10.8.0.9".parse().unwrap();
    observed.instances.iter_mut().find(|i| i.name == "extra-0").unwrap().address = Some(address);
    let with = |nodes: &str| spec(&format!("{}override.extra-1.address = \"10.8.0.9\"\n", group(nodes)));
    let refused = plan(&with("extra-[0-1]"), &observed, &built("old")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "extra-1 should have the address 10.8.0.9, which is taken by the node extra-0"
    );
    // One that leaves the file gives it up.
    plan(&with("extra-1"), &observed, &built("old")).unwrap();
}

#[test]
fn the_dashboard_is_opened_to_whom_the_file_names_and_closed_again() {
    let file = |dashboard: &str| spec(&format!("{OPENSTACK}{dashboard}"));
    let groups = |spec: &Spec, observed: &Observed| {
        let plan = plan(spec, observed, &built("old")).unwrap();
        lines(&plan).into_iter().filter(|line| line.contains("security group")).collect::<Vec<_>>()
    };
    let shut = file("");
    let one = file("[dashboard]\nfrom = [\"192.0.2.0/24\"]\n");
    let other = file("[dashboard]\nfrom = [\"198.51.100.7/32\"]\n");
    assert_eq!(groups(&one, &whole(&one)), Vec::<String>::new());
    let own = "the cluster's own nodes, SSH from its network";
    assert_eq!(
        groups(&one, &whole(&shut)),
        [format!(
            "~ security group demo-cluster: add its missing rules ({own}, the dashboard from 192.0.2.0/24)"
        )]
    );
    assert_eq!(
        groups(&other, &whole(&one)),
        [format!(
            "~ security group demo-cluster: {own}, the dashboard from 198.51.100.7/32, the dashboard no longer from 192.0.2.0/24"
        )]
    );
    assert_eq!(
        groups(&shut, &whole(&one)),
        [format!("~ security group demo-cluster: {own}, the dashboard no longer from 192.0.2.0/24")]
    );
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
fn a_slurmdbd_elsewhere_may_call_slurmctld() {
    let own = spec(FILE);
    let groups = |spec: &Spec, observed: &Observed| {
        let plan = plan(spec, observed, &built("old")).unwrap();
        lines(&plan).into_iter().filter(|line| line.contains("security group")).collect::<Vec<_>>()
    };
    let external = |hosts: &str| spec(&format!("{FILE}[accounting]\n{hosts}"));
    let addresses = external("host = \"192.0.2.7\"\nbackup_host = \"192.0.2.8\"\n");
    assert_eq!(
        groups(&addresses, &whole(&own)),
        [
            "~ security group demo-cluster: add its missing rules (the cluster's own nodes, SSH from its network, slurmdbd from \
          192.0.2.7/32, 192.0.2.8/32)"
        ]
    );
    assert_eq!(groups(&addresses, &whole(&addresses)), [""; 0]);
    assert_eq!(groups(&external("host = \"dbd.example.org\"\n"), &whole(&own)), [""; 0]);
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
