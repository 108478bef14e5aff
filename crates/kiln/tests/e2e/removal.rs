//! Nodes that leave the file go through Slurm: no job is harmed by it, unless somebody says so.

use crate::cluster_dir::printed;
use crate::cut;
use crate::lab::{Lab, wait};

/// A job that runs until its file appears, on one node.
struct Held {
    id: String,
}

impl Held {
    fn start(lab: &Lab, node: &str) -> Held {
        lab.as_user("login-0", "rm -f may-end");
        let script = "until [ -e may-end ]; do sleep 0.2; done; echo unharmed";
        let partition = node.split('-').next().unwrap_or_default();
        let options = format!("--partition={partition} --nodelist={node} --output=held.%j");
        let id = lab.submit(&options, script);
        lab.wait_job(&id, "RUNNING");
        Held { id }
    }

    fn let_end(lab: &Lab) {
        lab.as_user("login-0", "touch may-end");
    }

    /// By Slurm's accounts, and by what it wrote.
    fn assert_unharmed(&self, lab: &Lab) {
        let record = || lab.as_user("login-0", &format!("sacct -nXP -j {} -o state,exitcode", self.id));
        wait("sacct has the end of the job", || record() == "COMPLETED|0:0");
        assert_eq!(lab.as_user("login-0", &format!("cat held.{}", self.id)), "unharmed");
    }
}

fn state(lab: &Lab, node: &str) -> String {
    lab.on("control", &["scontrol", "show", "node", "--oneliner", node])
}

/// `kiln up` that leaves a node for later, and says so.
fn up_with_rest(lab: &Lab, job: &str) -> String {
    let output = lab.try_kiln(&["up", "--yes"]);
    let said = printed(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&format!("job {job} of demo")), "{said}");
    assert!(said.contains("run `kiln up` again when they have ended, or with --wait"), "{said}");
    said
}

pub fn under_a_job(lab: &mut Lab) {
    let file = lab.read_file();
    let smaller = file.replace("nodes = \"extra-[0-1]\"", "nodes = \"extra-0\"");
    let held = Held::start(lab, "extra-1");
    lab.write_file(&smaller.replace("KillWait = ", "KillWait = 1"));
    let plan = lab.kiln(&["plan"]);
    let expected = format!("drain extra-1 (1 node), then delete, no longer in the file; job {}", held.id);
    assert!(plan.contains(&expected), "{plan}");
    let plan = lab.json(&["plan"]);
    let drain = &plan["actions"][0];
    assert_eq!(
        (drain["action"].as_str(), drain["nodes"][0].as_str()),
        (Some("drain-instances"), Some("extra-1"))
    );
    assert_eq!(drain["instances"][0]["jobs"][0]["id"], held.id, "{plan}");
    assert!(!lab.try_kiln(&["apply"]).status.success(), "deleting an instance must be agreed to");
    assert!(!state(lab, "extra-1").contains("DRAIN"), "nothing was agreed to");

    // All the rest is done; the node keeps its job, and takes no other.
    up_with_rest(lab, &held.id);
    assert!(state(lab, "extra-1").contains("Reason=kiln: to be removed: no longer in the file"));
    assert!(lab.on("control", &["scontrol", "show", "config"]).contains("KillWait                = 1"));
    assert_eq!(lab.job(&held.id, "JobState"), "RUNNING");
    // Another image may be due elsewhere, so its exit code says nothing here.
    let status = printed(&lab.try_kiln(&["status"]));
    assert!(status.contains("leaving: no longer in the file"), "{status}");
    assert_eq!(lab.on("extra-0", &["getent", "hosts", "extra-1"]).split_whitespace().count(), 3);
    lab.kiln(&["configure"]);
    assert_eq!(
        (lab.job(&held.id, "JobState"), lab.job(&held.id, "Restarts")),
        ("RUNNING".into(), "0".into())
    );

    // It comes back into the file, and into service.
    lab.write_file(&file);
    lab.kiln(&["up"]);
    assert!(!state(lab, "extra-1").contains("DRAIN"), "{}", state(lab, "extra-1"));

    // An administrator's drain is nobody else's to change.
    lab.on("control", &["scontrol", "update", "nodename=extra-1", "state=drain", "reason=fan"]);
    lab.write_file(&smaller);
    up_with_rest(lab, &held.id);
    lab.write_file(&file);
    lab.kiln(&["up"]);
    assert!(state(lab, "extra-1").contains("Reason=fan"), "{}", state(lab, "extra-1"));
    lab.on("control", &["scontrol", "update", "nodename=extra-1", "state=resume"]);

    // Waiting can be ended, and taken up again.
    lab.write_file(&smaller);
    let waiting = format!("extra-1: waiting for job {}", held.id);
    let (code, said) = cut::interrupt(lab, &["up", "--yes", "--wait"], &waiting);
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(lab.job(&held.id, "JobState"), "RUNNING");
    std::thread::scope(|scope| {
        let finished = scope.spawn(|| lab.kiln(&["up", "--yes", "--wait"]));
        wait("the job alone holds the node", || state(lab, "extra-1").contains("DRAIN"));
        Held::let_end(lab);
        finished.join().expect("up ends well");
    });
    held.assert_unharmed(lab);
    assert_eq!(lab.hosts().len(), 5);
    assert!(!lab.on("control", &["scontrol", "show", "node", "--oneliner"]).contains("extra-1"));
    // An image that is due may be noted.
    assert_eq!(lab.json(&["plan"])["actions"], serde_json::json!([]));

    lab.write_file(&file);
    lab.kiln(&["up"]);
}

