//! From nothing to a cluster that runs jobs, and back to nothing.

use std::time::Instant;

use serde_json::Value;

use crate::client::attempt;
use crate::cluster_dir::printed;
use crate::lab::{DISKS, Lab, wait};

/// The image that the end-to-end suites have built, exported once and uploaded under two names: to the cloud these are two images.
pub fn upload(lab: &Lab) {
    forget_disks();
    let disk = lab.path("disk.qcow2").display().to_string();
    let mut part = Part::begin();
    lab.local.kiln(&["image", "build"]);
    part.end("image of the local cloud");
    lab.local.kiln(&["image", "export", "default", "--output", &disk, "--format", "qcow2-zstd"]);
    part.end("export");
    for name in DISKS {
        lab.kiln(&["image", "upload", &disk, "--name", name, "--property", "hw_rng_model=virtio"]);
    }
    part.end("upload of two");
}

pub fn up(lab: &Lab) {
    let mut part = Part::begin();
    let up = lab.try_kiln(&["-v", "up"]);
    let said = printed(&up);
    println!("{said}");
    assert!(up.status.success(), "kiln up ended with {}", up.status);
    part.end("up");
    // Clocks are right some seconds after they have heard of their server.
    wait("every node is well", || all_well(lab));
    // Where people log in is said at the end, and by `status`.
    let address = lab.login_address();
    assert!(said.contains(&format!("login-0 is reached from outside at {address}")), "{said}");
    wait("status shows it", || printed(&lab.try_kiln(&["status"])).contains(&address));
    part.end("status");
}

pub fn all_well(lab: &Lab) -> bool {
    let status = lab.try_kiln(&["--json", "status"]);
    let shown: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
    let nodes = shown["nodes"].as_array().cloned().unwrap_or_default();
    status.status.success() && !nodes.is_empty() && nodes.iter().all(|node| node["verdict"] == "ok")
}

/// An ordinary user logs in where anybody would.
pub fn two_node_job(lab: &Lab) {
    let job = lab.as_user("sbatch --parsable --wait --nodes=2 --output=out.%j --wrap 'srun hostname'");
    assert_eq!(lab.as_user(&format!("sort out.{job}")), "standard-0\nstandard-1");
    assert_eq!(lab.end_of(&job), "COMPLETED");
    let record = lab.as_user(&format!("sacct -nXP -j {job} -o user,partition,nnodes,exitcode"));
    assert_eq!(record, "demo|standard|2|0:0");
}

pub fn destroy(lab: &Lab) {
    let mut part = Part::begin();
    lab.kiln(&["destroy", "--yes"]);
    part.end("destroy");
    forget_disks();
    wait("Nova and Neutron have let go", || lab.leftovers().is_empty());
}

fn forget_disks() {
    for disk in DISKS {
        attempt("demo", &[&format!("image delete {disk}")]);
    }
}

/// How long parts of a scenario take.
pub struct Part(Instant);

impl Part {
    pub fn begin() -> Part {
        Part(Instant::now())
    }

    pub fn end(&mut self, what: &str) {
        println!("  {what}: {:.0} s", self.0.elapsed().as_secs_f64());
        self.0 = Instant::now();
    }
}
