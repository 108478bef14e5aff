//! What an administrator reads when something is wrong.

use crate::lab::{Lab, services, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-[0-3]\"\nflavor = \"tiny\"\n";

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let mut lab = Lab::new("words", GROUPS);
    let good = std::fs::read_to_string(lab.path("cluster.toml")).unwrap();
    let wrong = |from: &str, to: &str| {
        lab.write(&good.replace(from, to));
        lab.refused(&["plan"])
    };
    insta::assert_snapshot!(wrong("cloud = \"demo\"", "cloud = \"demmo\""), @"");
    insta::assert_snapshot!(wrong("cloud = \"demo\"", "cloud = \"demo\"\nregion = \"north\""), @"");
    insta::assert_snapshot!(wrong("flavor = \"tiny\"", "flavor = \"huge\""), @"");
    insta::assert_snapshot!(wrong("image-a", "image-z"), @"");
    insta::assert_snapshot!(wrong("subnet = \"10.41.0.0/24\"", "network = \"nowhere\""), @"");
    lab.write(&good.replace("external_network = \"public\"", "external_network = \"outside\""));
    insta::assert_snapshot!(lab.refused(&["apply"]), @"");

    lab.write(&good);
    lab.clouds = lab.path("clouds.yaml");
    let clouds = std::fs::read_to_string(services()).unwrap();
    std::fs::write(&lab.clouds, clouds.replace("password: loopback", "password: wrong")).unwrap();
    insta::assert_snapshot!(lab.refused(&["plan"]), @"");
    std::fs::write(&lab.clouds, clouds.replace(":5000", ":5099")).unwrap();
    insta::assert_snapshot!(lab.refused(&["plan"]), @"");
    lab.clouds = services();

    tell("admin", &["quota set --instances 3 demo"]);
    let refused = std::panic::catch_unwind(|| lab.refused(&["apply"]));
    tell("admin", &["quota set --instances -1 demo"]);
    insta::assert_snapshot!(refused.unwrap(), @"");
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
