//! What an administrator reads when something is wrong.

use crate::lab::Lab;

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"VM.Standard.E5.Flex.2.24\"\n";

#[test]
fn what_is_wrong_is_said_before_anything_is_made() {
    let lab = Lab::new("words", GROUPS);
    let good = lab.read_file();
    let config = std::fs::read_to_string(lab.path("oci-config")).unwrap();
    for (from, to, said) in [
        ("aaaafake\"", "other\"", "does not exist, or these credentials may not use it"),
        ("kind = \"oci\"", "kind = \"oci\"\nprofile = \"lab\"", "CONFIG has no profile lab"),
        ("kind = \"oci\"", "kind = \"oci\"\navailability_domain = \"AD-9\"", "no availability domain AD-9"),
        ("subnet = \"10.31.0.0/24\"", "network = \"nowhere\"", "nowhere"),
        ("Flex.2.24\"\n\n[login", "Flex.900.24\"\n\n[login", "VM.Standard.E5.Flex.900.24"),
        ("image-a", "image-z", "image-z"),
    ] {
        assert!(good.contains(from), "{from}");
        lab.write_file(&good.replace(from, to));
        let told = lab.refused(&["plan"]);
        assert!(told.contains(said), "{told}");
    }
    lab.write_file(&good);
    std::fs::write(lab.path("oci-config"), config.replace("user.oc1..aaaafake", "user.oc1..other")).unwrap();
    let told = lab.refused(&["plan"]);
    assert!(
        told.contains("the cloud refuses the credentials") && told.contains("opc-request-id ID"),
        "{told}"
    );
    std::fs::write(lab.path("oci-config"), config).unwrap();

    lab.fake.limit(2);
    let told = lab.refused(&["apply", "--yes"]);
    assert!(told.contains("standard-e5-core-count") && told.contains("oci limits value list"), "{told}");
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.fake.left(), [""; 0]);
}
