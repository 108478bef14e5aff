//! A campaign: users' jobs, an elastic group and rollouts, and a seeded stream of faults over all of it. After every fault and at
//! the end a judge that knows nothing of Kiln asks whether anybody was harmed.
//!
//! One kind is missing: the clock of a single node cannot jump, because all nodes of the local cloud share one kernel's clock.
//!
//! `KILN_CHAOS_SEED` and `KILN_CHAOS_FAULTS` choose the campaign; `./dev chaos` sets them.

mod checker;
mod faults;
mod load;
mod random;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use checker::{Excuses, now};
use load::Load;
use random::Random;
use serde_json::Value;

use crate::behind::cloud;
use crate::instance;
use crate::lab::{Lab, USER, no_more_faults};

const NODES: &[&str] = &["standard-0", "standard-1", "standard-2", "burst-0", "burst-1", "burst-2"];
const FIXED: usize = 3;
const IMAGES: &[&str] = &["default", "second"];
/// Seconds within which Slurm writes its state down. What is younger when it is killed may be forgotten.
const SAVED_WITHIN: i64 = 10;
/// What is on control's state volume: kilnd's store, requests of Slurm's hooks, slurmctld's state.
const STATE: &[&str] = &["/var/lib/state/kiln", "/var/lib/state/kiln-spool", "/var/lib/state/slurmctld"];
/// Where the hooks turn to if that is full.
const ROOT: &[&str] = &["/var/spool/kiln"];
/// A job that runs for so much longer than it was to, in seconds, has ended and is not known to have.
const OVERDUE: i64 = 60;
/// For a run of Kiln while the faults go on.
const IMPATIENCE: Duration = Duration::from_secs(20);
/// For the queue to end, or the cluster to heal.
const PATIENCE: Duration = Duration::from_secs(900);

struct Drain {
    reason: String,
    at: i64,
}

/// What ended Slurm's controller, and what kept it from writing.
#[derive(Default)]
struct Controller {
    /// When it was killed or restarted last.
    ended: Option<i64>,
    /// When its disk was full last.
    full: Option<(i64, i64)>,
}

pub struct Campaign<'l> {
    lab: &'l Lab,
    random: Random,
    /// The fault under way.
    at: u64,
    excuses: Excuses,
    /// An administrator's drains, by node.
    drains: BTreeMap<String, Drain>,
    controller: Controller,
    /// A run of Kiln beside everything else.
    kiln: Option<Child>,
}

/// Three fixed nodes and three that come and go, and another image to go to.
pub fn raise(lab: &mut Lab) {
    let text = lab
        .example()
        .replace("standard-[0-1]", "standard-[0-2]")
        .replace(
            "[compute.extra]\nnodes = \"extra-[0-1]\"\n",
            "[compute.burst]\nnodes = \"burst-[0-2]\"\nelastic = { idle = \"20s\" }\n",
        )
        .replace(
            "KillWait = 30\n",
            "KillWait = 30\nSuspendTimeout = 10\nResumeTimeout = 120\nSlurmdTimeout = 60\nReturnToService = 1\n",
        );
    let second = "[image.second]\nsource = \"default\"\ncommands = [\"echo second >/etc/which-image\"]\n\n";
    lab.write_file(&format!(
        "{second}{text}\n[reconcile]\nevery = \"2s\"\ngrace = \"6s\"\nnewcomer = \"20s\"\npause = \"20s\"\nfailures = 3\n"
    ));
    lab.kiln(&["image", "build", "second"]);
    lab.kiln(&["up"]);
    small_disks(lab);
}

