//! Clusters on OpenStack whose machines boot: the real binary against the services of `tests/openstack-vms`, where Nova runs QEMU in
//! software. `OS_CLIENT_CONFIG_FILE` says where they are.
//!
//! Scenarios share one cluster and run in order. Arguments name the suites to run; without one it is the short one.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

#[path = "../../../kiln-cloud/tests/openstack/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "../lab/cluster_dir.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod cluster_dir;
mod control;
mod faults;
mod filer;
mod image;
mod jobs;
mod lab;
#[path = "../lab/project.rs"]
mod project;
mod raise;
mod renewal;
#[path = "../lab/repository.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod repository;
mod services;
mod site;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use lab::{Lab, Site};

type Scenario = (&'static str, fn(&Lab));

struct Suite {
    name: &'static str,
    site: Site,
    scenarios: &'static [&'static [Scenario]],
}

const SHORT: &[Scenario] = &[
    ("an image of the local cloud becomes a disk of the cloud", raise::upload),
    ("from a bare project to nodes in service", raise::up),
    ("a user logs in and runs a job on two nodes", raise::two_node_job),
    ("jobs have their cores and their memory, and no more", jobs::confined),
    ("a login is part of its job", jobs::adopted),
    ("home directories are shared as documented", jobs::homes),
    ("root of a node gets nothing else by NFS", jobs::exports),
    ROLLOUT,
];
const ROLLOUT: Scenario =
    ("a node gets a new image while another comes for a job", renewal::rollout_and_elastic);
const RENEWAL: &[Scenario] = &[ROLLOUT];

const BUILT: Scenario = ("an image is built on a server, and boots as a node", image::built);

const CLOCK: Scenario = ("a clock that is wrong is told", jobs::clock);

const REBUILT: Scenario = ("control gets a new root disk, and keeps what it knew", control::rebuilt);

/// What is lost, and what breaks.
const LONG: &[Scenario] = &[
    ("a job outlives a restart of the NFS server and of control", control::restarted),
    REBUILT,
    ("control is deleted behind Kiln's back, and comes back", control::lost),
    ("a canary that fails goes back to the old root disk", renewal::canary),
    BUILT,
    ("a machine ends under a job", faults::killed),
    ("a machine that the hypervisor cannot start", faults::cannot_start),
    ("nova-compute ends while it replaces a root disk", faults::rebuild_cut_off),
    ("a machine boots while there is no DHCP", faults::without_dhcp),
    (
        "a node without its config drive asks the metadata service, also one that is late",
        faults::without_config_drive,
    ),
];

/// What an administrator wants first, on another release of Slurm and of the system.
const BASIC: &[Scenario] = SHORT.split_at(6).0;

const BOOKWORM: Site = Site { debian: "bookworm", packages: "", cloud: "", file: "", filer: false };
const TRIXIE: Site = Site { debian: "trixie", ..BOOKWORM };
/// As Debian's own cloud images are, with root disks that are volumes, and homes on a file server of the site.
const STOCK: Site = Site {
    packages: "\"cloud-init\", \"netplan.io\"",
    cloud: "root_disk = { size = \"4 GiB\" }\n",
    filer: true,
    ..BOOKWORM
};
/// With what a site has around Slurm.
const AROUND: Site = Site { packages: "\"quota\"", file: site::FILE, ..BOOKWORM };
const SITE: &[Scenario] = &[
    ("time servers, kernel parameters and limits of jobs are in effect", site::settings),
    ("quotas begin while nodes use their homes", site::quotas_begin),
    ("nobody gets above a hard limit, on any node", site::quotas_hold),
    REBUILT,
    ("limits stay when control has a new root disk", site::quotas_stay),
    ("file systems of another server are mounted", site::mounts),
    ("a node starts while its file server is away", site::server_away),
];
const ELSEWHERE: &[Scenario] =
    &[("homes are on a file server of the site, which goes and comes back", jobs::homes_elsewhere)];
/// Also on a root disk that was replaced.
const LAYOUT: &[Scenario] = &[("cloud-init and Kiln each do their part", image::beside_cloud_init), BUILT];

const SUITES: &[Suite] = &[
    Suite { name: "short", site: BOOKWORM, scenarios: &[SHORT] },
    Suite { name: "long", site: BOOKWORM, scenarios: &[SHORT.split_at(3).0, &[CLOCK], LONG] },
    Suite { name: "trixie", site: TRIXIE, scenarios: &[BASIC, LONG, RENEWAL] },
    Suite { name: "stock", site: STOCK, scenarios: &[SHORT.split_at(3).0, ELSEWHERE, RENEWAL, LAYOUT] },
    Suite { name: "site", site: AROUND, scenarios: &[SHORT.split_at(3).0, SITE] },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let names = if arguments.is_empty() { vec!["short".to_string()] } else { arguments };
    if let Some(unknown) = names.iter().find(|name| !SUITES.iter().any(|suite| suite.name == **name)) {
        println!("there is no suite {unknown}");
        return ExitCode::FAILURE;
    }
    let wanted = SUITES.iter().filter(|suite| names.iter().any(|name| name == suite.name));
    let well = wanted.map(run).filter(|well| !well).count() == 0;
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether all went well.
fn run(suite: &Suite) -> bool {
    println!("suite {}", suite.name);
    let lab = Lab::new(suite.site);
    let only = std::env::var("KILN_TEST_ONLY").unwrap_or_default();
    let is_wanted = |name: &str| only.split(',').any(|word| name.contains(word));
    let scenarios = suite.scenarios.iter().copied().flatten().filter(|(name, _)| is_wanted(name));
    let mut well = true;
    for (name, scenario) in scenarios {
        well = attempt(suite, name, || scenario(&lab));
        if !well {
            // The cluster is in an unknown state; later scenarios would only add noise.
            lab.tell();
            break;
        }
    }
    // A cluster that is to stay goes only when that is asked for.
    if lab::kept().is_none() || only.contains("destroy") {
        well &= attempt(suite, "destroy leaves nothing", || raise::destroy(&lab));
    }
    lab.log_out();
    well
}

fn attempt(suite: &Suite, name: &str, scenario: impl FnOnce()) -> bool {
    let start = Instant::now();
    let well = catch_unwind(AssertUnwindSafe(scenario)).is_ok();
    let word = if well { "ok" } else { "FAILED" };
    println!("test {}: {name} ... {word} ({:.0} s)", suite.name, start.elapsed().as_secs_f64());
    well
}
