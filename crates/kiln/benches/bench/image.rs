//! `./dev bench image`: a build by steps, beside what is the least for the same packages (mmdebstrap), and beside packer with
//! ansible, which install them into a chroot. All in one run: ratios mean more than seconds.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::lab::{Lab, cloud_root};
use crate::{Row, seconds, timed};

pub fn builds(lab: &mut Lab) -> Vec<Row> {
    // The source image, if that is missing.
    lab.kiln(&["image", "build"]);
    let packages = cloud_root().join("packages");
    let _ = std::fs::remove_dir_all(&packages);
    let cold = build(lab);
    let warm = build(lab);
    let (plain, whole) = lists(lab);
    let dir = tempfile::tempdir_in(cloud_root()).expect("a directory");
    let ((), source) = timed(|| mmdebstrap(lab.suite, &plain, &dir.path().join("plain")));
    let ((), floor) = timed(|| mmdebstrap(lab.suite, &whole, &dir.path().join("whole")));
    let ((), packer) = timed(|| packer(&whole, dir.path(), &dir.path().join("plain")));

    let times = |time: Duration, beside: Duration, what: &str| {
        format!("{:.2} times {what}", time.as_secs_f64() / beside.as_secs_f64())
    };
    let row =
        |what: &str, time: Duration, beside: String| Row { what: what.into(), value: seconds(time), beside };
    let mut rows = vec![
        row("mmdebstrap of all packages of the image", floor, String::new()),
        row("mmdebstrap of the source image, once for all images", source, String::new()),
        row("packer and ansible in a chroot, source image there", packer, times(packer, floor, "mmdebstrap")),
        row(
            "image build, source image there, no package yet",
            cold.all,
            format!(
                "{}, {}; wanted: 1.3 times mmdebstrap or less",
                times(cold.all, floor, "mmdebstrap"),
                times(cold.all, packer, "packer")
            ),
        ),
        row(
            "image build with its source image, no package yet",
            cold.all + source,
            times(cold.all + source, floor, "mmdebstrap"),
        ),
        row(
            "image build, packages there from another build",
            warm.all,
            format!(
                "{}, {}; wanted: half of the first",
                times(warm.all, cold.all, "the first"),
                times(warm.all, floor, "mmdebstrap")
            ),
        ),
    ];
    for ((step, first), (_, second)) in cold.steps.iter().zip(&warm.steps) {
        rows.push(Row {
            what: format!("  {step}"),
            value: format!("{first} s"),
            beside: format!("packages there: {second} s"),
        });
    }
    rows
}

struct Built {
    all: Duration,
    /// With seconds, as they are printed.
    steps: Vec<(String, String)>,
}

fn build(lab: &Lab) -> Built {
    let start = Instant::now();
    let output = lab.kiln_command(&["image", "build", "default", "--force"]).output().expect("kiln runs");
    let all = start.elapsed();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let line = said.lines().find_map(|line| line.split_once("built in ")).expect("the times").1;
    let steps = line.split_once(": ").expect("steps").1.split(", ");
    let step = |text: &str| text.rsplit_once(' ').map(|(step, time)| (step.to_string(), time.to_string()));
    Built { all, steps: steps.filter_map(step).collect() }
}

/// The packages of the image, and those that its source came with.
fn lists(lab: &Lab) -> (Vec<String>, Vec<String>) {
    let shown = lab.json(&["image", "show", "default"]);
    let packages = shown["packages"].as_array().expect("packages");
    let whole = packages.iter().filter_map(|package| package["name"].as_str()).map(String::from).collect();
    let system =
        kiln_spec::System::ALL.into_iter().find(|system| system.name() == lab.suite).expect("a system");
    let bootstrap =
        kiln_distro::Family::of_system(system).bootstrap.as_ref().expect("one of the local cloud's");
    let command = (bootstrap.command)(lab.suite, "");
    let include = command.iter().find_map(|word| word.strip_prefix("--include=")).expect("packages");
    (include.split(',').map(String::from).collect(), whole)
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {said}");
}

fn mmdebstrap(suite: &str, packages: &[String], target: &Path) {
    let include = format!("--include={}", packages.join(","));
    let always = ["--variant=minbase", "--format=directory", "--dpkgopt=force-unsafe-io"];
    run(Command::new("mmdebstrap")
        .args(always)
        .args(["--aptopt=Acquire::Languages \"none\"", &include, suite])
        .arg(target));
}

/// Into a root that is there, as an image build does.
fn packer(packages: &[String], dir: &Path, root: &Path) {
    // Services do not start in it, as in a build.
    std::fs::write(root.join("usr/sbin/policy-rc.d"), "#!/bin/sh\nexit 101\n").expect("written");
    run(Command::new("chmod").arg("755").arg(root.join("usr/sbin/policy-rc.d")));
    let play = serde_json::json!([{ "hosts": "all", "gather_facts": false, "tasks": [
        // Which ansible's module for apt needs.
        { "raw": "apt-get -q update && apt-get -q -y --no-install-recommends install python3-apt" },
        { "apt": { "upgrade": "dist", "install_recommends": false } },
        { "apt": { "name": packages, "install_recommends": false } },
        { "apt": { "clean": true } },
    ]}]);
    std::fs::write(dir.join("play.yml"), play.to_string()).expect("written");
    let line = format!(
        "DEBIAN_FRONTEND=noninteractive ansible-playbook --connection community.general.chroot --inventory {}, {}",
        root.display(),
        dir.join("play.yml").display()
    );
    let template = serde_json::json!({
        "builders": [{ "type": "null", "communicator": "none" }],
        "provisioners": [{ "type": "shell-local", "inline": [line] }],
    });
    std::fs::write(dir.join("template.json"), template.to_string()).expect("written");
    run(Command::new("packer")
        .args(["build", "-color=false"])
        .arg(dir.join("template.json"))
        .env("CHECKPOINT_DISABLE", "1")
        // ansible wants UTF-8, whatever this shell has.
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", dir)
        .current_dir(dir));
}