/// What is to be filled gets file systems of its own: a volume of the local cloud is a directory of the host, and so is a root disk.
fn small_disks(lab: &Lab) {
    let services = ["kilnd", "slurmctld"];
    lab.on("control", &[&["systemctl", "stop"], &services[..]].concat());
    for (at, place) in STATE.iter().chain(ROOT).enumerate() {
        let kept = format!("/var/tmp/kept-{at}");
        lab.on("control", &["cp", "--archive", place, &kept]);
        lab.on("control", &["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place]);
        lab.on("control", &["cp", "--archive", "--no-target-directory", &kept, place]);
    }
    lab.on("control", &[&["systemctl", "start"], &services[..]].concat());
}

/// With `ReturnToService=1` Slurm keeps a node down that boots without having been asked to, as a new instance does. A wait of
/// `kiln up` for the nodes ends well only if somebody puts it back.
pub fn recreated(lab: &mut Lab) {
    let id = instance::id_of("standard-0").expect("an instance");
    cloud(async |cloud| cloud.delete(&id).await);
    lab.kiln(&["up", "--yes"]);
    let shown =
        lab.on("control", &["sinfo", "-h", "-N", "-n", "standard-0", "-p", "standard", "-o", "%t %E"]);
    assert_eq!(shown, "idle none");
}

/// A judge who sees nothing is worth nothing: a job whose instance is taken away without an excuse is told, twice over.
pub fn judge_sees(lab: &mut Lab) {
    let since = now();
    let job = lab
        .submit("--job-name=once --no-requeue --partition=burst --nodes=1 --output=/dev/null", "sleep 600");
    lab.wait_job(&job, "RUNNING");
    // Seconds are all that the accounts know.
    until("the job has begun some seconds ago", || {
        now() > since + 3 && lab.job(&job, "RunTime").as_str() > "00:00:03"
    });
    let node = lab.job(&job, "NodeList");
    let id = instance::id_of(&node).expect("an instance");
    cloud(async |cloud| cloud.delete(&id).await);
    let deleted = now();
    until("the job has lived on for some seconds", || now() > deleted + 2);
    // Slurm would notice after its timeout.
    let update = |words: &[&str]| {
        lab.on("control", &[&["scontrol", "update", &format!("nodename={node}")], words].concat());
    };
    update(&["state=down", "reason=gone"]);
    until("Slurm knows that the job is lost", || lab.job(&job, "JobState") == "NODE_FAIL");
    let submitted = [(job.clone(), since), ("999999".to_string(), since)];
    until("the judge sees a harmed job, a lost one, and the instance that went", || {
        let wrong = checker::judge(lab, since, &submitted, &Excuses::default());
        ["was harmed", "job 999999 is in no account", "delete of"]
            .iter()
            .all(|what| wrong.iter().any(|w| w.contains(what)))
    });
    let wrong = checker::judge_so_far(lab, since, &Excuses::default());
    assert!(
        ["was harmed", "delete of"].iter().all(|what| wrong.iter().any(|w| w.contains(what))),
        "{wrong:?}"
    );
    let excuses = Excuses { jobs: [job].into(), ..Excuses::default() };
    assert_eq!(checker::judge(lab, since, &submitted[..1], &excuses), Vec::<String>::new());
    update(&["state=resume"]);
    update(&["state=POWER_DOWN_FORCE"]);
    until("the node may be used again", || {
        lab.on("control", &["sinfo", "-h", "-N", "-n", &node, "-p", "burst", "-o", "%t"]) == "idle~"
    });
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

pub fn campaign(lab: &mut Lab) {
    let (seed, faults) = (number("KILN_CHAOS_SEED", 1), number("KILN_CHAOS_FAULTS", 30));
    println!("     seed {seed}, {faults} faults");
    let (since, before) = (now(), checker::resources());
    // The same seed brings the same faults, whatever becomes of them.
    let mut random = Random::new(seed);
    let mut campaign = Campaign {
        lab,
        random: random.fork(),
        at: 0,
        excuses: Excuses::default(),
        drains: BTreeMap::new(),
        controller: Controller::default(),
        kiln: None,
    };
    let mut load = Load::new();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut pile = Vec::new();
    for at in 1..=faults {
        campaign.at = at;
        campaign.random = random.fork();
        load.top_up(lab, &mut campaign.random.fork());
        let (name, fault) = random.draw(&mut pile, faults::FAULTS);
        *kinds.entry(name).or_default() += 1;
        let start = Instant::now();
        let what = fault(&mut campaign);
        println!(
            "     {at:3} after {:4} s: {name} {what} ({:.0} s)",
            now() - since,
            start.elapsed().as_secs_f64()
        );
        campaign.look(since);
        let rest = random.between(500, 4000);
        std::thread::sleep(Duration::from_millis(rest));
    }
    campaign.heal(since);
    load.end();
    let wrong = checker::judge(lab, since, &load.submitted, &campaign.excuses);
    assert!(wrong.is_empty(), "seed {seed}, {faults} faults:\n{}", wrong.join("\n"));
    assert_eq!(checker::resources(), before, "seed {seed}, {faults} faults");
    for (kind, times) in kinds {
        println!("     {times:3} x {kind}");
    }
    println!("     {} in {} s", checker::count(lab, since, &campaign.excuses), now() - since);
}

impl Campaign<'_> {
    /// After each fault: nobody was harmed so far, an administrator's drains stand, and no node has two instances.
    fn look(&self, since: i64) {
        self.cancel_ghosts();
        self.release_held();
        let wrong = checker::judge_so_far(self.lab, since, &self.excuses);
        assert!(wrong.is_empty(), "fault {}:\n{}", self.at, wrong.join("\n"));
        for node in NODES {
            let many = checker::instances().get(*node).copied().unwrap_or(0);
            assert!(many < 2, "fault {}: {node} has {many} instances", self.at);
        }
        for (node, Drain { reason, .. }) in &self.drains {
            // A node that registers after Slurm forgot that it was powering up stays drained, but loses its reason.
            if let Some((state, why)) = self.state_of(node) {
                assert!(
                    state.contains("DRAIN") && (why.contains(reason.as_str()) || why.is_empty()),
                    "fault {}: {node} was drained for {reason:?} and is {state} for {why:?}",
                    self.at
                );
            }
        }
    }

    /// All flags of a node, of which `sinfo` shows one, and its reason. `None`: Slurm does not answer.
    fn state_of(&self, node: &str) -> Option<(String, String)> {
        let words = ["timeout", "10", "scontrol", "--oneliner", "show", "node", node];
        let shown = self.lab.try_on("control", &words);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let after = |key: &str| shown.split_once(key).map(|(_, rest)| rest.trim().to_string());
        let state = after(" State=")?.split(' ').next()?.to_string();
        Some((state, after(" Reason=").unwrap_or_default()))
    }

    /// A job whose end slurmctld did not write down before it ended runs on for Slurm, until its node next registers with all
    /// it has: at every twentieth ping, which takes half an hour by default. Somebody in front of `srun` is never asked. So an
    /// administrator cancels what cannot be; the judge knows when it should have ended.
    fn cancel_ghosts(&self) {
        let Some(ended) = self.controller.ended else { return };
        let fields = "%i %S %j";
        let words = ["timeout", "10", "env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-r", "-t", "R", "-o"];
        let shown = self.lab.try_on("control", &[&words[..], &[fields]].concat());
        for line in String::from_utf8_lossy(&shown.stdout).lines() {
            let mut parts = line.splitn(3, ' ');
            let (Some(id), Some(Ok(began)), Some(name)) =
                (parts.next(), parts.next().map(str::parse::<i64>), parts.next())
            else {
                continue;
            };
            let (_, seconds) = load::read_name(name);
            if began < ended && began + seconds.unwrap_or(0) + OVERDUE < now() {
                println!("         job {id} ({name}) ended, and Slurm forgot it: cancelled");
                self.lab.try_on("control", &["timeout", "10", "scancel", id]);
            }
        }
    }

    /// A slurmctld that was killed while it launched a job launches it again; the node refuses that, and Slurm holds the job until
    /// somebody releases it.
    fn release_held(&self) {
        let words = ["timeout", "10", "squeue", "-h", "-r", "-t", "PD", "-o", "%i %r"];
        let shown = self.lab.try_on("control", &words);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        for (id, why) in shown.lines().filter_map(|line| line.split_once(' ')) {
            if why.contains("requeued held") {
                println!("         job {id} is held ({why}): released");
                self.lab.try_on("control", &["timeout", "10", "scontrol", "release", id]);
            }
        }
    }

    /// Jobs that are on a node now, which is about to be taken away.
    fn excuse_jobs_on(&mut self, node: &str) {
        let words =
            ["timeout", "10", "squeue", "-h", "-r", "-w", node, "-u", USER, "-t", "R,CF,CG,S", "-o", "%i"];
        let shown = self.lab.try_on("control", &words);
        let ids = String::from_utf8_lossy(&shown.stdout).into_owned();
        self.excuses.jobs.extend(ids.lines().map(String::from));
        if !shown.status.success() {
            // Nobody can say who is there.
            self.excuses.starts.push((node.into(), now() - 60, now()));
        }
    }

    fn excuse_starts(&mut self, node: &str, from: i64, to: i64) {
        self.excuses.starts.push((node.into(), from, to));
    }

    fn choose_image(&self, name: &str) {
        let mut compute = false;
        let line = |line: &str| {
            if line.starts_with('[') {
                compute = line.starts_with("[compute.");
            }
            let chosen = compute && line.starts_with("image = ");
            if chosen { format!("image = \"{name}\"\n") } else { format!("{line}\n") }
        };
        self.lab.write_file(&self.lab.read_file().lines().map(line).collect::<String>());
    }

    /// Starts a run of Kiln and goes on.
    fn kiln_beside(&mut self, words: &[&str]) {
        self.end_kiln();
        let mut command: Command = self.lab.kiln_command(words);
        self.kiln = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("kiln runs"));
    }

    fn signal_kiln(&mut self, signal: &str) {
        let is_running = self.kiln_runs();
        if let Some(child) = self.kiln.as_ref().filter(|_| is_running) {
            let _ = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        }
    }

    fn kiln_runs(&mut self) -> bool {
        self.kiln.as_mut().is_some_and(|child| child.try_wait().expect("kiln ends").is_none())
    }

    /// Whoever runs it has better things to do than to wait for nodes that do not come.
    fn end_kiln(&mut self) {
        // The second signal ends it at once.
        for signal in [None, Some("INT"), Some("INT")] {
            if let Some(signal) = signal {
                self.signal_kiln(signal);
            }
            let start = Instant::now();
            let patience = if signal.is_some() { IMPATIENCE / 4 } else { IMPATIENCE };
            while self.kiln_runs() && start.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        if let Some(mut child) = self.kiln.take() {
            let status = child.wait().expect("kiln ends");
            assert_ne!(status.code(), Some(101), "fault {}: kiln panicked", self.at);
        }
    }

    /// The faults are over, the administrator takes back what was set, and the cluster must come to rest.
    fn heal(&mut self, since: i64) {
        no_more_faults();
        self.end_kiln();
        let mut drained_last = std::mem::take(&mut self.drains);
        until("an administrator has resumed all that was drained", || {
            let shown = self.lab.try_on("control", &["sinfo", "-h", "-N", "-p", "rebuild", "-o", "%N|%E"]);
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            let drained: Vec<&str> = (shown.lines().filter_map(|line| line.split_once('|')))
                .filter(|(node, why)| why.starts_with("bad fan") || drained_last.contains_key(*node))
                .map(|(node, _)| node)
                .collect();
            for node in &drained {
                self.lab
                    .try_on("control", &["scontrol", "update", &format!("nodename={node}"), "state=resume"]);
            }
            let is_resumed = drained.is_empty() && !shown.is_empty();
            if !shown.is_empty() {
                drained_last.clear();
            }
            is_resumed
        });
        until("no rollout is under way", || {
            self.cancel_ghosts();
            let status = self.lab.try_kiln(&["--json", "rebuild", "status"]);
            let report: Option<Value> = serde_json::from_slice(&status.stdout).ok();
            // There may have been none at all.
            let closed = ["done", "halted", "aborted", "rolled_back"];
            let nothing = String::from_utf8_lossy(&status.stderr).contains("no rollout");
            nothing
                || report.is_some_and(|r| r["state"].as_str().is_some_and(|state| closed.contains(&state)))
        });
        // A node may be on its way through a reboot that an administrator has asked for.
        until("`kiln up` goes well", || self.lab.try_kiln(&["up", "--yes"]).status.success());
        self.lab.try_kiln(&["rebuild"]);
        let queue = ["squeue", "-h", "-r", "-o", "%i %j %T %r %N"];
        // Slurm lets a job that was requeued wait for two minutes.
        until("the queue is empty", || {
            self.cancel_ghosts();
            self.release_held();
            self.lab.on("control", &queue).is_empty()
        });
        let states = ["sinfo", "-h", "-N", "-p", "standard,burst", "-o", "%N %t %E"];
        until("all nodes are in service", || {
            let shown = self.lab.on("control", &states);
            // A rollout may have ended with a node that did not come back, which came back later: its reason says what to do.
            if shown.contains(" kiln: rollout ") {
                self.lab.try_kiln(&["rebuild"]);
            }
            shown.lines().all(|line| line.ends_with(" none") && line.contains(" idle"))
        });
        until("what is off has no instance, and what is on has one", || {
            let there = checker::instances();
            let fixed = NODES[..FIXED].iter().all(|node| there.get(*node) == Some(&1));
            let elastic = NODES[FIXED..].iter().all(|node| !there.contains_key(*node));
            fixed && elastic && there.len() == FIXED + 2
        });
        println!("     at rest after {} s", now() - since);
    }
}

impl Drop for Campaign<'_> {
    fn drop(&mut self) {
        no_more_faults();
        if let Some(mut child) = self.kiln.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// As [`crate::lab::wait`], with the patience that a hurt cluster needs.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_secs(1));
    }
}
