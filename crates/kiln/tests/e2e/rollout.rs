//! New images through the cluster under Slurm's own control.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::lab::{Lab, wait};

pub const COMPUTE: [&str; 4] = ["extra-0", "extra-1", "standard-0", "standard-1"];

/// The cluster file with an extra image that can be told by a file, for compute nodes.
pub fn use_image(lab: &mut Lab, name: &str) {
    let text = lab.read_file();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let section = format!("[image.{name}]");
    if !lines.contains(&section) {
        let command = format!("commands = [\"echo {name} >/etc/which-image\"]");
        lines.splice(0..0, [section, "source = \"default\"".into(), command, String::new()]);
    }
    let mut compute = false;
    for line in &mut lines {
        if line.starts_with('[') {
            compute = line.starts_with("[compute.");
        }
        if compute && line.starts_with("image = ") {
            *line = format!("image = \"{name}\"");
        }
    }
    lab.write_file(&(lines.join("\n") + "\n"));
    lab.kiln(&["up", "--yes"]);
}

pub fn images(lab: &mut Lab) -> BTreeMap<String, String> {
    let hosts = lab.hosts();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    hosts
        .iter()
        .filter(|h| h["role"] == "compute")
        .map(|h| (text(&h["name"]), text(&h["image_id"])))
        .collect()
}

pub fn which_image(lab: &mut Lab, node: &str) -> String {
    lab.on(node, &["sh", "-c", "cat /etc/which-image 2>/dev/null || echo default"])
}

