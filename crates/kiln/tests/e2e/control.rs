//! The control node gets a new image, or is lost.

use crate::behind::cloud;
use crate::lab::{Lab, wait};

/// From Debian 12 to 13 is further than Slurm reaches. Said before an image is built, and nothing is touched.
pub fn too_far(lab: &mut Lab) {
    let file = lab.read_file();
    let seen = |lab: &mut Lab| (lab.json(&["inventory"]), lab.json(&["image", "list"]));
    let before = seen(lab);
    lab.edit("source = \"bookworm\"", "source = \"trixie\"");
    for words in [&["up", "--yes"][..], &["plan"]] {
        let refused = lab.try_kiln(words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains("control runs Slurm 22.05"), "{said}");
        assert!(said.contains("Slurm 23.11 is the newest that can"), "{said}");
    }
    lab.write_file(&file);
    assert_eq!(before, seen(lab));
    assert!(lab.kiln(&["plan"]).contains("Nothing to do"));
}

/// The node says which Slurm it runs.
pub fn image_deleted(lab: &mut Lab) {
    let image = lab.host("control")["image_id"].as_str().expect("an image").to_string();
    lab.kiln(&["image", "delete", &image, "--yes", "--force"]);
    assert!(!lab.kiln(&["--json", "image", "list"]).contains(&image), "it is gone");
    // Whatever earlier scenarios have set.
    let kill_wait =
        |line: &str| if line.starts_with("KillWait = ") { "KillWait = 47" } else { line }.to_string() + "\n";
    lab.write_file(&lab.read_file().lines().map(kill_wait).collect::<String>());
    lab.kiln(&["configure"]);
    assert!(lab.on("control", &["scontrol", "show", "config"]).contains("KillWait                = 47"));
}

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
    let waiting = lab.submit_waiting();
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
