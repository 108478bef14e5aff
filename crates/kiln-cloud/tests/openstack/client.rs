//! The official client, which nobody here wrote, to read back what Kiln did. One process of it for each cloud serves all
//! tests of a program: starting it takes longer than most of what it does, and it goes on as whoever it logged in as first.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;

/// The `clouds.yaml` of the services.
pub fn services() -> PathBuf {
    PathBuf::from(
        std::env::var_os("OS_CLIENT_CONFIG_FILE").expect("OS_CLIENT_CONFIG_FILE says where they are"),
    )
}

/// The project of the tests. Its user has the same name. Parts of the tests run side by side, each in its own.
#[allow(dead_code, reason = "not all tests name it")]
pub fn own_project() -> String {
    let clouds = std::fs::read_to_string(services()).expect("clouds.yaml");
    let (_, own) = clouds.split_once("  demo:\n").expect("the cloud `demo`");
    let (_, name) = own.split_once("project_name: ").expect("a project");
    name.lines().next().expect("its name").to_string()
}

/// What commands answer.
pub fn ask(cloud: &str, commands: &[&str]) -> Vec<Value> {
    let answer = |command: &&str| {
        let text = run(cloud, &format!("{command} -f json"));
        // With `--wait` it tells of its progress first.
        let start = text.find(['{', '[']).unwrap_or_default();
        serde_json::from_str(&text[start..]).unwrap_or_else(|error| panic!("{command}: {error} in {text}"))
    };
    commands.iter().map(answer).collect()
}

/// Commands that answer nothing.
pub fn tell(cloud: &str, commands: &[&str]) {
    for command in commands {
        run(cloud, command);
    }
}

/// Commands that may well fail, such as removing what a run that was cut off may have left.
pub fn attempt(cloud: &str, commands: &[&str]) {
    for command in commands {
        exchange(cloud, command);
    }
}

fn run(cloud: &str, command: &str) -> String {
    let answer = exchange(cloud, command);
    assert_eq!(answer["status"], 0, "{command}: {}{}", answer["out"], answer["err"]);
    answer["out"].as_str().unwrap_or_default().to_string()
}

fn exchange(cloud: &str, command: &str) -> Value {
    clients().entry(cloud.to_string()).or_insert_with(|| Client::start(cloud)).exchange(command)
}

/// The next command logs in again, with the rights of that moment. Services go on for minutes with the rights of an old login.
#[allow(dead_code, reason = "few tests change what somebody may do")]
pub fn log_out(cloud: &str) {
    clients().remove(cloud);
}

fn clients() -> MutexGuard<'static, BTreeMap<String, Client>> {
    static CLIENTS: Mutex<BTreeMap<String, Client>> = Mutex::new(BTreeMap::new());
    // A test that failed meanwhile may have left one in the midst of an answer; then there are new ones.
    CLIENTS.lock().unwrap_or_else(|poisoned| {
        let mut clients = poisoned.into_inner();
        clients.clear();
        CLIENTS.clear_poison();
        clients
    })
}

/// Ends by itself when nobody is left to write to it.
struct Client {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    _child: Child,
}

impl Client {
    fn start(cloud: &str) -> Client {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/openstack-services/files/client.py");
        let mut child = Command::new(services().with_file_name("venv").join("bin/python"))
            .args([script.as_os_str(), cloud.as_ref()])
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client starts");
        let requests = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Client { requests, answers, _child: child }
    }

    fn exchange(&mut self, command: &str) -> Value {
        writeln!(self.requests, "{command}").expect("the client reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the client answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{command}: {error} in {line:?}"))
    }
}
