//! What an administrator of the cloud is shown of other projects is left alone.

use crate::lab::{Administrator, Lab, attempt, openstack, openstack_as};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n";

/// As a cluster of the same name has them in another project: kinds, and how they are made there.
const THEIRS: [(&str, &str); 5] = [
    ("network", "doubled --description kiln_cluster=doubled --tag kiln_id=theirs"),
    ("subnet", "doubled --network doubled --subnet-range 10.46.0.0/24"),
    ("port", "control --network doubled --description kiln_cluster=doubled"),
    ("security group", "doubled-cluster --description kiln_cluster=doubled --tag kiln_id=theirs"),
    ("floating ip", "public --description kiln_cluster=doubled"),
];

/// Another project. It goes when this is dropped, with what it has.
struct NextDoor {
    /// Kinds and ids.
    made: Vec<(&'static str, String)>,
}

impl NextDoor {
    fn new() -> NextDoor {
        openstack_as("admin", &["project create --or-show next-door"]);
        NextDoor { made: Vec::new() }
    }

    /// What has been made.
    fn make(&mut self, kind: &'static str, words: &str) -> String {
        let made = openstack_as("admin", &[&format!("{kind} create --project next-door {words}")]);
        let id = made[0]["id"].as_str().expect("an id").to_string();
        self.made.push((kind, id.clone()));
        id
    }

    /// All of it is still there: the client fails where something is not.
    fn check(&self) {
        for (kind, id) in &self.made {
            openstack_as("admin", &[&format!("{kind} show {id}")]);
        }
    }
}

impl Drop for NextDoor {
    fn drop(&mut self) {
        for (kind, id) in self.made.iter().rev() {
            attempt("admin", &[&format!("{kind} delete {id}")]);
        }
        attempt("admin", &["project delete next-door"]);
    }
}

#[test]
fn a_cluster_of_another_project_is_left_alone() {
    let lab = Lab::in_subnet("10.45.0.", "doubled", GROUPS);
    let mut theirs = NextDoor::new();
    for (kind, words) in THEIRS {
        theirs.make(kind, words);
    }
    let disk = format!("--disk-format raw --file {}", lab.path("cluster.toml").display());
    let marks = "--property kiln_recipe=unfinished --property 'kiln_made_by=build of doubled'";
    theirs.make("image", &format!("--private {disk} {marks} unfinished"));
    // A newer one with the name of one that all may use. Its owner may share it, but has not.
    let image = theirs.make("image", &format!("--shared {disk} image-a"));

    let administrator = Administrator::begin();
    lab.kiln(&["apply"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));
    let server = openstack(&["server show standard-0"]).remove(0);
    assert!(!server["image"].to_string().contains(&image), "{server}");
    lab.kiln(&["destroy", "--yes"]);
    theirs.check();
    drop(theirs);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
    drop(administrator);
}
