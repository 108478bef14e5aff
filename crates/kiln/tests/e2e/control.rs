//! A new image on a living cluster: control and login at once, compute left to Slurm.

use crate::lab::{Lab, wait};

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
