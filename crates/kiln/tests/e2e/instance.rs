//! Nodes as the local cloud has them on this machine. Tests look at nodes thousands of times: entering an instance's
//! namespaces costs a hundredth of a run of Kiln and a login over SSH.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kiln_wire::labels;
use serde_json::Value;

use crate::lab::cloud_root;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The local cloud's records of a kind, without those that it is about to write.
pub fn records(kind: &str) -> impl Iterator<Item = Value> {
    let entries = fs::read_dir(cloud_root().join("state").join(kind)).into_iter().flatten().flatten();
    let files =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    files.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok())
}

/// The one instance of a node. `None` if there are several, or none.
fn record_of(node: &str) -> Option<Value> {
    let mut own = records("instances").filter(|record| record["labels"][labels::NODE] == node);
    let only = own.next()?;
    own.next().is_none().then_some(only)
}

pub fn address_of(node: &str) -> Option<String> {
    record_of(node)?["address"].as_str().map(String::from)
}

/// Runs a command as root on a node, as `kiln ssh` would: one word is a line for the shell. `None` where the node's
/// system is not there to be entered.
pub fn command_on(node: &str, words: &[&str]) -> Option<Command> {
    Some(enter(&init_of(&id_of(node)?)?, words))
}

fn enter(init: &str, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--all", "--target", init]);
    match words {
        [line] => command.args(["sh", "-c", line]),
        words => command.args(words),
    };
    command.env_clear().env("PATH", PATH).env("HOME", "/root").stdin(Stdio::null());
    command
}

/// As [`command_on`], in the one instance of this name, which need not be a node's.
#[allow(dead_code, reason = "the bench has no use for it")]
pub fn command_in(name: &str, words: &[&str]) -> Option<Command> {
    let record = records("instances").find(|record| record["name"] == name)?;
    Some(enter(&init_of(record["id"].as_str()?)?, words))
}

pub fn id_of(node: &str) -> Option<String> {
    record_of(node)?["id"].as_str().map(String::from)
}

/// Everything that runs in an instance.
pub fn cgroup(id: &str) -> Option<PathBuf> {
    Some(hierarchy()?.join(kiln_cloud::local::name_on_host(&cloud_root())).join(id))
}

/// The first process of the present boot, in this machine's numbering.
fn init_of(id: &str) -> Option<String> {
    let boots = fs::read_dir(cgroup(id)?).ok()?;
    boots.flatten().find_map(|boot| {
        let processes = fs::read_to_string(boot.path().join("payload/init.scope/cgroup.procs")).ok()?;
        processes.lines().next().map(String::from)
    })
}

fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields
        .filter(|fields| fields.get(2) == Some(&"cgroup2"))
        .find_map(|fields| fields.get(1).map(PathBuf::from))
}
