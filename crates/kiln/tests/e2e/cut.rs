//! `kiln up` is killed with SIGKILL at ten different moments; each time the next `up` succeeds and `destroy` leaves
//! nothing.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::lab::Lab;
use crate::leftovers;

const MOMENTS: usize = 10;

pub fn ten_moments(lab: &mut Lab) {
    // A small cluster: the moments matter here, not the number of nodes.
    let example = lab.example();
    let small = example
        .replace("standard-[0-1]", "standard-0")
        .replace("[compute.extra]\nnodes = \"extra-[0-1]\"\nimage = \"default\"\n\n", "");
    lab.write_file(&small);
    lab.kiln(&["image", "build"]);
    let before = leftovers::look();

    // A whole run tells how many lines there are; the moments are spread over them.
    let lines = lines_of_a_run(lab);
    lab.destroy();
    assert!(lines >= MOMENTS, "`up` prints only {lines} lines");
    for moment in 0..MOMENTS {
        let after_line = 1 + moment * (lines - 1) / MOMENTS;
        kill_after(lab, after_line);
        lab.kiln(&["up", "--yes"]);
        let status = lab.json(&["status"]);
        for node in status["nodes"].as_array().expect("nodes") {
            assert_eq!(node["verdict"], "ok", "killed after line {after_line}: {node}");
        }
        lab.destroy();
        leftovers::assert_same(&before, &leftovers::look());
        println!("  killed after line {after_line} of {lines}: up and destroy went well");
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

fn lines_of_a_run(lab: &mut Lab) -> usize {
    let output = lab.try_kiln(&["up", "--yes"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text.lines().count()
}

fn kill_after(lab: &Lab, line: usize) {
    let mut child = lab.kiln_command(&["up", "--yes"]).stderr(Stdio::piped()).spawn().expect("kiln runs");
    let lines = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let seen = lines.take(line).count();
    // It may have been quicker than last time; then there is nothing left to kill, which is a moment too.
    child.kill().expect("the child is ours");
    child.wait().expect("the child ends");
    assert!(seen > 0, "kiln said nothing before it was killed");
}
