//! End-to-end tests: the real binary, the local cloud, real Slurm in booted systems.
//!
//! Scenarios of a suite share one cluster and run in order, because creating a cluster takes most of the time. Every suite ends
//! with `destroy` and a look at what is left, also when a scenario failed. Arguments name the suites to run. Suites
//! mostly wait for Slurm, so some of them run side by side.

mod account_limits;
mod accounts;
mod backup;
mod behind;
#[path = "../../../kiln-web/tests/lab/browser.rs"]
#[allow(dead_code, reason = "the tests of the pages use more of it")]
mod browser;
mod change;
mod chaos;
#[path = "../lab/cluster_dir.rs"]
mod cluster_dir;
mod control;
mod cut;
mod daemon;
mod dashboard;
mod directory;
mod disk;
mod documents;
mod el;
mod el_cluster;
mod elastic;
mod examples;
mod failures;
mod gpus;
mod health;
mod image_builds;
mod image_failures;
mod image_life;
mod images;
mod instance;
mod lab;
mod lanes;
mod leftovers;
mod logs;
mod maintenance;
mod monitoring;
mod mounts;
mod oracle;
#[path = "../lab/oracle_login.rs"]
mod oracle_login;
mod pulp;
mod pulp_server;
mod raise;
mod reconcile;
mod region;
mod relay;
mod removal;
#[path = "../lab/repository.rs"]
mod repository;
mod rest;
mod rights;
#[path = "../lab/rights_table.rs"]
mod rights_table;
mod rollout;
mod rpms;
mod search;
mod secrecy;
mod services;
mod site;
mod sleep;
mod slurm_rpms;
mod slurmdbd;
mod steering;
mod terminal;
#[path = "../lab/tmux.rs"]
mod tmux;
mod trouble;
mod upgrade;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use lab::Lab;

type Scenario = (&'static str, fn(&mut Lab));

struct Suite {
    name: &'static str,
    /// The system of the images, Debian's mostly.
    debian: &'static str,
    /// Suites of different lanes run side by side; the lanes take about as long as one another.
    lane: &'static str,
    /// In order, on one cluster.
    scenarios: &'static [&'static [Scenario]],
}

const RAISE: &[Scenario] = &[("from nothing to a two-node job", raise::two_node_job)];

/// New images, each scenario starting from whole nodes in service, whatever their image.
const ROLLOUT: &[Scenario] = &[
    ("rebuild jobs take their turn, without a rebuild", rollout::worked_without_reboot),
    ("rebuild jobs take their turn and rebuild", rollout::worked_with_rebuild),
    ("user jobs come through a rebuild unharmed", rollout::under_load),
    ("to the same image is a reboot, and only on demand", rollout::nothing_to_do),
    ("a canary that fails goes back, the others stay", rollout::canary),
    ("nodes are drained instead", steering::drained),
    ("one at a time, paused, resumed, aborted", steering::paused_and_aborted),
    ("a rollout is steered in a browser", dashboard::in_a_browser),
    ("the dashboard is looked at over the network", dashboard::over_the_network),
    ("a node without its bundle does not join", steering::bundle_missing),
    ("jobs are submitted as a user who may", steering::as_a_user),
];

const TROUBLE: &[Scenario] = &[
    ("a rollout comes through everything being killed", trouble::troubled),
    ("a node that cannot be built is drained and mended", trouble::broken_node),
    ("a node that never boots is drained and mended", trouble::never_boots),
];

/// Where releases of Slurm differ: how jobs have nodes rebooted, and what a restart of slurmctld does to that.
const ROLLOUT_SHORT: &[Scenario] = &[
    ("rebuild jobs take their turn and rebuild", rollout::worked_with_rebuild),
    ("a rollout comes through everything being killed", trouble::troubled),
];

