//! `./dev bench`: how long things take on this machine, with the alternative measured in the same run where there is
//! one. Prints a table and judges nothing.

#[path = "../../tests/lab/cluster_dir.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod cluster_dir;
mod elastic;
mod image;
#[path = "../../tests/e2e/instance.rs"]
mod instance;
#[path = "../../tests/e2e/lab.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod lab;
#[path = "../../tests/lab/oracle_login.rs"]
#[allow(dead_code, reason = "only the tests log in there")]
mod oracle_login;
#[path = "../../tests/e2e/pulp_server.rs"]
#[allow(dead_code, reason = "only the tests start one")]
mod pulp_server;
mod reconcile;
#[path = "../../tests/e2e/region.rs"]
#[allow(dead_code, reason = "only the tests start one")]
mod region;
mod rollout;
mod site;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lab::Lab;

/// Measures on a cluster of its own.
type Measure = fn(&mut Lab) -> Vec<Row>;

struct Row {
    what: String,
    value: String,
    beside: String,
}

fn main() {
    // `cargo test --benches` passes no --bench and must not raise clusters.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    println!("\n{:<58}  {:>12}  BESIDE IT", "WHAT", "MEASURED");
    if std::env::args().any(|a| a == "image") {
        return print(&on_a_cluster(image::builds));
    }
    let wanted = |what: &str| !std::env::args().any(|a| a == format!("--skip-{what}"));
    let measures: [(&str, Measure); 4] = [
        ("cluster", cluster),
        ("site", site::site),
        ("rollout", rollout::rollouts),
        ("elastic", elastic::elastic),
    ];
    print(&hostlists());
    print(&large_plan());
    print(&reconcile::look());
    // As soon as they are known: all of it takes long.
    for (name, measure) in measures {
        if wanted(name) {
            print(&on_a_cluster(measure));
        }
    }
}

fn print(rows: &[Row]) {
    for row in rows {
        println!("{:<58}  {:>12}  {}", row.what, row.value, row.beside);
    }
}

/// Nothing of it is left, also when measuring fails.
fn on_a_cluster(measure: Measure) -> Vec<Row> {
    let mut lab = Lab::new("bookworm");
    // A run that was cut off may have left its cluster; it has the same name.
    lab.clear();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| measure(&mut lab)));
    lab.destroy();
    outcome.unwrap_or_else(|_| std::process::exit(1))
}

fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{:.1} ms", time.as_secs_f64() * 1000.0)
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

fn ratio(ours: Duration, theirs: Duration) -> String {
    format!("{:.1} times as fast", theirs.as_secs_f64() / ours.as_secs_f64())
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// 100,000 names, Kiln beside Slurm's own tool.
fn hostlists() -> Vec<Row> {
    let list = "rack[0-9]-node[0-9999]";
    let (names, expand) = timed(|| kiln_spec::hostlist::expand(list).expect("a good list"));
    let (folded, fold) = timed(|| kiln_spec::hostlist::fold(names.iter().map(String::as_str)));
    assert_eq!(names.len(), 100_000);
    assert!(folded.len() < 1000, "{}", folded.len());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let conf = dir.path().join("slurm.conf");
    std::fs::write(&conf, "ClusterName=x\nSlurmctldHost=x\n").expect("a file");
    let (output, theirs) = timed(|| {
        Command::new("scontrol")
            .args(["show", "hostnames", list])
            .env("SLURM_CONF", &conf)
            .output()
            .expect("scontrol")
    });
    assert!(output.status.success());
    let beside = format!("scontrol show hostnames: {}, {}", seconds(theirs), ratio(expand, theirs));
    vec![
        Row { what: "expand 100,000 nodes of a hostlist".into(), value: seconds(expand), beside },
        Row {
            what: "fold 100,000 nodes into a hostlist".into(),
            value: seconds(fold),
            beside: String::new(),
        },
    ]
}

/// `kiln plan` of a cluster with ten thousand nodes: time and memory.
fn large_plan() -> Vec<Row> {
    let lab = Lab::new("bookworm");
    lab.edit("standard-[0-1]", "standard-[0-9999]");
    let start = Instant::now();
    let mut child = lab.kiln_command(&["plan"]).stdout(Stdio::null()).spawn().expect("kiln runs");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("the child is ours").is_none() {
        peak = peak.max(peak_kib(Path::new(&status)));
        std::thread::sleep(Duration::from_millis(1));
    }
    let beside = format!("{} MiB of memory", peak / 1024);
    vec![Row { what: "kiln plan, 10,000 nodes".into(), value: seconds(start.elapsed()), beside }]
}

fn peak_kib(status: &Path) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn cluster(lab: &mut Lab) -> Vec<Row> {
    let (_, source) = timed(|| lab.kiln(&["image", "build"]));
    let (_, build) = timed(|| lab.kiln(&["image", "build", "--force"]));

    let ((), first_job) = timed(|| {
        lab.kiln(&["up"]);
        let output = lab.as_user("login-0", "srun --nodes=2 hostname");
        assert_eq!(output.lines().count(), 2, "{output}");
    });
    let (_, again) = timed(|| lab.kiln(&["up"]));
    let hosts = lab.hosts();
    // What a loop over the nodes costs before it has done anything.
    let ((), one_by_one) = timed(|| {
        for host in &hosts {
            lab.on(host["name"].as_str().expect("a name"), &["true"]);
        }
    });
    lab.edit("KillWait = 30", "KillWait = 31");
    let (_, parameter) = timed(|| lab.kiln(&["configure"]));
    let (_, destroy) = timed(|| lab.kiln(&["destroy", "--yes"]));
    let row = |what: &str, value: Duration, beside: &str| Row {
        what: what.into(),
        value: seconds(value),
        beside: beside.to_string(),
    };
    vec![
        row("image build, with its source image if that is missing", source, ""),
        row("image build, source image there", build, "wanted: 4 min or less"),
        row(
            "kiln up, image there, to the output of a two-node job",
            first_job,
            "wanted: 30 s or less, better 15 s",
        ),
        Row {
            what: "kiln up again, nothing to change".into(),
            value: seconds(again),
            beside: format!("a login on each of {} nodes in a row: {}", hosts.len(), seconds(one_by_one)),
        },
        row("a changed slurm.conf parameter on all nodes", parameter, ""),
        row("kiln destroy", destroy, ""),
    ]
}
