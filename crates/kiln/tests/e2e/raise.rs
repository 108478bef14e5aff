//! Raising a cluster and looking at it.

use crate::lab::{Lab, wait};
use crate::terminal::at_terminal;
use crate::watch::Watch;

/// With an eye on every process meanwhile, for the search for secrets.
pub fn watched(lab: &mut Lab) {
    let watch = Watch::start();
    lab.kiln(&["-v", "up"]);
    lab.arguments = watch.stop();
    serves_jobs(lab);
}

pub fn two_node_job(lab: &mut Lab) {
    lab.kiln(&["-v", "up"]);
    serves_jobs(lab);
}

fn serves_jobs(lab: &mut Lab) {
    let status = lab.json(&["status"]);
    for node in status["nodes"].as_array().expect("nodes") {
        assert_eq!(node["verdict"], "ok", "{node}");
    }
    assert_eq!(status["nodes"].as_array().map(Vec::len), Some(6));

    // Whatever the release and its packages.
    for node in ["control", "login-0", "standard-0"] {
        for user in kiln_site::ServiceUser::ALL {
            let numbers = format!("id -u {0}; id -g {0}", user.name);
            assert_eq!(lab.on(node, &[&numbers]), format!("{0}\n{0}", user.id), "{} on {node}", user.name);
        }
    }

    // Debian builds 26.05 without PMIx.
    let has_pmix = !lab.on("control", &["sinfo --version"]).contains(" 26.05.");
    let mpi = if has_pmix { "pmix" } else { "pmi2" };
    let id = lab.submit("--nodes=2 --output=out.%j", &format!("srun --mpi={mpi} hostname; id -un"));
    lab.wait_job(&id, "COMPLETED");
    // The home directory is shared: what the job wrote on a compute node is read on the login node.
    let output = lab.as_user("login-0", &format!("sort out.{id}"));
    assert_eq!(output, "demo\nstandard-0\nstandard-1");

    let record = |lab: &mut Lab| {
        lab.as_user("login-0", &format!("sacct -nXP -j {id} -o jobid,user,partition,nnodes,state,exitcode"))
    };
    let expected = format!("{id}|demo|standard|2|COMPLETED|0:0");
    wait("sacct has the job", || record(lab) == expected);
}

pub fn up_again(lab: &mut Lab) {
    // A node that came for a job may be about to go.
    wait("nodes that come and go are gone", || {
        !lab.hosts().iter().any(|host| host["group"] == "compute.burst" && !host["instance_id"].is_null())
    });
    let before = lab.json(&["inventory"]);
    let again = lab.json(&["up"]);
    assert_eq!(again["plan"]["actions"].as_array().map(Vec::len), Some(0), "{}", again["plan"]);
    for (node, report) in again["configured"]["nodes"].as_object().expect("nodes") {
        for resource in report["resources"].as_array().expect("resources") {
            assert_eq!(resource["outcome"], "unchanged", "{node}: {resource}");
        }
    }
    assert_eq!(before, lab.json(&["inventory"]));
    assert!(lab.kiln(&["configure", "--dry-run"]).contains("nothing would change"));
}

pub fn commands(lab: &mut Lab) {
    let plan = lab.kiln(&["plan", "--detailed-exitcode"]);
    assert!(plan.contains("Nothing to do"), "{plan}");

    // What takes data with it is not agreed to by habit.
    for typed in ["yes\n", "\n"] {
        let said = at_terminal(lab, &["destroy"], &[typed]);
        assert!(said.contains("Type the name of the cluster, e2e, to continue"), "{said}");
        assert!(said.contains("nothing was changed"), "{said}");
    }

    let hosts = lab.kiln(&["exec", "--role", "compute", "hostname"]);
    let mut lines: Vec<&str> = hosts.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["extra-0: extra-0", "extra-1: extra-1", "standard-0: standard-0", "standard-1: standard-1"]
    );
    assert!(!lab.try_kiln(&["exec", "--nodes", "standard-[0-1]", "false"]).status.success());
    let unknown = lab.try_kiln(&["exec", "--nodes", "nobody", "true"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no node nobody"));

    let control = lab.host("control");
    let ansible = lab.kiln(&["inventory", "--ansible"]);
    for key in ["instance_id", "image_id"] {
        let line = format!("{key}: {}", control[key]);
        assert!(ansible.contains(&line), "{line} is not in\n{ansible}");
    }

    let images = lab.json(&["image", "list"]);
    let name = images[0]["name"].as_str().expect("an image").to_string();
    let manifest = lab.json(&["image", "show", &name]);
    let packages = manifest["packages"].as_array().expect("packages");
    assert!(packages.iter().any(|p| p["name"] == "slurmctld"), "slurmctld is not in the manifest");
    assert_eq!(manifest["recipe"].as_str().map(str::len), Some(64));
    assert!(lab.kiln(&["image", "check", &name]).contains("clean and complete"));
    // An unchanged recipe is not built again.
    let built = lab.json(&["image", "build"]);
    assert_eq!(built[0]["id"], lab.host("control")["image_id"]);

    // Uptime is the instance's own, not the host's.
    let uptime = lab.on("standard-0", &["cat", "/proc/uptime"]);
    let uptime: f64 = uptime.split(' ').next().and_then(|t| t.parse().ok()).expect("an uptime");
    let host = std::fs::read_to_string("/proc/uptime").expect("an uptime");
    let host: f64 = host.split(' ').next().and_then(|t| t.parse().ok()).expect("an uptime");
    assert!(uptime < host, "{uptime} is not younger than the host's {host}");
}

/// A build that fails says why, leaves nothing, and harms nobody.
pub fn failed_build(lab: &mut Lab) {
    let before = lab.json(&["image", "list"]);
    let file = lab.read_file();
    lab.edit(
        "[control]\n",
        "[image.broken]\nsource = \"default\"\npackages = [\"no-such-package\"]\n\n[control]\n",
    );
    let failed = lab.try_kiln(&["image", "build", "broken"]);
    let words = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{words}");
    assert!(words.contains("Unable to locate package no-such-package"), "{words}");
    assert!(words.contains("systemd"), "the console is shown: {words}");
    assert_eq!(before, lab.json(&["image", "list"]));
    lab.write_file(&file);

    lab.edit("[control]\n", "[image.long]\nsource = \"default\"\ncommands = [\"sleep 600\"]\n\n[control]\n");
    let (code, said) = crate::cut::interrupt(lab, &["image", "build", "long"], "running: sleep 600");
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(before, lab.json(&["image", "list"]));
    lab.write_file(&file);
}
