//! GPUs and switches by the keys of the file, in Slurm's own words. Files that are there anyway stand for GPUs.

use crate::change::main_pid;
use crate::lab::{Lab, USER, wait};

pub fn of_the_file(lab: &mut Lab) {
    let file = lab.read_file();
    lab.edit(
        "nodes = \"extra-[0-1]\"\n",
        "nodes = \"extra-[0-1]\"\nswitch = \"core/rack-2\"\n\
         gpus = { type = \"fake\", count = 2, files = \"/dev/null,/dev/zero\" }\n",
    );
    // Without a type.
    lab.edit(
        "nodes = \"standard-[0-1]\"\n",
        "nodes = \"standard-[0-1]\"\nswitch = \"core/rack-1\"\ngpus = { count = 1, files = \"/dev/null\" }\n",
    );
    lab.write_file(&format!(
        "{}\n[accounting]\nmode = \"manage\"\n\n[account.lab]\nmembers = [\"{USER}\"]\nqos = [\"normal\", \"few\"]\n\n\
         [qos.few]\nlimits = {{ MaxTRESPerUser = \"gres/gpu=1\" }}\n",
        lab.read_file()
    ));
    lab.kiln(&["configure"]);
    seen(lab);
    limited(lab);
    moved(lab);
    lab.write_file(&file);
    lab.kiln(&["configure"]);
    lab.on(
        "control",
        &["test", "!", "-e", "/etc/slurm/gres.conf", "-a", "!", "-e", "/etc/slurm/topology.conf"],
    );
}

fn seen(lab: &mut Lab) {
    let gres = |lab: &mut Lab, node: &str| {
        let told = lab.on("control", &["scontrol", "show", "node", "--oneliner", node]);
        told.split_whitespace().find_map(|word| word.strip_prefix("Gres=")).unwrap_or_default().to_string()
    };
    assert_eq!((gres(lab, "extra-1"), gres(lab, "standard-0")), ("gpu:fake:2".into(), "gpu:1".into()));
    let id = lab.submit(
        "--partition=extra --nodelist=extra-1 --gres=gpu:fake:2 --output=gpu.%j",
        "echo device $CUDA_VISIBLE_DEVICES",
    );
    lab.wait_job(&id, "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("cat gpu.{id}")), "device 0,1");
    let accounted = format!("sacct --allusers -nXP -j {id} -o AllocTRES");
    wait("the accounts know of the GPUs", || {
        lab.on("control", &[&accounted]).contains("gres/gpu:fake=2,gres/gpu=2")
    });
    let other = lab.submit("--partition=standard --gres=gpu:1 --output=/dev/null", "true");
    lab.wait_job(&other, "COMPLETED");
}

/// A limit of GPUs holds.
fn limited(lab: &mut Lab) {
    let options = "--qos=few --partition=extra --gres=gpu:1 --mem=10 --time=30 --output=/dev/null";
    let (first, second) = (lab.submit(options, "sleep 600"), lab.submit(options, "sleep 600"));
    lab.wait_job(&first, "RUNNING");
    wait("Slurm says which limit holds the second job", || {
        lab.job(&second, "Reason").starts_with("QOSMaxGRESPerUser")
    });
    lab.as_user("login-0", &format!("scancel {first} {second}"));
}

/// Nodes that are elsewhere are told to Slurm without a restart, under a job.
fn moved(lab: &mut Lab) {
    let switches = |lab: &mut Lab| {
        let told = lab.on("control", &["scontrol", "show", "topology"]);
        let word = |line: &str, key: &str| {
            line.split_whitespace().find_map(|word| word.strip_prefix(key)).unwrap_or_default().to_string()
        };
        assert!(told.contains("SwitchName=core Level=1 "), "{told}");
        let leaves = told.lines().filter(|line| line.contains(" Level=0 "));
        let mut all: Vec<String> =
            leaves.map(|line| format!("{}: {}", word(line, "SwitchName="), word(line, "Nodes="))).collect();
        all.sort();
        all
    };
    assert_eq!(switches(lab), ["rack-1: standard-[0-1]", "rack-2: extra-[0-1]"]);
    let running = lab.submit("--nodes=2 --partition=standard --output=/dev/null", "sleep 600");
    lab.wait_job(&running, "RUNNING");
    let pids = |lab: &mut Lab| {
        (main_pid(lab, "control", "slurmctld.service"), main_pid(lab, "extra-1", "slurmd.service"))
    };
    let before = pids(lab);
    lab.edit(
        "[slurm.config]\n",
        "[compute.extra.override.extra-1]\nswitch = \"core/rack-3\"\n\n[slurm.config]\n",
    );
    lab.kiln(&["configure"]);
    assert_eq!(switches(lab), ["rack-1: standard-[0-1]", "rack-2: extra-0", "rack-3: extra-1"]);
    assert_eq!(pids(lab), before, "nothing was restarted");
    assert_eq!(lab.job(&running, "JobState"), "RUNNING");
    lab.as_user("login-0", &format!("scancel {running}"));
}
