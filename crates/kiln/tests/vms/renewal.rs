//! Root disks that are replaced, and machines that come and go with the queue.

use serde_json::Value;

use crate::cluster_dir::printed;
use crate::lab::{DISKS, Lab, wait};
use crate::project::openstack;
use crate::raise::Part;

/// As the official client lists it.
pub fn server(node: &str) -> Option<Value> {
    let servers = openstack(&["server list --long"]).remove(0);
    servers.as_array().into_iter().flatten().find(|server| server["Name"] == node).cloned()
}

/// The image that a node's root disk was made of, also if that is a volume, which Nova says nothing of.
pub fn image(node: &str) -> Value {
    let server = server(node).expect("a server");
    let name = &server["Image Name"];
    if !name.as_str().is_some_and(|name| name.contains("volume")) {
        return name.clone();
    }
    let id = server["ID"].as_str().expect("an id");
    let shown = openstack(&[&format!("server show {id}")]).remove(0);
    let volume = shown["volumes_attached"][0]["id"].as_str().expect("a volume").to_string();
    openstack(&[&format!("volume show {volume}")]).remove(0)["volume_image_metadata"]["image_name"].clone()
}

/// A fixed node gets a new root disk through Slurm once its job has ended, while a job runs on its neighbour, and a machine that
/// did not exist boots for another job.
pub fn rollout_and_elastic(lab: &Lab) {
    let mut part = Part::begin();
    assert_eq!(server("burst-0"), None, "nothing runs for nothing");
    let (before, first) = (server("standard-1").expect("a server"), image("standard-1"));
    lab.on("standard-1", "touch /etc/of-the-old-root");
    // The file is there and is opened at each look: of a name that was missing, NFS tells half a minute later.
    let jobs = lab.as_user(
        "sbatch --parsable --nodelist=standard-0 --mem=50 --output=/dev/null --wrap 'sleep 36000'; \
         : >enough; sbatch --parsable --nodelist=standard-1 --mem=50 --no-requeue --output=/dev/null \
         --wrap 'until grep -q x enough; do sleep 1; done'",
    );
    let [lasting, before_it] = jobs.lines().collect::<Vec<_>>()[..] else {
        panic!("sbatch answered {jobs:?}")
    };
    lab.edit("flavor = \"vm.1536.2\"\nimage = \"default\"", "flavor = \"vm.1536.2\"\nimage = \"next\"");
    lab.kiln(&["up", "--yes"]);
    part.end("up with another image in the file");
    // Its machine boots while the other one's disk is replaced.
    let elastic = &lab.as_user(
        "sbatch --parsable --partition=burst --mem=50 --output=burst.out --wrap 'hostname; cat /proc/self/cgroup'",
    );
    lab.kiln(&["rebuild", "--nodes", "standard-1", "--command", "true", "--detach"]);
    let rollout = || {
        let shown = lab.try_kiln(&["--json", "rebuild", "status"]);
        serde_json::from_slice::<Value>(&shown.stdout).unwrap_or_default()
    };
    wait("the rollout waits for the job there", || rollout()["nodes"][0]["step"] == "submitted");
    assert_eq!(lab.as_user(&format!("squeue -ho %T -j {before_it}")), "RUNNING");
    lab.as_user("echo x >enough");
    // Both machines boot by now: the cloud is asked first, which is no work for them.
    wait("the node has its new root disk", || {
        server("standard-1").is_some_and(|server| server["Status"] == "ACTIVE")
            && image("standard-1") == DISKS[1]
    });
    let mut ended = Value::Null;
    wait("the rollout is over", || {
        ended = rollout();
        ended["state"] == "done"
    });
    assert_eq!(ended["nodes"][0]["step"], "done", "{ended}");
    assert_eq!(lab.end_of(before_it), "COMPLETED", "the job that was there first");
    part.end("rollout of one node");
    let after = server("standard-1").expect("a server");
    assert_eq!(after["ID"], before["ID"], "rebuilt in place");
    assert_eq!([first, image("standard-1")], DISKS);
    assert_eq!(after["Networks"], before["Networks"], "the same address");
    lab.on("standard-1", "test ! -e /etc/of-the-old-root");
    assert_eq!(lab.as_user(&format!("squeue -ho %T -j {lasting}")), "RUNNING", "the job beside");
    part.end("looks");

    assert_eq!(lab.end_of(elastic), "COMPLETED", "the job on a node that did not exist");
    part.end("the elastic node, from then on");
    let said = lab.as_user("cat burst.out");
    assert!(said.starts_with("burst-0\n") && said.contains(&format!("job_{elastic}/")), "{said}");
    wait("it is deleted when idle", || server("burst-0").is_none());
    part.end("its end");
    lab.as_user(&format!("scancel {lasting}"));
}

/// Its check fails on the new root disk: it gets the old one back, and nobody else is touched.
pub fn canary(lab: &Lab) {
    let images = || ["standard-0", "standard-1"].map(image);
    let (before, file) = (images(), lab.read_file());
    for node in ["standard-0", "standard-1"] {
        lab.on(node, "touch /etc/of-the-old-root");
    }
    lab.edit("flavor = \"vm.1536.2\"\nimage = \"default\"", "flavor = \"vm.1536.2\"\nimage = \"next\"");
    lab.kiln(&["up", "--yes"]);
    let words = ["rebuild", "--canary", "1", "--halt-after", "1", "--rollback-on-halt", "--check", "false"];
    let refused = lab.try_kiln(&words);
    let said = printed(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("rolled back"), "{said}");
    assert_eq!(images(), before);
    let untouched =
        |node: &&str| lab.try_kiln(&["ssh", node, "test -e /etc/of-the-old-root"]).status.success();
    assert_eq!(["standard-0", "standard-1"].iter().filter(|node| untouched(node)).count(), 1);
    lab.as_user("srun --nodes=2 --mem=50 true");
    lab.write_file(&file);
    lab.kiln(&["up", "--yes"]);
}
