//! `kiln up` is killed with SIGKILL at ten different moments, and each time the next one goes on from there.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::lab::Lab;
use crate::leftovers;

/// How often each of two runs is killed before it may come to its end.
const KILLS: usize = 5;

pub fn ten_moments(lab: &mut Lab) {
    // A small cluster: the moments matter here, not the number of nodes.
    let example = lab.example();
    let small = example
        .replace("standard-[0-1]", "standard-0")
        .replace("[compute.extra]\nnodes = \"extra-[0-1]\"\nimage = \"default\"\n\n", "");
    lab.write_file(&small);
    lab.kiln(&["image", "build"]);
    let before = leftovers::look();

    // A whole run tells what there is to say; the moments are spread over it.
    let steps = steps_of_a_run(lab);
    lab.destroy();
    assert!(steps.len() >= 2 * KILLS, "`up` says only {steps:?}");
    for first in 0..2 {
        for kill in 0..KILLS {
            let step = (2 * kill + first) * steps.len() / (2 * KILLS);
            kill_at(lab, &steps, step);
        }
        lab.kiln(&["up", "--yes"]);
        let status = lab.json(&["status"]);
        for node in status["nodes"].as_array().expect("nodes") {
            assert_eq!(node["verdict"], "ok", "{node}");
        }
        lab.destroy();
        leftovers::assert_same(&before);
    }
}

/// The first Ctrl-C lets running operations end and says how to go on.
pub fn interrupted(lab: &mut Lab) {
    let (code, said) = interrupt(lab, &["up", "--yes"], "network e2e: created");
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("stopping after the running operations"), "{said}");
    assert!(said.contains("run the same command again to continue"), "{said}");
    lab.kiln(&["up", "--yes"]);
    let status = lab.json(&["status"]);
    assert!(status["nodes"].as_array().expect("nodes").iter().all(|n| n["verdict"] == "ok"), "{status}");
}

/// Runs `kiln` until it has said something, presses Ctrl-C, and waits for its end: the exit code and all it said.
pub fn interrupt(lab: &Lab, arguments: &[&str], at: &str) -> (Option<i32>, String) {
    let mut child = lab.kiln_command(arguments).stderr(Stdio::piped()).spawn().expect("kiln runs");
    let mut lines = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let mut seen = Vec::new();
    for line in lines.by_ref().map_while(Result::ok) {
        let now = line.contains(at);
        seen.push(line);
        if now {
            break;
        }
    }
    let interrupt = ["-INT".to_string(), child.id().to_string()];
    assert!(std::process::Command::new("kill").args(interrupt).status().expect("kill runs").success());
    seen.extend(lines.map_while(Result::ok));
    (child.wait().expect("the child ends").code(), seen.join("\n"))
}

/// What `up` says on its way, each thing once, without times and numbers.
fn steps_of_a_run(lab: &mut Lab) -> Vec<String> {
    let output = lab.try_kiln(&["up", "--yes"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let mut steps: Vec<String> = Vec::new();
    for step in text.lines().filter_map(step) {
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

fn step(line: &str) -> Option<String> {
    let (_, said) = line.strip_prefix('[')?.split_once("] ")?;
    Some(said.split(',').next().unwrap_or_default().to_string())
}

/// As soon as it comes to a step, or to one behind it where others have done that one before.
fn kill_at(lab: &Lab, steps: &[String], at: usize) {
    let mut child = lab.kiln_command(&["up", "--yes"]).stderr(Stdio::piped()).spawn().expect("kiln runs");
    let mut lines =
        BufReader::new(child.stderr.take().expect("standard error")).lines().map_while(Result::ok);
    let is_due = |said: &String| steps.iter().position(|step| step == said).is_some_and(|place| place >= at);
    let seen = lines.find_map(|line| step(&line).filter(is_due));
    child.kill().expect("the child is ours");
    child.wait().expect("the child ends");
    println!("  killed at: {}", seen.expect("it comes to that"));
}