/// Where each node of the newest rollout stands.
pub fn steps(lab: &mut Lab) -> BTreeMap<String, String> {
    let report = lab.json(&["rebuild", "status"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let nodes = report["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().map(|n| (text(&n["node"]), text(&n["step"]))).collect()
}

/// Start and end of jobs by name, from Slurm's accounting, in seconds.
fn records(lab: &mut Lab) -> BTreeMap<String, (i64, i64, String)> {
    let text = lab.on(
        "control",
        &[
            "env",
            "SLURM_TIME_FORMAT=%s",
            "sacct",
            "-aXnP",
            "-S",
            "now-1hour",
            "-o",
            "jobname,start,end,partition,state",
        ],
    );
    let number = |text: &str| text.parse().unwrap_or(-1);
    text.lines()
        .map(|line| line.split('|').collect::<Vec<_>>())
        .filter(|f| f.len() == 5 && f[4] == "COMPLETED")
        .map(|f| (f[0].to_string(), (number(f[1]), number(f[2]), f[3].to_string())))
        .collect()
}

/// The state of a job by its name, as the queue has it now.
fn queued(lab: &mut Lab, name: &str) -> String {
    lab.on("control", &["squeue", "--all", "--noheader", "--format=%T", "--name", name])
}

/// The worked test: user jobs A and B in one partition, rebuild jobs everywhere, job C for either partition.
fn worked(lab: &mut Lab, tag: &str, options: &[&str]) -> BTreeMap<String, (i64, i64, String)> {
    let name = |job: &str| format!("{job}-{tag}");
    let rebuild = format!("rb-{tag}-NODE");
    let of = |node: &str| format!("rb-{tag}-{node}");
    lab.as_user("login-0", "rm -f a-may-end");
    let until_all_wait = "until test -e a-may-end; do sleep 0.2; done; sleep 10";
    lab.submit(&format!("--nodes=2 --exclusive --job-name={}", name("A")), until_all_wait);
    lab.submit(&format!("--nodes=2 --exclusive --job-name={}", name("B")), "sleep 10");
    wait("job A runs", || queued(lab, &name("A")) == "RUNNING");
    assert_eq!(queued(lab, &name("B")), "PENDING");
    let arguments: Vec<&str> =
        ["rebuild", "--detach", "--job-name", &rebuild].into_iter().chain(options.iter().copied()).collect();
    lab.kiln(&arguments);
    for node in ["extra-0", "extra-1"] {
        wait("rebuild jobs begin where nothing runs", || {
            matches!(queued(lab, &of(node)).as_str(), "RUNNING" | "CONFIGURING")
        });
    }
    // They are submitted one after the other, some of them behind the first ones' start.
    for node in ["standard-0", "standard-1"] {
        wait("the other rebuild jobs are submitted", || !queued(lab, &of(node)).is_empty());
        assert_eq!(queued(lab, &of(node)), "PENDING", "{node} waits for job A");
    }
    lab.submit(
        &format!("--nodes=2 --exclusive --partition=standard,extra --job-name={}", name("C")),
        "sleep 1",
    );
    lab.as_user("login-0", "touch a-may-end");
    let watched = lab.watch();
    assert_eq!((&watched["done"], &watched["failed"]), (&4.into(), &0.into()), "{watched}");
    let all = [name("A"), name("B"), name("C")].into_iter().chain(COMPUTE.map(of)).collect::<Vec<_>>();
    wait("every job is in the records", || {
        let seen = records(lab);
        all.iter().all(|job| seen.contains_key(job))
    });
    let seen = records(lab);
    let (a, b, c) = (&seen[&name("A")], &seen[&name("B")], &seen[&name("C")]);
    for node in ["standard-0", "standard-1"] {
        let rebuilt = &seen[&of(node)];
        assert!(a.1 <= rebuilt.0, "{node} is rebuilt after job A: {seen:?}");
        assert!(rebuilt.1 <= b.0, "job B waits for {node}: {seen:?}");
    }
    for node in ["extra-0", "extra-1"] {
        assert!(seen[&of(node)].1 <= c.0, "job C waits for {node}: {seen:?}");
    }
    assert_eq!((a.2.as_str(), b.2.as_str(), c.2.as_str()), ("standard", "standard", "extra"), "{seen:?}");
    seen
}

pub fn worked_without_reboot(lab: &mut Lab) {
    let before = images(lab);
    let seen = worked(lab, "dry", &["--no-reboot", "--force", "--command", "sleep 20"]);
    // Job C comes and goes in the other partition while the first is still at it.
    let last = ["standard-0", "standard-1"].map(|node| seen[&format!("rb-dry-{node}")].1);
    assert!(seen["C-dry"].1 <= last[0].max(last[1]), "{seen:?}");
    assert_eq!(before, images(lab));
}

pub fn worked_with_rebuild(lab: &mut Lab) {
    use_image(lab, "second");
    worked(lab, "real", &[]);
    for node in COMPUTE {
        assert_eq!(which_image(lab, node), "second");
    }
}

const TIERS: &str = "
[partition.standard]
groups = [\"standard\"]
default = true
config = { PriorityTier = 5 }

[partition.extra]
groups = [\"extra\"]
";

/// User jobs run and wait all the while: none fails, none starts again, none sees two images. One of them has asked for the
/// licences that rebuild jobs need, which delays nobody, and those of one partition go before all others but the rebuild.
pub fn under_load(lab: &mut Lab) {
    // Half of the nodes have to wait for the other half.
    lab.edit("name = \"e2e\"\n", "name = \"e2e\"\nconcurrency = 2\n");
    lab.write_file(&format!("{}{TIERS}", lab.read_file()));
    use_image(lab, "third");
    let taker = lab.submit("--licenses=rebuild:2 --nodelist=standard-0 --time=30", "sleep 900");
    lab.wait_job(&taker, "RUNNING");
    assert_eq!(lab.job(&taker, "Licenses"), "rebuild:2");
    let script = "srun cat /etc/which-image; sleep 2";
    let mut jobs = Vec::new();
    for partition in ["standard", "extra"] {
        for _ in 0..5 {
            jobs.push(
                lab.submit(
                    &format!("--nodes=2 --exclusive --partition={partition} --output=load.%j"),
                    script,
                ),
            );
        }
    }
    lab.kiln(&["rebuild", "--detach"]);
    wait("nodes are rebuilt although a user took the licences", || {
        steps(lab).values().any(|step| matches!(step.as_str(), "booting" | "checking" | "done"))
    });
    assert_eq!(lab.job(&taker, "JobState"), "RUNNING", "it lost a licence and nothing else");
    assert!(!lab.job(&taker, "Licenses").contains("rebuild"));
    lab.as_user("login-0", &format!("scancel {taker}"));
    let report = lab.watch();
    assert_eq!((&report["done"], &report["failed"]), (&4.into(), &0.into()), "{report}");
    for node in COMPUTE {
        assert_eq!(which_image(lab, node), "third");
    }
    lab.edit("concurrency = 2\n", "");
    lab.edit(TIERS, "");
    let number =
        |text: String| text.lines().filter_map(|line| line.parse::<i64>().ok()).max().unwrap_or_default();
    let epoch = ["env", "SLURM_TIME_FORMAT=%s", "sacct", "-aXnP", "-S", "now-1hour"];
    let submitted = lab.on("control", &[epoch.as_slice(), &["-r", "rebuild", "-o", "submit"]].concat());
    let submitted = number(submitted);
    for id in &jobs {
        wait("the job is in the records", || {
            lab.as_user("login-0", &format!("sacct -nXP -j {id} -o state")) == "COMPLETED"
        });
        let started = number(lab.on("control", &[epoch.as_slice(), &["-j", id, "-o", "start"]].concat()));
        let output = lab.as_user("login-0", &format!("cat load.{id}"));
        let seen: Vec<&str> = output.lines().collect();
        assert_eq!(seen.len(), 2, "job {id}: {output}");
        assert_eq!(seen[0], seen[1], "job {id} saw two images");
        let waited = started > submitted;
        assert!(!waited || seen[0] == "third", "job {id} overtook a rebuild that waited for its turn");
        let restarts = lab.as_user("login-0", &format!("sacct -nXP --duplicates -j {id} -o state | wc -l"));
        assert_eq!(restarts.trim(), "1", "job {id} was started again");
    }
}

pub fn nothing_to_do(lab: &mut Lab) {
    let output = lab.try_kiln(&["rebuild"]);
    assert!(output.status.success());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("all 4 nodes have their image; there is nothing to do"), "{words}");

    // To the same image: a reboot, which keeps the disk. Also where nobody may submit without an account, or without
    // saying how long a job takes.
    let file = lab.read_file();
    lab.edit("KillWait = 30\n", &format!("KillWait = 30\nAccountingStorageEnforce = \"limits\"\n{PLUGIN}\n"));
    lab.edit("[login.login]\n", &format!("{TIME_REQUIRED}\n[login.login]\n"));
    lab.kiln(&["configure"]);
    let refused = lab.try_as_user("login-0", "sbatch --wrap true");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("say how long your job takes"), "{words}");
    let refused = lab.try_as_user("login-0", "sbatch --time=1 --wrap true");
    assert!(!refused.status.success(), "the user has no account");
    let before = images(lab);
    lab.on("extra-1", &["touch", "/root/on-this-disk", "/run/in-this-boot"]);
    // A limit on how many jobs Slurm's user may have puts the rollout off, and no more.
    let most = |lab: &mut Lab, jobs: &str| {
        let limit = format!("MaxSubmitJobs={jobs}");
        lab.on("control", &["sacctmgr", "--immediate", "modify", "user", "slurm", "set", &limit]);
    };
    most(lab, "0");
    lab.kiln(&["rebuild", "--detach", "--force", "--nodes", "extra-1"]);
    wait("the rollout says that it is put off", || {
        let node = lab.json(&["rebuild", "status"])["nodes"][0].clone();
        let remark = node["remark"].as_str().unwrap_or_default().to_string();
        node["step"] == "pending" && remark.starts_with("Slurm takes no more jobs just now: ")
    });
    most(lab, "-1");
    let report = lab.watch();
    assert_eq!((&report["done"], &report["failed"]), (&1.into(), &0.into()), "{report}");
    assert_eq!(before, images(lab));
    lab.on("extra-1", &["test", "-e", "/root/on-this-disk"]);
    lab.on("extra-1", &["test", "!", "-e", "/run/in-this-boot"]);
    lab.write_file(&file);
    lab.kiln(&["configure"]);
}

const PLUGIN: &str = "JobSubmitPlugins = \"lua\"";
/// The script of docs/cluster-file.md.
const TIME_REQUIRED: &str = r#"[[role.control.file]]
path = "/etc/slurm/job_submit.lua"
content = """
function slurm_job_submit(job, partition, uid)
  if job.time_limit == slurm.NO_VAL then
    slurm.log_user("say how long your job takes: --time")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partition, uid)
  return slurm.SUCCESS
end
"""
"#;

/// A canary that fails its check: everybody else stays as they are, and it goes back.
pub fn canary(lab: &mut Lab) {
    let old = images(lab);
    use_image(lab, "fourth");
    let refused = lab.try_kiln(&[
        "rebuild",
        "--canary",
        "1",
        "--halt-after",
        "1",
        "--rollback-on-halt",
        "--check",
        "false",
    ]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("rolled back"), "{words}");
    assert_eq!(old, images(lab), "every node has its old image");
    let report = lab.json(&["rebuild", "status"]);
    let touched: Vec<&Value> =
        report["nodes"].as_array().expect("nodes").iter().filter(|n| !n["begun"].is_null()).collect();
    assert_eq!(touched.len(), 1, "{report}");
}
