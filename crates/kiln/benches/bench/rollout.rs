//! Rollouts: the reboot hook, one idle node, fifty nodes.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{Lab, wait};
use crate::{Row, seconds};

const NODES: usize = 50;

pub fn rollouts(lab: &mut Lab) -> Vec<Row> {
    let many = format!("standard-[0-{}]", NODES - 1);
    lab.edit(
        "[control]\n",
        "[image.second]\nsource = \"default\"\ncommands = [\"true # second\"]\n\n[control]\n",
    );
    lab.kiln(&["up", "--yes"]);
    let mut rows = Vec::new();
    lab.edit("nodes = \"extra-[0-1]\"\nimage = \"default\"", "nodes = \"extra-[0-1]\"\nimage = \"second\"");
    lab.kiln(&["up", "--yes"]);
    rows.extend(one_node(lab));
    // On a quiet machine, and for nodes that do not exist: the daemon gets a new store afterwards.
    lab.on("control", &["systemctl", "stop", "kilnd"]);
    rows.extend(hook(lab));
    lab.on("control", &["find", "/var/lib/state/kiln-spool", "-name", "*.json", "-delete"]);
    lab.on("control", &["find", "/var/lib/state/kiln", "-name", "store.db*", "-delete"]);
    lab.kiln(&["configure"]);
    lab.on("control", &["systemctl", "start", "kilnd"]);

    lab.edit("standard-[0-1]", &many);
    lab.kiln(&["up", "--yes"]);
    lab.edit(
        &format!("nodes = \"{many}\"\nimage = \"default\""),
        &format!("nodes = \"{many}\"\nimage = \"second\""),
    );
    lab.kiln(&["up", "--yes"]);
    rows.extend(fifty_nodes(lab));
    rows
}

/// One watched rollout: when each node came to each step, from its start.
struct Watched {
    total: Duration,
    steps: Vec<(Duration, String, String)>,
    report: Value,
}

fn watch(lab: &mut Lab, arguments: &[&str]) -> Watched {
    let start = Instant::now();
    let detached: Vec<&str> = ["rebuild", "--detach"].into_iter().chain(arguments.iter().copied()).collect();
    lab.kiln(&detached);
    let mut child =
        lab.kiln_command(&["--json", "rebuild", "watch"]).stdout(Stdio::piped()).spawn().expect("kiln runs");
    let mut steps = Vec::new();
    let mut report = Value::Null;
    for line in BufReader::new(child.stdout.take().expect("standard output")).lines().map_while(Result::ok) {
        let line: Value = serde_json::from_str(&line).expect("JSON lines");
        match (line["node"].as_str(), line["step"].as_str()) {
            (Some(node), Some(step)) => steps.push((start.elapsed(), node.to_string(), step.to_string())),
            _ => report = line,
        }
    }
    let status = child.wait().expect("the child ends");
    assert!(status.success(), "{report}");
    Watched { total: start.elapsed(), steps, report }
}

/// From `kiln rebuild` to idle on the new image, as a job and by draining; and how long Slurm let the node wait.
fn one_node(lab: &mut Lab) -> Vec<Row> {
    let job = watch(lab, &["--nodes", "extra-0", "--command", "true"]);
    // Both by the control node's clock.
    let record = lab.on("control", &["scontrol", "show", "node", "extra-0", "--oneliner"]);
    let started = record.split_whitespace().find_map(|w| w.strip_prefix("SlurmdStartTime="));
    let started = lab.on("control", &["date", "+%s", "--date", started.expect("a time")]);
    let checking = job.report["nodes"][0]["finished"].as_str().expect("a time").to_string();
    let finished = lab.on("control", &["date", "+%s", "--date", &checking]);
    let number = |text: &str| text.parse::<u64>().expect("seconds");
    let sweep = Duration::from_secs(number(&finished).saturating_sub(number(&started)));
    let drain = watch(lab, &["--nodes", "extra-1", "--strategy", "drain"]);
    vec![
        Row {
            what: "one idle node onto a new image, by a job".into(),
            value: seconds(job.total),
            beside: format!("of it {} Slurm's: from slurmd's start to the end of the job", seconds(sweep)),
        },
        Row {
            what: "one idle node onto a new image, by draining".into(),
            value: seconds(drain.total),
            beside: format!(
                "{:.1} times as fast as by a job",
                job.total.as_secs_f64() / drain.total.as_secs_f64()
            ),
        },
    ]
}

