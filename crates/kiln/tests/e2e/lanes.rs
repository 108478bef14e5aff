//! Suites side by side: each lane is this program again, on a local cloud of its own.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::lab::cloud_root;
use crate::{Suite, failures, images, leftovers};

/// Says that this run is one lane, named behind it.
pub const FLAG: &str = "--lane";

/// The OpenStack suites' cloud, in which an instance stands in for a server. They may run at the same time.
const NEIGHBOUR: &str = "openstack";

/// Lanes that begin with the images of others, which build them: lane and builders.
const SHARERS: [(&str, &[&str]); 3] =
    [("elastic", &["bookworm"]), ("mixed", &["newer", "bookworm"]), ("site", &["bookworm"])];

pub fn run<'s>(suites: impl Iterator<Item = &'s Suite>) -> ExitCode {
    let mut lanes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for suite in suites {
        lanes.entry(suite.lane).or_default().push(suite.name);
    }
    let mut known: Vec<PathBuf> = lanes.keys().map(|lane| cloud_root().join(lane)).collect();
    let others = leftovers::other_clouds(&known);
    let neighbour = cloud_root().join(NEIGHBOUR);
    let before = leftovers::look_beside(&neighbour);
    known.push(neighbour.clone());
    let running: BTreeMap<&str, AtomicBool> =
        lanes.keys().map(|lane| (*lane, AtomicBool::new(true))).collect();
    let run_lane = |name: &str, suites: &[&str]| {
        if let Some((_, builders)) = SHARERS.iter().find(|(sharer, _)| *sharer == name) {
            let to = cloud_root().join(name);
            let from: Vec<PathBuf> = builders.iter().map(|builder| cloud_root().join(builder)).collect();
            for (builder, from) in builders.iter().zip(&from) {
                let is_building = || running.get(builder).is_some_and(|lane| lane.load(Ordering::Relaxed));
                images::await_default(from, &to, is_building);
            }
            images::share(&from, &to);
        }
        let ended = Lane::start(name, suites).wait();
        running[name].store(false, Ordering::Relaxed);
        ended
    };
    let ended: Vec<Ended> = std::thread::scope(|scope| {
        let run_lane = &run_lane;
        let lanes: Vec<_> =
            lanes.iter().map(|(name, suites)| scope.spawn(move || run_lane(name, suites))).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap_or_default()).collect()
    });
    let mut well = ended.iter().all(|lane| lane.well);
    if others || leftovers::other_clouds(&known) {
        println!("NOT COMPARED: the whole machine before and after, because other local clouds run on it");
    } else {
        let left = leftovers::difference(&before, &leftovers::look_beside(&neighbour));
        well &= left.is_empty();
        println!("left on the machine: {}", if left.is_empty() { "nothing" } else { &left });
    }
    for told in ended.iter().flat_map(|lane| &lane.failures) {
        println!("{told}");
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What has become of a lane, and what it told of its failures.
#[derive(Default)]
struct Ended {
    well: bool,
    failures: Vec<String>,
}

struct Lane {
    name: String,
    start: Instant,
    child: Child,
    /// Ends with what the lane told of its failures.
    printer: JoinHandle<Vec<String>>,
}

impl Lane {
    fn start(name: &str, suites: &[&str]) -> Lane {
        // One pipe for all it prints: lines stay whole and in order.
        let (output, input) = std::io::pipe().expect("a pipe");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([FLAG, name])
            .args(suites)
            .env("KILN_TEST_ROOT", cloud_root().join(name))
            .stdout(input.try_clone().expect("a pipe"))
            .stderr(input)
            .spawn()
            .expect("this program runs again");
        let prefix = format!("{name:>8} | ");
        let printer = std::thread::spawn(move || {
            let mut told = Vec::new();
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                println!("{prefix}{line}");
                if line.starts_with(failures::MARK) {
                    told.push(line);
                }
            }
            told
        });
        Lane { name: name.into(), start: Instant::now(), child, printer }
    }

    fn wait(mut self) -> Ended {
        let status = self.child.wait().expect("the lane ends");
        let mut failures = self.printer.join().unwrap_or_default();
        println!("lane {}: {status} after {} s", self.name, self.start.elapsed().as_secs());
        if !status.success() && failures.is_empty() {
            failures.push(format!("{}lane {}: {status}", failures::MARK, self.name));
        }
        Ended { well: status.success(), failures }
    }
}
