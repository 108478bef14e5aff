//! What a cluster could leave on its host: mounts, namespaces, links, cgroups, nftables rules, processes, folders.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::lab::cloud_root;

pub fn look() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut add =
        |kind: &str, text: String| all.extend(text.lines().map(|l| format!("{kind}: {}", l.trim())));
    add("namespace", run(&["ip", "netns", "list"]));
    add("link", names(&run(&["ip", "-brief", "link"])));
    add("rule", run(&["nft", "list", "ruleset"]));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|l| l.split(' ').nth(4)).collect::<Vec<_>>().join("\n");
    add("mount", points);
    add("cgroup", cgroups().join("\n"));
    add("process", processes().join("\n"));
    for kind in ["instances", "volumes", "networks"] {
        add("folder", entries(&cloud_root().join(kind)).join("\n"));
    }
    all
}

/// On a machine that runs other local clouds beside this one, only what names this one's root can be told apart.
pub fn assert_same(before: &BTreeSet<String>, after: &BTreeSet<String>) {
    let root = cloud_root().display().to_string();
    let alone = !other_clouds();
    let ours = |entry: &&String| alone || entry.contains(&root);
    let left: Vec<&String> = after.difference(before).filter(ours).collect();
    assert!(left.is_empty(), "left behind:\n{left:#?}");
}

fn run(argv: &[&str]) -> String {
    let output = Command::new(argv[0]).args(&argv[1..]).output().unwrap_or_else(|e| panic!("{argv:?}: {e}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The first column alone: counters and states of the host's own links come and go.
fn names(text: &str) -> String {
    text.lines().filter_map(|l| l.split_whitespace().next()).collect::<Vec<_>>().join("\n")
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

/// Processes of the local cloud: those that name its root, or run in one of its namespaces.
fn processes() -> Vec<String> {
    let root = cloud_root().display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.chars().all(|c| c.is_ascii_digit()) {
            continue;
        }
        let cmdline = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let cmdline = String::from_utf8_lossy(&cmdline).replace('\0', " ");
        if cmdline.contains(&root) || cmdline.contains("systemd-nspawn") {
            found.push(format!("{name} {cmdline}"));
        }
    }
    found
}

fn other_clouds() -> bool {
    let root = cloud_root().display().to_string();
    let is_other = |entry: std::fs::DirEntry| {
        let cmdline = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let cmdline = String::from_utf8_lossy(&cmdline).replace('\0', " ");
        cmdline.contains(" local daemon --root ") && !cmdline.contains(&root)
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().any(is_other)
}

fn entries(folder: &Path) -> Vec<String> {
    let list = std::fs::read_dir(folder).into_iter().flatten().flatten();
    list.map(|e| e.path().display().to_string()).collect()
}