/// What Slurm and the cloud may disagree about.
const RECONCILE: &[Scenario] = &[
    ("fixed and elastic nodes side by side", reconcile::raise),
    ("an instance is deleted behind Slurm's back", reconcile::instance_gone),
    ("a list that lacks instances", reconcile::incomplete_list),
    ("instances that are no node's", reconcile::strays),
    ("nodes that are down without an instance", reconcile::down_without_instance),
    ("instances of nodes that are off", reconcile::left_running),
    ("instances that break or stop", reconcile::broken_or_stopped),
    ("a drain whose reason Slurm has dropped", reconcile::lost_reason),
    ("two instances of one node", reconcile::duplicates),
    ("nodes that get lost on the way", reconcile::lost_on_the_way),
    ("nodes that Slurm gives up", reconcile::given_up),
    ("a node that is to stay up", reconcile::kept_up),
    ("a cloud without room", reconcile::no_room),
    ("a node that never comes up", reconcile::never_comes_up),
    ("nothing is done while Slurm cannot be read", reconcile::unreadable),
    ("what only people can mend is reported", reconcile::reported),
    ("nodes with an older configuration, and a doctor's page", reconcile::drift),
    ("every rule of the table was at work", reconcile::every_rule),
];

/// Where releases of Slurm differ: how a node that is down and off is freed. With what no other suite has.
const RECONCILE_SHORT: &[Scenario] = &[
    ("fixed and elastic nodes side by side", reconcile::raise),
    ("nodes that are down without an instance", reconcile::down_without_instance),
    ("the cluster sleeps and wakes up", sleep::night),
];

const ELASTIC: &[Scenario] = &[
    ("from nothing to a group that is off", elastic::raise),
    ("four nodes appear for a job and go", elastic::grows_and_shrinks),
    ("an administrator's drain outlasts being powered down", elastic::drained),
    ("jobs race with nodes being powered down", elastic::racing),
    ("kilnd is away, and killed ten times", elastic::without_kilnd),
    ("a cloud that is short of room", elastic::short_of_room),
    ("a cloud without room says so at once", elastic::no_room),
];

/// An elastic group whose lines in the file change.
const ELASTIC_CHANGES: &[Scenario] = &[
    ("from nothing to a group that is off", elastic::raise),
    ("a group changes under a job", elastic::changed_under_a_job),
    ("a new image for fixed and elastic nodes", elastic::new_image),
];

/// Where releases of Slurm differ: what they tell the hook, and `--reboot`, which later ones skip for such nodes.
const ELASTIC_SHORT: &[Scenario] = &[
    ("from nothing to a group that is off", elastic::raise),
    ("four nodes appear for a job and go", elastic::grows_and_shrinks),
    ("a new image for fixed and elastic nodes", elastic::new_image),
];

/// The life of a cluster over Oracle's API, with instances that boot.
const ORACLE: &[Scenario] = &[
    ("from an empty compartment to a job", oracle::raise),
    ("up again changes nothing", raise::up_again),
    ("control signs as the instance that it is", oracle::principal),
    ("control is refused what its policy does not give it", oracle::outside_the_policy),
    ("a job wakes nodes, which are terminated when idle", oracle::elastic_nodes),
    ("control is stopped and started again", oracle::control_off),
    ("a new image replaces boot volumes under a job", oracle::new_image),
];

/// What the pages show, on one cluster.
const DOCUMENTS: &[Scenario] = &[
    ("README's session is what is printed", documents::readme),
    ("the sessions of docs/operations.md", documents::operations),
    ("the sessions of docs/rebuild.md", documents::rebuild),
    ("README's end", documents::destroy),
];

/// Everything at once.
const CHAOS: &[Scenario] = &[
    ("a cluster with fixed and elastic nodes", chaos::raise),
    ("an instance that is recreated comes back into service", chaos::recreated),
    ("the judge sees a job that is harmed", chaos::judge_sees),
    ("no job is harmed by a campaign of faults", chaos::campaign),
];

/// What is lost, and what comes back.
const BACKUP: &[Scenario] = &[
    ("a cluster with a past", backup::raise),
    ("a mistake is undone", backup::mistake),
    ("a damaged backup is refused", backup::damaged),
    ("a backup is made while control is configured", backup::configured_meanwhile),
    ("control is lost with its root disk", backup::root_disk_lost),
    ("control is lost with its state volume", backup::state_volume_lost),
    ("two clusters with one slurmdbd", slurmdbd::of_the_site),
];

