//! What an administrator reads.

use insta::assert_snapshot;

use crate::lab::Lab;

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"VM.Standard.E5.Flex.2.24\"\n";

#[test]
fn a_plan() {
    let lab = Lab::new("words", GROUPS);
    assert_snapshot!("plan", lab.kiln(&["plan"]));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_made() {
    let lab = Lab::new("words", GROUPS);
    let good = lab.read_file();
    let config = std::fs::read_to_string(lab.path("oci-config")).unwrap();
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        lab.write_file(&good.replace(from, to));
        lab.refused(&["plan"])
    };
    assert_snapshot!("wrong_compartment", with("aaaafake\"", "other\""));
    assert_snapshot!("unknown_profile", with("kind = \"oci\"", "kind = \"oci\"\nprofile = \"lab\""));
    assert_snapshot!(
        "unknown_availability_domain",
        with("kind = \"oci\"", "kind = \"oci\"\navailability_domain = \"AD-9\"")
    );
    assert_snapshot!("unknown_subnet", with("subnet = \"10.31.0.0/24\"", "network = \"nowhere\""));
    assert_snapshot!(
        "size_that_a_shape_does_not_have",
        with("Flex.2.24\"\n\n[login", "Flex.900.24\"\n\n[login")
    );
    assert_snapshot!("unknown_shape", with("VM.Standard.E5.Flex.2.24\"\n\n[login", "VM.Nothing\"\n\n[login"));
    assert_snapshot!("unknown_image", with("image-a", "image-z"));
    lab.write_file(&good);

    let with = |from: &str, to: &str| {
        assert!(config.contains(from), "{from}");
        std::fs::write(lab.path("oci-config"), config.replace(from, to)).unwrap();
        lab.refused(&["plan"])
    };
    assert_snapshot!("unknown_user", with("user.oc1..aaaafake", "user.oc1..other"));
    assert_snapshot!("wrong_fingerprint", with("fingerprint=", "fingerprint=00:"));
    assert_snapshot!("missing_key", with("key_file=", "key_file=/nowhere"));
    assert_eq!(lab.fake.left(), [""; 0]);
}

#[test]
fn limits_that_are_exceeded() {
    let lab = Lab::new("words", GROUPS);
    lab.fake.limit("standard-e5-core-count", 1);
    assert_snapshot!("limits_exceeded", lab.refused(&["apply", "--yes"]));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}

/// Shown, and written into the file without touching anything else in it.
#[test]
fn limits_of_the_tenancy() {
    let groups = "[limits.\"VM.Standard.E5.Flex.2.24\"] # of the tenancy\nzones = { AD-1 = 1, AD-2 = 1 }\n\n\
                  [limits.\"VM.Standard2.1\"]\nzones = {}\n";
    let lab = Lab::new("words", groups);
    lab.fake.limit("standard-e5-core-count", 21);
    lab.fake.limit("standard2-core-count", 5);
    assert_snapshot!("limits", lab.kiln(&["limits"]));
    let json = lab.json(&["limits", "BM.HPC2.36"]);
    assert_eq!(
        (&json[0]["zone"], &json[0]["free"], &json[0]["nodes"]),
        (&"ad1".into(), &10.into(), &10.into())
    );
    assert_snapshot!("limits_of_an_unknown_shape", lab.refused(&["limits", "VM.Nothing"]));

    let before = lab.read_file();
    assert_snapshot!("limits_written", lab.kiln(&["limits", "--write"]));
    let after = before
        .replace("AD-1 = 1,", "AD-1 = 9,")
        .replace("AD-2 = 1 ", "AD-2 = 10 ")
        .replace("zones = {}", "zones = { ad1 = 5, ad2 = 5, ad3 = 5 }");
    assert_eq!(lab.read_file(), after);
    lab.kiln(&["apply"]);
    // Control and login exist now, and count by themselves.
    lab.kiln(&["limits", "--write"]);
    assert_eq!(lab.read_file(), after);
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}

#[test]
fn rights_of_the_control_node() {
    let lab = Lab::new("words", GROUPS);
    assert_snapshot!("policy", lab.kiln(&["policy"]));
    // As for most people: an administrator has to do it.
    lab.fake.close_identity();
    let output = lab.try_kiln(&["apply", "--yes"]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    let told = said.lines().find_map(|line| Some(&line[line.find("rights of the control node")?..]));
    assert_snapshot!("policy_that_may_not_be_created", lab.steady(told.unwrap_or_else(|| panic!("{said}"))));
    assert_eq!(lab.try_kiln(&["policy", "--create"]).status.code(), Some(1));
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}