/// With user jobs running and waiting all the while.
fn fifty_nodes(lab: &mut Lab) -> Vec<Row> {
    let jobs: Vec<String> = (0..NODES)
        .map(|_| lab.submit("--nodes=2 --partition=standard --output=/dev/null", "sleep 2"))
        .collect();
    let watched = watch(lab, &["--nodes", &format!("standard-[0-{}]", NODES - 1), "--command", "true"]);
    assert_eq!((&watched.report["done"], &watched.report["failed"]), (&NODES.into(), &0.into()));
    let mut now: BTreeMap<&str, bool> = BTreeMap::new();
    let mut peak = 0;
    for (_, node, step) in &watched.steps {
        now.insert(node, matches!(step.as_str(), "rebuilding" | "booting"));
        peak = peak.max(now.values().filter(|busy| **busy).count());
    }
    let list = jobs.join(",");
    let states =
        |lab: &mut Lab| lab.as_user("login-0", &format!("sacct -nXP --duplicates -j {list} -o state"));
    wait("the user jobs are over", || !states(lab).lines().any(|s| matches!(s, "PENDING" | "RUNNING")));
    let states = states(lab);
    let failed = states.lines().filter(|state| *state != "COMPLETED").count();
    let restarted = states.lines().count() - jobs.len();
    vec![
        Row {
            what: format!("a rollout over {NODES} nodes"),
            value: seconds(watched.total),
            beside: format!("at most {peak} rebuilt at a time"),
        },
        Row {
            what: format!("user jobs that failed meanwhile, of {}", jobs.len()),
            value: failed.to_string(),
            beside: format!("{restarted} were started again"),
        },
    ]
}

/// The reboot hook as Slurm calls it, a thousand times, with a thousand nodes in the fleet file.
fn hook(lab: &mut Lab) -> Vec<Row> {
    let text = lab.on("control", &["cat", "/etc/kiln/fleet.json"]);
    let mut fleet: Value = serde_json::from_str(&text).expect("the fleet file");
    let nodes = fleet["nodes"].as_object_mut().expect("nodes");
    let one = nodes.values().next().expect("a node").clone();
    for at in 0..1000 {
        nodes.insert(format!("bench-{at}"), one.clone());
    }
    let names: String = nodes.keys().fold(String::new(), |text, name| text + name + "\n");
    let file = lab.path("for-control");
    for (name, text) in [("nodes", names), ("fleet.json", fleet.to_string())] {
        std::fs::write(&file, text).expect("a file");
        let mut copy = lab.kiln_command(&["ssh", "control", "tee", &format!("/etc/kiln/{name}")]);
        let copied = copy.stdin(std::fs::File::open(&file).expect("the file")).stdout(Stdio::null()).status();
        assert!(copied.expect("kiln runs").success());
    }
    let script = "for i in {0..999}; do a=$EPOCHREALTIME; /usr/local/libexec/kiln/kiln-reboot bench-$i || exit 1; \
                  b=$EPOCHREALTIME; echo $(( ${b/./} - ${a/./} )); done";
    let output = lab.on("control", &["runuser", "-u", "slurm", "--", "bash", "-c", script]);
    let mut times: Vec<u64> = output.lines().filter_map(|l| l.trim().parse().ok()).collect();
    assert_eq!(times.len(), 1000, "{output}");
    times.sort_unstable();
    let at = |part: usize| Duration::from_micros(times[times.len() * part / 1000 - 1]);
    // What starting any program costs here.
    let script = "for i in {0..99}; do a=$EPOCHREALTIME; /bin/true; b=$EPOCHREALTIME; echo $(( ${b/./} - ${a/./} )); done";
    let output = lab.on("control", &["bash", "-c", script]);
    let mut bare: Vec<u64> = output.lines().filter_map(|l| l.trim().parse().ok()).collect();
    bare.sort_unstable();
    let bare = Duration::from_micros(bare[bare.len() / 2]);
    let size = std::fs::metadata(&file).map_or(0, |m| m.len() / 1024);
    vec![
        Row {
            what: "reboot hook, median of 1000 calls, 1000 nodes in the fleet".into(),
            value: seconds(at(500)),
            beside: format!("wanted: less than 20 ms; /bin/true: {}", seconds(bare)),
        },
        Row {
            what: "reboot hook, 99 of 100 calls are faster than".into(),
            value: seconds(at(990)),
            beside: format!("the slowest: {}; fleet file: {size} KiB", seconds(at(1000))),
        },
    ]
}