/// Everything around Slurm, in one cluster.
const SITE: &[Scenario] = &[
    ("everything around Slurm at once", site::raise),
    ("Prometheus has figures of every node", monitoring::figures),
    ("a user of the directory comes, works and goes", directory::comes_and_goes),
    ("keys and rights of a user of the directory", directory::keys_and_rights),
    ("nodes that come and go are asked while they are there", monitoring::elastic_nodes),
    ("a user's job over Slurm's REST API", rest::over_tls),
    ("a user's job by a client that is generated from Slurm's REST API", rest::by_generated_client),
    ("up again changes nothing", raise::up_again),
    ("logins go on while the directory is away", directory::away),
    ("logs reach a server, and an alert is heard of when a node is killed", monitoring::node_killed),
    ("all of it outlives its control node", site::control_lost),
    ("all of it comes through a new image", site::new_image),
    ("a backup has the directory", directory::restored),
    ("secrets of the directory", directory::secrets),
    ("a directory of the site", directory::of_the_site),
    ("up again changes nothing", raise::up_again),
    ("what the file no longer asks for is stopped", monitoring::no_longer_asked_for),
];

/// Without a cluster.
const IMAGE_BUILDS: &[Scenario] = &[
    ("packages from a site's own repository", image_builds::sources),
    ("a step that fails is mended, and packages are fetched once", image_builds::mended),
    ("sets of software, and images upon images", image_builds::software),
];

/// The suite `bookworm` has one step of them.
const IMAGE_FAILURES: &[Scenario] =
    &[("a build that fails leaves nothing, at whichever step", image_failures::at_each_step)];

/// The EL family, with real dnf and rpm, and without a cluster.
const EL: &[Scenario] = &[
    ("an EL image from a signed snapshot, and again from its lock", el::built_from_a_snapshot),
    ("a new kernel of an EL image, and SELinux", el::rebooted),
    ("a Pulp server fetches RPMs", el::synced),
    ("what an EL node is asked", el::asked),
];

/// The EL family with Slurm's own spec file, which takes minutes to build.
const EL_CLUSTER: &[Scenario] = &[
    ("a cluster on EL images with Slurm's own RPMs", el_cluster::raise),
    ("services are those of the RPMs, enabled as Kiln says", el_cluster::services_of_rpms),
    ("jobs on EL nodes, and on Debian's beside them", el_cluster::jobs),
    ("up again changes nothing", raise::up_again),
    ("services that are down are seen", services::down),
    ("a doctor examines the whole cluster", el_cluster::examined),
    ("only users with a job reach a compute node", accounts::compute_access),
    ("a rebooted compute node comes back configured", change::reboot),
    ("a new EL image comes through Slurm", el_cluster::rolled_out),
    ("a lost control node comes back", control::lost),
    ("nodes keep their family", el_cluster::keeps_its_family),
    ("the cluster goes, with its images", el_cluster::end),
];

/// With a real Pulp server, and without a cluster.
const PULP: &[Scenario] = &[
    ("a Pulp server fetches, and its snapshots are written down", pulp::synced),
    ("what goes wrong on a Pulp server is told in words", pulp::failures),
    ("an image sees a later sync when the file says so", pulp::built),
];

const PULP_FAT: &[Scenario] = &[
    ("a fat image from snapshots, one of them guarded (trixie)", pulp::fat_on_trixie),
    ("a fat image from snapshots, one of them guarded (bookworm)", pulp::fat_on_bookworm),
];

/// One cluster after the other.
const EXAMPLES: &[Scenario] = &[
    ("the example of a small lab", examples::small_lab),
    ("the example of a department", examples::department),
    ("the example of a directory", examples::directory),
    ("the example of monitoring", examples::monitoring),
    ("the example of all of it", examples::all_of_it),
];

/// What becomes of images. No cluster is raised.
const IMAGE_LIFE: &[Scenario] = &[
    ("images are compared, promoted and deleted", image_life::compared_and_promoted),
    ("a bill of materials is accepted", image_life::bill_of_materials),
    ("a locked build repeats, and names what is gone", image_life::locked),
];

