//! Root disks that are replaced, and machines that come and go with the queue.

use serde_json::Value;

use crate::lab::{DISKS, Lab, wait};
use crate::project::openstack;
use crate::raise::Part;

fn server(node: &str) -> Option<Value> {
    let servers = openstack(&["server list --long"]).remove(0);
    servers.as_array().into_iter().flatten().find(|server| server["Name"] == node).cloned()
}

/// A fixed node gets a new root disk through Slurm, while a job runs on its neighbour, and a machine that did not exist
/// boots for another job.
pub fn rollout_and_elastic(lab: &Lab) {
    let mut part = Part::begin();
    let before = server("standard-1").expect("a server");
    lab.on("standard-1", "touch /etc/of-the-old-root");
    let jobs = lab.as_user(
        "sbatch --parsable --nodelist=standard-0 --mem=50 --output=/dev/null --wrap 'sleep 36000'; \
         sbatch --parsable --partition=burst --mem=50 --output=burst.out --wrap 'hostname; cat /proc/self/cgroup'",
    );
    let [lasting, elastic] = jobs.lines().collect::<Vec<_>>()[..] else { panic!("sbatch answered {jobs:?}") };
    lab.edit("flavor = \"vm.512.2\"\nimage = \"default\"", "flavor = \"vm.512.2\"\nimage = \"next\"");
    lab.kiln(&["up", "--yes"]);
    part.end("up with another image in the file");
    lab.kiln(&["rebuild", "--nodes", "standard-1", "--command", "true"]);
    part.end("rollout of one node");
    let after = server("standard-1").expect("a server");
    assert_eq!(after["ID"], before["ID"], "rebuilt in place");
    assert_eq!([&before["Image Name"], &after["Image Name"]], DISKS);
    assert_eq!(after["Networks"], before["Networks"], "the same address");
    lab.on("standard-1", "test ! -e /etc/of-the-old-root");
    let state = |id: &str| lab.as_user(&format!("sacct -nXP -j {id} -o state"));
    assert_eq!(state(lasting), "RUNNING", "the job beside");
    part.end("looks");

    wait("the job on a node that did not exist is over", || state(elastic) == "COMPLETED");
    part.end("the elastic node, from then on");
    let said = lab.as_user("cat burst.out");
    assert!(said.starts_with("burst-0\n") && said.contains(&format!("job_{elastic}/")), "{said}");
    wait("it is deleted when idle", || server("burst-0").is_none());
    part.end("its end");
    lab.as_user(&format!("scancel {lasting}"));
}
