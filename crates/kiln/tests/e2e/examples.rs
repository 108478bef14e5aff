//! The files in `docs/examples/` that are for this machine, raised as they are but for their name.

use crate::directory::as_user;
use crate::lab::{Lab, read, wait};
use crate::raise::up_again;

fn raise(lab: &Lab, name: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples").join(name);
    let text = read(&path);
    let (before, after) = text.split_once("[cluster]\nname = \"").expect("a name");
    let (_, after) = after.split_once('"').expect("its end");
    lab.write_file(&format!("{before}[cluster]\nname = \"e2e\"{after}"));
    lab.kiln(&["up"]);
    wait("all is well", || lab.try_kiln(&["status"]).status.code() == Some(0));
}

/// Users of the examples have no keys.
fn job(lab: &Lab, user: &str, options: &str) -> String {
    lab.on("login-0", &[&format!("cd /tmp && runuser -u {user} -- srun {options} hostname")])
}

pub fn small_lab(lab: &mut Lab) {
    raise(lab, "small-lab.toml");
    assert_eq!(job(lab, "ada", "--nodes=2").lines().count(), 2);
    up_again(lab);
    lab.destroy();
}

pub fn department(lab: &mut Lab) {
    raise(lab, "department.toml");
    assert_eq!(job(lab, "carl", "--partition=large"), "large-0");
    let refused = lab.try_on("login-0", &["cd /tmp && runuser -u ben -- srun --partition=large hostname"]);
    assert!(!refused.status.success(), "the partition is for one account");
    assert!(job(lab, "ben", "").starts_with("standard-"));
    up_again(lab);
    lab.destroy();
}

pub fn all_of_it(lab: &mut Lab) {
    raise(lab, "all-of-it.toml");
    let key = lab.path("user_key.pub").display().to_string();
    lab.kiln(&["user", "add", "ada", "--key", &key, "--account", "astro"]);
    wait("ada gets in", || lab.try_ssh("ada", "login-0", "true").status.success());
    let first = as_user(lab, "ada", "srun --nodes=3 hostname | sort");
    assert_eq!(first, "burst-0\nstandard-0\nstandard-1", "a node came for it");
    lab.kiln(&["user", "remove", "ada"]);
    // They stay for ten minutes.
    lab.on(
        "control",
        &["scontrol", "update", "nodename=burst-[0-3]", "state=power_down_force", "reason=over"],
    );
    up_again(lab);
}