/// Images that leave the local cloud.
const DISK: &[Scenario] = &[
    ("two exports of an image are the same disk", disk::exported),
    ("an export that ends early leaves nothing", disk::cut_off),
    ("the disk boots by BIOS and reads its config drive", disk::boots_by_bios),
];

const SUITES: &[Suite] = &[
    Suite {
        name: "bookworm",
        debian: "bookworm",
        lane: "bookworm",
        scenarios: &[
            &[("from nothing to a two-node job", raise::watched)],
            &[
                ("secrets are nowhere to be found", secrecy::nowhere),
                ("the share tells a reader nothing", secrecy::sealed_share),
                ("up again changes nothing", raise::up_again),
                ("commands show the cluster", raise::commands),
                ("a jump too far for Slurm is refused", control::too_far),
                ("services that are down are seen", services::down),
                ("a node that is slow to let anybody in", services::slow),
                ("a doctor examines the whole cluster", services::examined),
                ("journals of many nodes are read together", logs::of_many_nodes),
                ("a health check drains and returns nodes", health::drains_and_returns),
                ("a failed image build leaves nothing", raise::failed_build),
                ("a parameter reaches all nodes and kills no job", change::parameter),
                ("a parameter that Slurm does not know changes nothing", change::bad_parameter),
                ("a node that is off keeps nobody from being configured", change::node_off),
                ("gres.conf and topology.conf reach every daemon", change::slurms_other_files),
                ("GPUs and switches of the file, and a limit of GPUs", gpus::of_the_file),
                ("a node that is configured in part does not join", change::configured_in_part),
                ("control without its state volume starts nothing", change::state_volume_missing),
                ("a user comes and leaves", change::user_leaves),
                ("accounts and limits of the file", account_limits::with_a_rollout),
                ("only users with a job reach a compute node", accounts::compute_access),
                ("only root reaches the metadata", accounts::metadata),
                ("every cell of the table of rights", rights::every_cell),
                ("the rights of users", rights::of_users),
                ("the rights of a node's root", rights::of_a_nodes_root),
                ("the local cloud's daemon is killed and comes back", daemon::killed),
                ("the control node's token is good for its cluster alone", daemon::token),
                ("a control node that cannot ask the cloud is told of", daemon::out_of_reach),
                ("rotated secrets reach the nodes", secrecy::rotation),
                ("control is rebuilt under a running and a waiting job", control::rebuilt),
                ("a lost control node comes back", control::lost),
                ("a group shrinks under a job", removal::under_a_job),
                ("a group leaves under a job, with its partition", removal::whole_group_under_a_job),
                ("a node is taken at once, with its job", removal::at_once),
                ("a group changes its flavor under a job", removal::another_flavor),
                ("a volume grows, and does not shrink", change::volume),
                ("the cluster shrinks and grows", change::resize),
                (
                    "a rebooted compute node comes back configured, with the site's mounts",
                    mounts::of_the_site,
                ),
                ("control's image is deleted from the cloud", control::image_deleted),
            ],
        ],
    },
    // What comes first in the last one, the suite `trixie` has.
    Suite {
        name: "rollout",
        debian: "bookworm",
        lane: "mixed",
        scenarios: &[RAISE, ROLLOUT, TROUBLE.split_at(1).1],
    },
    Suite { name: "reconcile", debian: "bookworm", lane: "elastic", scenarios: &[RECONCILE] },
    // A cloud without any room: the suite before it has that, too.
    Suite { name: "elastic", debian: "bookworm", lane: "bookworm", scenarios: &[ELASTIC.split_at(6).0] },
    Suite { name: "elastic-changes", debian: "bookworm", lane: "elastic", scenarios: &[ELASTIC_CHANGES] },
    Suite {
        name: "trixie",
        debian: "trixie",
        lane: "newer",
        scenarios: &[
            RAISE,
            &[
                ("up again changes nothing", raise::up_again),
                ("a parameter reaches all nodes and kills no job", change::parameter),
                ("a node that was too small for slurm.conf comes back", change::drained_for_its_size),
                ("only users with a job reach a compute node", accounts::compute_access),
                ("accounts and limits of the file", account_limits::for_a_while),
                ("control is rebuilt under a running and a waiting job", control::rebuilt),
            ],
            ROLLOUT_SHORT,
        ],
    },
    Suite { name: "images", debian: "trixie", lane: "newer", scenarios: &[IMAGE_BUILDS] },
    Suite {
        name: "upgrade",
        debian: "trixie",
        lane: "newer",
        scenarios: &[
            RAISE,
            &[
                ("an upgrade of Slurm that fails goes back by itself", upgrade::fails),
                ("an upgrade of Slurm under a running and a waiting job, cut off", upgrade::goes_well),
            ],
        ],
    },
    Suite { name: "image-life", debian: "trixie", lane: "newer", scenarios: &[IMAGE_LIFE] },
    Suite {
        name: "forky",
        debian: "forky",
        lane: "newer",
        scenarios: &[RAISE, &[("up again changes nothing", raise::up_again)]],
    },
    Suite { name: "reconcile-trixie", debian: "trixie", lane: "newer", scenarios: &[RECONCILE_SHORT] },
    Suite { name: "elastic-trixie", debian: "trixie", lane: "newer", scenarios: &[ELASTIC_SHORT] },
    Suite { name: "chaos-bookworm", debian: "bookworm", lane: "mixed", scenarios: &[CHAOS] },
    Suite {
        name: "cut",
        debian: "bookworm",
        lane: "bookworm",
        scenarios: &[&[
            ("up is killed at ten moments", cut::ten_moments),
            ("Ctrl-C ends up cleanly", cut::interrupted),
        ]],
    },
    Suite {
        name: "maintenance",
        debian: "bookworm",
        lane: "site",
        scenarios: &[&[
            ("users, limits, a history, and a jump too far", maintenance::raise),
            ("jobs end before a maintenance upgrade", maintenance::jobs_end_first),
            ("a maintenance upgrade, cut off and continued", maintenance::upgraded),
            ("back to the Slurm before a maintenance upgrade", maintenance::back),
        ]],
    },
    Suite { name: "site", debian: "bookworm", lane: "site", scenarios: &[SITE] },
    Suite { name: "oracle", debian: "bookworm", lane: "site", scenarios: &[ORACLE] },
    Suite { name: "readme", debian: "bookworm", lane: "site", scenarios: &[DOCUMENTS] },
    Suite { name: "backup", debian: "bookworm", lane: "site", scenarios: &[BACKUP] },
    Suite { name: "pulp", debian: "trixie", lane: "mixed", scenarios: &[PULP] },
    Suite { name: "el", debian: "bookworm", lane: "mixed", scenarios: &[EL] },
    // Machines that boot on OpenStack show the rest.
    Suite { name: "disk", debian: "bookworm", lane: "mixed", scenarios: &[DISK.split_at(2).0] },
];

