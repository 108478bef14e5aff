//! What a cluster could leave on its host: mounts, namespaces, links, cgroups, nftables rules, processes, folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::lab::cloud_root;

/// What belongs to this process's cloud: all of it names the cloud's folder or carries the name it has on the host.
pub fn look() -> BTreeSet<String> {
    let root = cloud_root();
    let is_ours = belongs_to(&root);
    let mut all = look_at_host();
    all.retain(|entry| is_ours(entry));
    for kind in ["instances", "volumes"] {
        all.extend(entries(&root.join(kind)).map(|path| format!("folder: {path}")));
    }
    all
}

/// Everything on this machine but what belongs to a cloud that may be at work beside. It needs the kernel's settings for
/// as long as it is.
pub fn look_beside(neighbour: &Path) -> BTreeSet<String> {
    let is_theirs = belongs_to(neighbour);
    let mut all = look_at_host();
    let at_work = all.iter().any(|entry| is_theirs(entry));
    all.retain(|entry| !is_theirs(entry) && (!at_work || !entry.starts_with("setting: ")));
    all
}

fn belongs_to(root: &Path) -> impl Fn(&str) -> bool {
    let folder = root.display().to_string();
    let name = kiln_cloud::local::name_on_host(root);
    move |entry| entry.contains(&folder) || entry.contains(&name)
}

/// Everything on this machine, whoever's it is.
fn look_at_host() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut add =
        |kind: &str, text: String| all.extend(text.lines().map(|l| format!("{kind}: {}", l.trim())));
    add("namespace", run(&["ip", "netns", "list"]));
    add("link", links().join("\n"));
    add("rule", rules());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|l| l.split(' ').nth(4));
    // The first `ip netns add` since the machine's boot makes this one, for all that follow.
    let points: Vec<&str> = points.filter(|point| *point != "/run/netns").collect();
    add("mount", points.join("\n"));
    add("cgroup", cgroups().join("\n"));
    add("process", processes().join("\n"));
    for setting in ["net/ipv4/ip_forward", "fs/inotify/max_user_instances", "fs/inotify/max_user_watches"] {
        let value = std::fs::read_to_string(Path::new("/proc/sys").join(setting)).unwrap_or_default();
        add("setting", format!("{setting} {value}"));
    }
    all
}

/// What is about to end may take a moment; a daemon that nobody ended would stay for longer.
pub fn assert_same(before: &BTreeSet<String>) {
    let start = Instant::now();
    loop {
        let left = difference(before, &look());
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "left behind:\n{left}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// What was not there before, a line each.
pub fn difference(before: &BTreeSet<String>, after: &BTreeSet<String>) -> String {
    after.difference(before).map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// Whether other local clouds are at work on this machine, whose things come and go.
pub fn other_clouds(roots: &[PathBuf]) -> bool {
    let ours = |cmdline: &str| {
        let root = cmdline.split(" local daemon --root ").nth(1).map(str::trim).map(Path::new);
        root.is_some_and(|root| roots.iter().any(|known| known == root))
    };
    command_lines().any(|(_, line)| line.contains(" local daemon --root ") && !ours(&line))
}

fn run(argv: &[&str]) -> String {
    let output = Command::new(argv[0]).args(&argv[1..]).output().unwrap_or_else(|e| panic!("{argv:?}: {e}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Each line with the table that it is in, which says whose it is.
fn rules() -> String {
    let mut table = "";
    let all = run(&["nft", "list", "ruleset"]);
    let lines = all.lines().map(|line| {
        if line.starts_with("table ") {
            table = line;
        }
        format!("{table} {}", line.trim())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Names and owners alone: counters and states of the host's own links come and go.
fn links() -> Vec<String> {
    let links = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let described = links.map(|link| {
        let owner = std::fs::read_to_string(link.path().join("ifalias")).unwrap_or_default();
        format!("{} {}", link.file_name().to_string_lossy(), owner.trim())
    });
    described.collect()
}

fn cgroups() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let root = table.lines().find(|l| l.contains(" - cgroup2 ")).and_then(|l| l.split(' ').nth(4));
    let Some(root) = root else { return Vec::new() };
    let mut found = Vec::new();
    let mut open = vec![Path::new(root).to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                found.push(entry.path().display().to_string());
                open.push(entry.path());
            }
        }
    }
    found
}

/// Processes of local clouds: daemons, supervisors, instances.
fn processes() -> Vec<String> {
    let signs = ["systemd-nspawn", " local daemon ", " local instance "];
    let of_cloud = |line: &str| signs.iter().any(|sign| line.contains(sign));
    command_lines().filter(|(_, line)| of_cloud(line)).map(|(pid, line)| format!("{pid} {line}")).collect()
}

fn command_lines() -> impl Iterator<Item = (String, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_string_lossy().into_owned();
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        pid.chars().all(|c| c.is_ascii_digit()).then_some(())?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    })
}

fn entries(folder: &Path) -> impl Iterator<Item = String> {
    let list = std::fs::read_dir(folder).into_iter().flatten().flatten();
    list.map(|e| e.path().display().to_string())
}
