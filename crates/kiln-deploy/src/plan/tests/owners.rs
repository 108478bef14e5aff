//! Whose the resources are.

use super::*;

/// Two people may choose one name in one project.
#[test]
fn another_cluster_of_the_same_name_is_left_alone() {
    let spec = spec(FILE);
    let refused = |own: Option<&str>| {
        crate::plan::plan(&spec, own, &whole(&spec), &built("old"), Removal::AfterJobs)
            .unwrap_err()
            .to_string()
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