/// What takes long: runs only when it is named, or all of it as `long`.
const LONG: &[Suite] = &[
    Suite { name: "chaos-trixie", debian: "trixie", lane: "newer", scenarios: &[CHAOS] },
    Suite { name: "rollout-trixie", debian: "trixie", lane: "mixed", scenarios: &[RAISE, ROLLOUT, TROUBLE] },
    Suite { name: "reconcile-trixie-all", debian: "trixie", lane: "newer", scenarios: &[RECONCILE] },
    Suite {
        name: "elastic-trixie-all",
        debian: "trixie",
        lane: "mixed",
        scenarios: &[ELASTIC, ELASTIC_CHANGES.split_at(1).1],
    },
    Suite { name: "el-cluster", debian: "bookworm", lane: "elastic", scenarios: &[EL_CLUSTER] },
    Suite {
        name: "noble",
        debian: "noble",
        lane: "newer",
        scenarios: &[
            RAISE,
            &[
                ("up again changes nothing", raise::up_again),
                ("commands show the cluster", raise::commands),
                ("only users with a job reach a compute node", accounts::compute_access),
            ],
            ROLLOUT_SHORT,
        ],
    },
    Suite { name: "pulp-fat", debian: "trixie", lane: "mixed", scenarios: &[PULP_FAT] },
    Suite { name: "examples", debian: "bookworm", lane: "site", scenarios: &[EXAMPLES] },
    Suite {
        name: "images-bookworm",
        debian: "bookworm",
        lane: "elastic",
        scenarios: &[IMAGE_BUILDS, IMAGE_FAILURES],
    },
    Suite {
        name: "disk-trixie",
        debian: "trixie",
        lane: "elastic",
        scenarios: &[DISK, &[("the disk boots by EFI and reads its config drive", disk::boots_by_efi)]],
    },
];