/// With its partition.
pub fn whole_group_under_a_job(lab: &mut Lab) {
    let file = lab.read_file();
    let held = Held::start(lab, "extra-0");
    let (start, rest) = file.split_once("[compute.extra]\n").expect("the group");
    let (_, end) = rest.split_once("\n[").expect("a table behind it");
    lab.write_file(&format!("{start}[{end}"));
    up_with_rest(lab, &held.id);
    assert_eq!(
        (lab.job(&held.id, "JobState"), lab.job(&held.id, "Restarts")),
        ("RUNNING".into(), "0".into())
    );
    assert!(!lab.on("control", &["scontrol", "show", "node", "--oneliner"]).contains("extra-1"));
    Held::let_end(lab);
    held.assert_unharmed(lab);
    lab.kiln(&["up", "--yes"]);
    assert!(!lab.on("control", &["sinfo", "--noheader"]).contains("extra"));
    lab.write_file(&file);
    lab.kiln(&["up"]);
}

pub fn at_once(lab: &mut Lab) {
    let file = lab.read_file();
    let held = Held::start(lab, "extra-1");
    lab.edit("nodes = \"extra-[0-1]\"", "nodes = \"extra-0\"");
    let asked = printed(&lab.try_kiln(&["up", "--now"]));
    assert!(asked.contains(&format!("with job {}", held.id)), "{asked}");
    lab.kiln(&["up", "--yes", "--now"]);
    assert_eq!(lab.hosts().len(), 5);
    assert!(!lab.on("control", &["scontrol", "show", "node", "--oneliner"]).contains("extra-1"));
    wait("the job does not run", || lab.job(&held.id, "JobState") != "RUNNING");
    lab.as_user("login-0", &format!("scancel {}; rm -f may-end", held.id));
    lab.write_file(&file);
    lab.kiln(&["up"]);
}

pub fn another_flavor(lab: &mut Lab) {
    let file = lab.read_file();
    let held = Held::start(lab, "extra-1");
    lab.edit("nodes = \"extra-[0-1]\"\n", "nodes = \"extra-[0-1]\"\nflavor = \"large\"\n");
    let cpus = |node: &str| {
        let text = state(lab, node);
        text.split(' ').find_map(|word| word.strip_prefix("CPUTot=")).unwrap_or_default().to_string()
    };
    up_with_rest(lab, &held.id);
    assert_eq!((cpus("extra-0").as_str(), cpus("extra-1").as_str()), ("4", "2"));
    assert!(!state(lab, "extra-0").contains("DRAIN"), "{}", state(lab, "extra-0"));
    Held::let_end(lab);
    held.assert_unharmed(lab);
    lab.kiln(&["up", "--yes"]);
    assert_eq!(cpus("extra-1"), "4");
    let id = lab.submit("--nodes=2 --partition=extra --cpus-per-task=4", "true");
    lab.wait_job(&id, "COMPLETED");
    lab.write_file(&file);
    lab.kiln(&["up", "--yes"]);
    assert_eq!(cpus("extra-1"), "2");
}
