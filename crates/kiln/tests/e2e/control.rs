//! The control node gets a new image, or is lost.

use crate::lab::{Lab, wait};
use crate::reconcile::cloud;

/// A new image on a living cluster: control and login at once, compute left to Slurm.
pub fn rebuilt(lab: &mut Lab) {
    let running = lab.submit("--nodes=2 --exclusive --output=running.%j", "sleep 45; echo survived");
    lab.wait_job(&running, "RUNNING");
    let waiting = lab.submit("--nodes=2 --exclusive --output=waiting.%j", "echo came through");
    assert_eq!(lab.job(&waiting, "JobState"), "PENDING");
    let before = lab.hosts();

    // An extra image on top of the first, for all nodes.
    lab.edit(
        "[control]\n",
        "[image.second]\nsource = \"default\"\ncommands = [\"echo second >/etc/which-image\"]\n\n[control]\n",
    );
    lab.edit("image = \"default\"", "image = \"second\"");
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("compute.standard: image change left to Slurm (2 nodes)"), "{plan}");
    let refused = lab.try_kiln(&["up"]);
    assert!(!refused.status.success(), "a rebuild must be agreed to");
    lab.kiln(&["up", "--yes"]);

    for node in ["control", "login-0"] {
        assert_eq!(lab.on(node, &["cat", "/etc/which-image"]), "second");
    }
    let after = lab.hosts();
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(
            (&old["instance_id"], &old["address"]),
            (&new["instance_id"], &new["address"]),
            "in place"
        );
        let name = new["name"].as_str().unwrap_or_default();
        if new["role"] == "compute" {
            assert_eq!(old["image_id"], new["image_id"], "{name} is left to Slurm");
            assert_ne!(new["image_id"], new["target_image_id"], "{name} knows its target");
        } else {
            assert_eq!(new["image_id"], new["target_image_id"], "{name} has its new image");
        }
    }
    for (id, file, words) in [(&running, "running", "survived"), (&waiting, "waiting", "came through")] {
        let recorded = |lab: &mut Lab| lab.as_user("login-0", &format!("sacct -nXP -j {id} -o state"));
        wait(&format!("job {id} is done"), || recorded(lab) == "COMPLETED");
        assert_eq!(lab.as_user("login-0", &format!("cat {file}.{id}")), words);
    }
}

/// Somebody deletes control's instance. `up` brings it back at its address, and nothing that Slurm knew is gone.
pub fn lost(lab: &mut Lab) {
    let done = lab.submit("--output=/dev/null", "true");
    let state = |lab: &Lab, id: &str| lab.as_user("login-0", &format!("sacct -nXP -j {id} -o state"));
    wait(&format!("job {done} is in the accounts"), || state(lab, &done) == "COMPLETED");
    let waiting = lab.submit("--begin=now+1hour --output=/dev/null", "true");
    let before = lab.host("control");
    let id = before["instance_id"].as_str().unwrap_or_default().to_string();
    cloud(async |cloud| cloud.delete(&id).await);

    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("+ control: create control"), "{plan}");
    lab.kiln(&["up", "--yes"]);
    let after = lab.host("control");
    assert_ne!(after["instance_id"], before["instance_id"]);
    assert_eq!(after["address"], before["address"]);
    assert_eq!(state(lab, &done), "COMPLETED", "accounting remembers");
    assert_eq!(lab.job(&waiting, "JobState"), "PENDING", "and so does slurmctld");
    lab.as_user("login-0", &format!("scancel {waiting}"));
    lab.as_user("login-0", "srun --nodes=2 hostname");
}