/// For daily work: runs only when it is named.
const QUICK: Suite = Suite {
    name: "quick",
    debian: "bookworm",
    lane: "bookworm",
    scenarios: &[RAISE, &[("rebuild jobs take their turn and rebuild", rollout::worked_with_rebuild)]],
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, lane, wanted @ ..] = arguments.as_slice()
        && flag == lanes::FLAG
    {
        return run_all(all().filter(|s| s.lane == lane && wanted.contains(&s.name.into())));
    }
    if arguments == ["long"] {
        return lanes::run(LONG.iter());
    }
    let names: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    if let Some(unknown) = names.iter().find(|name| !all().any(|s| s.name == **name)) {
        let known: Vec<&str> = all().map(|s| s.name).collect();
        println!("there is no suite {unknown}; there are {}", known.join(", "));
        return ExitCode::FAILURE;
    }
    if names.is_empty() {
        return lanes::run(SUITES.iter());
    }
    lanes::run(all().filter(|s| names.iter().any(|name| *name == s.name)))
}

fn all() -> impl Iterator<Item = &'static Suite> {
    SUITES.iter().chain(LONG).chain([&QUICK])
}

fn run_all<'s>(suites: impl Iterator<Item = &'s Suite>) -> ExitCode {
    failures::keep_panics();
    let (mut passed, mut failed) = (0, Vec::new());
    for suite in suites {
        let (p, f) = run(suite);
        passed += p;
        failed.extend(f);
    }
    println!("{passed} passed, {} failed", failed.len());
    print!("{}", failed.concat());
    if failed.is_empty() && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many scenarios passed, and what is to be said of the others.
fn run(suite: &Suite) -> (usize, Vec<String>) {
    println!("suite {}", suite.name);
    let mut lab = Lab::new(suite.debian);
    // A run that was cut off may have left its cluster, which has the same name, and its faults.
    lab::no_more_faults();
    lab.clear();
    let before = leftovers::look();
    let (mut passed, mut failed) = (0, Vec::new());
    // For work on some scenarios: only those whose names have one of these words, behind the raising.
    let only = std::env::var("KILN_TEST_ONLY").unwrap_or_default();
    let is_wanted = |at: usize, name: &str| at == 0 || only.split(',').any(|word| name.contains(word));
    for (at, (name, scenario)) in suite.scenarios.iter().copied().flatten().enumerate() {
        if !is_wanted(at, name) {
            continue;
        }
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| scenario(&mut lab)));
        let seconds = start.elapsed().as_secs_f64();
        let name = format!("{}: {name}", suite.name);
        if outcome.is_err() {
            println!("test {name} ... FAILED ({seconds:.1} s)");
            failed.push(failures::describe(&name));
            lab.tell();
            // The cluster is in an unknown state; later scenarios would only add noise.
            break;
        }
        println!("test {name} ... ok ({seconds:.1} s)");
        passed += 1;
    }
    lab::no_more_faults();
    let end = catch_unwind(AssertUnwindSafe(|| {
        lab.destroy();
        leftovers::assert_same(&before);
    }));
    let name = format!("{}: destroy leaves nothing", suite.name);
    if end.is_ok() {
        println!("test {name} ... ok");
        passed += 1;
    } else {
        println!("test {name} ... FAILED");
        failed.push(failures::describe(&name));
    }
    (passed, failed)
}
