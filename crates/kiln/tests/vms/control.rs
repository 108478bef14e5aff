//! The control node restarts, gets a new root disk, or is lost. What it knew is on volumes, and jobs go on without it.

use std::process::Stdio;

use crate::client::tell;
use crate::cluster_dir::printed;
use crate::lab::{DISKS, Lab, wait};
use crate::raise::all_well;
use crate::renewal::{image, server};
use crate::services;

/// A job that writes to its home directory as long as it runs.
pub struct Writer<'a> {
    lab: &'a Lab,
    id: String,
}

impl<'a> Writer<'a> {
    pub fn start(lab: &'a Lab) -> Writer<'a> {
        let id = lab.as_user(
            "id=$(sbatch --parsable --nodelist=standard-0 --mem=50 --output=/dev/null \
             --wrap 'while sleep 1; do date >>written.$SLURM_JOB_ID; done') || exit 1; \
             until [ -s written.$id ]; do sleep 1; done; echo $id",
        );
        Writer { lab, id }
    }

    /// It runs, was not started again, and goes on writing.
    pub fn check(&self) {
        let id = &self.id;
        let lines = || self.lab.as_user(&format!("wc -l <written.{id}")).parse::<u64>().expect("a number");
        let before = lines();
        wait("the job writes on", || lines() > before);
        let shown = self.lab.as_user(&format!("scontrol show job {id}"));
        assert!(shown.contains("JobState=RUNNING") && shown.contains("Restarts=0"), "{shown}");
    }

    pub fn end(self) {
        self.lab.as_user(&format!("scancel {0}; rm written.{0}", self.id));
    }
}

fn boot_ids(lab: &Lab) -> Vec<String> {
    ["login-0", "standard-0", "standard-1"]
        .map(|node| lab.on(node, "cat /proc/sys/kernel/random/boot_id"))
        .into()
}

fn state(lab: &Lab, id: &str) -> String {
    lab.as_user(&format!("sacct -nXP -j {id} -o state"))
}

/// Jobs of the past and of the future, which control knows of.
fn history(lab: &Lab) -> (String, String) {
    let past = lab.as_user("sbatch --parsable --wait --mem=50 --output=/dev/null --wrap true");
    wait("the job is in the accounts", || state(lab, &past) == "COMPLETED");
    let future =
        lab.as_user("sbatch --parsable --begin=now+1day --mem=50 --output=/dev/null --wrap 'echo tomorrow'");
    (past, future)
}

fn check_history(lab: &Lab, (past, future): &(String, String)) {
    assert_eq!(state(lab, past), "COMPLETED", "accounting remembers");
    assert_eq!(lab.as_user(&format!("squeue -ho %T -j {future}")), "PENDING", "and so does slurmctld");
    lab.as_user(&format!("scancel {future}"));
}

pub fn restarted(lab: &Lab) {
    let job = Writer::start(lab);
    lab.on("control", "systemctl restart nfs-server.service");
    job.check();
    let before = boot_ids(lab);
    // Asked for only, it could answer once more before it goes.
    tell("demo", &["server reboot --hard --wait control"]);
    wait("slurmctld answers again", || lab.try_as_user("squeue").status.success());
    job.check();
    assert_eq!(boot_ids(lab), before, "nobody else restarts");
    wait("all nodes are well", || all_well(lab));
    job.end();
}

/// Volumes are found by their ids, whatever their order, and are not formatted again.
pub fn rebuilt(lab: &Lab) {
    let job = Writer::start(lab);
    let history = history(lab);
    let (before, first) = (server("control").expect("a server"), image("control"));
    let disks = "lsblk -nro LABEL,UUID,MOUNTPOINT | grep ' /' | sort";
    let mounted = |lab: &Lab| {
        let all = lab.on("control", disks);
        // The root disk is another one.
        all.lines().filter(|line| !line.ends_with(" /")).map(String::from).collect::<Vec<_>>()
    };
    let volumes = mounted(lab);
    assert!(volumes.iter().all(|line| !line.starts_with(' ')), "each has a label: {volumes:?}");
    lab.edit("flavor = \"vm.2048\"\nimage = \"default\"", "flavor = \"vm.2048\"\nimage = \"next\"");
    lab.kiln(&["up", "--yes"]);
    let after = server("control").expect("a server");
    assert_eq!((&after["ID"], &after["Networks"]), (&before["ID"], &before["Networks"]), "in place");
    assert_eq!([first, image("control")], DISKS);
    assert_eq!(mounted(lab), volumes);
    job.check();
    check_history(lab, &history);
    job.end();
}

pub fn lost(lab: &Lab) {
    let job = Writer::start(lab);
    let history = history(lab);
    let (before, booted) = (server("control").expect("a server"), boot_ids(lab));
    tell("demo", &["server delete --wait control"]);
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("+ control: create control"), "{plan}");
    // Its volumes are late: Cinder takes its time.
    let held = services::hold("cinder-volume");
    let up = lab.kiln_command(&["up", "--yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let up = up.expect("kiln runs");
    wait("Nova waits for the volumes", || {
        server("control").is_some_and(|server| server["Task State"] == "block_device_mapping")
    });
    drop(held);
    let up = up.wait_with_output().expect("kiln ends");
    assert!(up.status.success(), "{}", printed(&up));
    let after = server("control").expect("a server");
    assert_ne!(after["ID"], before["ID"]);
    assert_eq!(after["Networks"], before["Networks"], "the same address");
    assert_eq!(boot_ids(lab), booted, "the others were not touched");
    job.check();
    check_history(lab, &history);
    job.end();
}
