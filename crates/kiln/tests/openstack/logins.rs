//! Ways to log in other than a password in clouds.yaml.

use crate::lab::{Lab, openstack, own_project, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n";

#[test]
fn variables_say_who_logs_in() {
    let mut lab = Lab::new("vars", GROUPS);
    lab.edit("cloud = \"demo\"\n", "");
    let nowhere = lab.path("no-clouds.yaml");
    lab.set_environment(
        &nowhere,
        &[
            ("OS_AUTH_URL", "http://127.0.0.1:5000/v3"),
            ("OS_USERNAME", &own_project()),
            ("OS_PASSWORD", "loopback"),
            ("OS_PROJECT_NAME", &own_project()),
            ("OS_USER_DOMAIN_NAME", "Default"),
            ("OS_PROJECT_DOMAIN_NAME", "Default"),
            ("OS_REGION_NAME", "RegionOne"),
        ],
    );
    assert!(lab.kiln(&["plan"]).contains("+ control: create control"));
    lab.environment.retain(|(name, _)| name != "OS_PASSWORD");
    let said = lab.refused(&["plan"]);
    assert!(said.contains("the OS_* variables: `password` is missing"), "{said}");
}

/// The deploy host has an application credential of its own, and makes the control node's with it.
#[test]
fn an_application_credential_raises_a_cluster() {
    let mut lab = Lab::new("cred", GROUPS);
    let all = "application credential delete host-of-cred host-of-cred-limited host-of-cred-again";
    lab.undo_with("demo", &[all]);
    let make = |options: &str, name: &str| {
        let made =
            openstack(&[&format!("application credential create {options} --secret lab {name}")]).remove(0);
        made["id"].as_str().or(made["ID"].as_str()).unwrap().to_string()
    };
    let clouds = |id: &str| {
        format!(
            "clouds:\n  demo:\n    auth_type: v3applicationcredential\n    region_name: RegionOne\n    auth:\n      \
             auth_url: http://127.0.0.1:5000/v3\n      application_credential_id: {id}\n      \
             application_credential_secret: lab\n"
        )
    };
    lab.write_clouds(&clouds(&make("--unrestricted", "host-of-cred")));
    lab.kiln(&["apply"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    let names = openstack(&["application credential list"]).remove(0);
    assert!(names.to_string().contains("\"kiln_cred_"), "{names}");
    lab.kiln(&["destroy", "--yes"]);

    lab.write_clouds(&clouds(&make("", "host-of-cred-limited")));
    let said = lab.refused(&["apply"]);
    assert!(said.contains("one that logs in itself must be unrestricted"), "{said}");
    tell("demo", &["application credential delete host-of-cred-limited"]);
    lab.write_clouds(&clouds(&make("--unrestricted", "host-of-cred-again")));
    lab.kiln(&["destroy", "--yes"]);
    tell("demo", &["application credential delete host-of-cred host-of-cred-again"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
