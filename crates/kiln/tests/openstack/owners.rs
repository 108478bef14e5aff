//! Names are chosen by people: two clusters of one name in one project are not one.

use crate::lab::{Lab, openstack, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n";

#[test]
fn another_cluster_of_the_name_is_left_alone() {
    let lab = Lab::new("owners", GROUPS);
    lab.kiln(&["apply", "--yes"]);
    let shown = &[
        "server show control",
        "volume show owners-home",
        "network show owners",
        "security group show owners-cluster",
    ];
    let before = openstack(shown);
    for (resource, show) in before.iter().zip(shown) {
        assert!(resource.to_string().contains("kiln_id"), "{show}: {resource}");
    }

    // As somebody else has it: the same file, but not its `.kiln`.
    std::fs::rename(lab.path(".kiln"), lab.path("theirs")).unwrap();
    for arguments in
        [&["plan"] as &[&str], &["apply", "--yes"], &["up", "--yes"], &["configure"], &["destroy", "--yes"]]
    {
        let refused = lab.refused(arguments);
        assert!(
            refused.starts_with("error: the cloud has another cluster owners: "),
            "{arguments:?}: {refused}"
        );
        assert!(refused.contains("`kiln secrets adopt`"), "{refused}");
    }
    let ids = |all: &[serde_json::Value]| all.iter().map(|r| r["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&openstack(shown)), ids(&before));

    // Theirs, after they lost it.
    let asked = lab.refused(&["secrets", "adopt"]);
    assert!(asked.starts_with("error: Taking over the cluster owners with the id "), "{asked}");
    lab.kiln(&["secrets", "adopt", "--yes"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));

    // As an earlier release left them.
    let network = before[2]["id"].as_str().unwrap();
    tell("demo", &["server unset --property kiln_id control", &format!("network unset --all-tag {network}")]);
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("= mark what has no id yet as this cluster's: owners, control"), "{plan}");
    lab.kiln(&["apply"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

/// The control server is deleted behind Kiln's back. Nodes mount by its address.
#[test]
fn a_lost_control_node_comes_back_at_its_address() {
    let lab = Lab::new("lost", GROUPS);
    lab.kiln(&["apply", "--yes"]);
    let seen = || {
        let server = openstack(&["server show control"]).remove(0);
        let volumes = server["volumes_attached"].as_array().map(Vec::len);
        (server["id"].clone(), server["addresses"].clone(), volumes)
    };
    let before = seen();
    tell("demo", &["server delete --wait control"]);
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("+ control: create control"), "{plan}");
    lab.kiln(&["apply", "--yes"]);
    let after = seen();
    assert_ne!(after.0, before.0);
    assert_eq!((&after.1, after.2), (&before.1, Some(4)));
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
