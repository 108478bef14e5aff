//! A place to raise a cluster in: its file, its user's key, the binary, ways onto its nodes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::instance;

pub struct Lab {
    dir: tempfile::TempDir,
    pub suite: &'static str,
    /// Everything every `kiln` run printed, for the search for secrets.
    pub transcript: String,
    /// The arguments of every process seen while `up` ran.
    pub arguments: BTreeSet<String>,
}

/// Images are kept between runs, by their recipe's digest.
pub fn cloud_root() -> PathBuf {
    std::env::var_os("KILN_TEST_ROOT").map_or_else(|| "/var/tmp/kiln-test".into(), PathBuf::from)
}

pub const USER: &str = "demo";

impl Lab {
    pub fn new(suite: &'static str) -> Lab {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let status = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", USER, "-f"])
            .arg(dir.path().join("user_key"))
            .status()
            .expect("ssh-keygen runs");
        assert!(status.success());
        let lab = Lab { dir, suite, transcript: String::new(), arguments: BTreeSet::new() };
        lab.write_file(&lab.example());
        lab
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The example cluster: one control, one login, two compute nodes in each of two partitions.
    pub fn example(&self) -> String {
        let key = std::fs::read_to_string(self.path("user_key.pub")).expect("the public key");
        format!(
            "[cluster]\nname = \"e2e\"\n\n[cloud]\nkind = \"local\"\n\n[image.default]\nsource = \"{}\"\n\n\
             [control]\nimage = \"default\"\n\n\
             [login.login]\nnodes = \"login-0\"\nimage = \"default\"\n\n\
             [compute.standard]\nnodes = \"standard-[0-1]\"\nimage = \"default\"\n\n\
             [compute.extra]\nnodes = \"extra-[0-1]\"\nimage = \"default\"\n\n\
             [slurm.config]\nKillWait = 30\n\n[user.{USER}]\nuid = 2001\nssh_keys = [\"{}\"]\n",
            self.suite,
            key.trim()
        )
    }

    pub fn write_file(&self, text: &str) {
        std::fs::write(self.path("cluster.toml"), text).expect("the cluster file");
    }

    /// Replaces a piece of the cluster file, which must be there.
    pub fn edit(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path("cluster.toml")).expect("the cluster file");
        assert!(text.contains(from), "the file has no {from:?}");
        self.write_file(&text.replace(from, to));
    }

    pub fn kiln_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command
            .arg("--file")
            .arg(self.path("cluster.toml"))
            .args(arguments)
            .env("KILN_LOCAL_ROOT", cloud_root())
            .stdin(Stdio::null());
        command
    }

    pub fn try_kiln(&mut self, arguments: &[&str]) -> Output {
        let output = self.kiln_command(arguments).output().expect("kiln runs");
        let printed =
            [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b).into_owned()).concat();
        self.transcript.push_str(&printed);
        output
    }

    /// Runs `kiln`, which must succeed, and returns its standard output.
    pub fn kiln(&mut self, arguments: &[&str]) -> String {
        let output = self.try_kiln(arguments);
        assert!(
            output.status.success(),
            "kiln {} ended with {}\n{}{}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn json(&mut self, arguments: &[&str]) -> Value {
        let with: Vec<&str> = std::iter::once("--json").chain(arguments.iter().copied()).collect();
        let text = self.kiln(&with);
        serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("kiln {arguments:?} printed no JSON ({e}):\n{text}"))
    }

    /// Watches the newest rollout to its end; its report.
    pub fn watch(&mut self) -> Value {
        let output = self.try_kiln(&["--json", "rebuild", "watch"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = text.lines().last().unwrap_or_default();
        let report: Value = serde_json::from_str(last).unwrap_or_else(|e| {
            panic!(
                "kiln rebuild watch printed no JSON ({e}):\n{text}{}",
                String::from_utf8_lossy(&output.stderr)
            )
        });
        let well = report["state"] == "done" && report["failed"] == 0;
        assert_eq!(output.status.success(), well, "{report}");
        report
    }

    /// Runs a command as root on a node; it must succeed.
    pub fn on(&mut self, node: &str, command: &[&str]) -> String {
        let output = self.try_on(node, command);
        assert!(
            output.status.success(),
            "{command:?} on {node} ended with {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_string()
    }

    /// As [`Lab::on`], whatever comes of it. Through `kiln ssh` only where there is no other way.
    pub fn try_on(&mut self, node: &str, command: &[&str]) -> Output {
        if let Some(mut command) = instance::command_on(node, command) {
            return command.output().expect("nsenter runs");
        }
        let arguments: Vec<&str> = ["ssh", node].into_iter().chain(command.iter().copied()).collect();
        self.try_kiln(&arguments)
    }

    pub fn hosts(&mut self) -> Vec<Value> {
        self.json(&["inventory"])["hosts"].as_array().cloned().unwrap_or_default()
    }

    pub fn host(&mut self, node: &str) -> Value {
        let hosts = self.hosts();
        hosts.into_iter().find(|h| h["name"] == node).unwrap_or_else(|| panic!("no {node} in the inventory"))
    }

    /// Runs a command as the ordinary user, over SSH with the user's own key.
    pub fn try_as_user(&mut self, node: &str, command: &str) -> Output {
        self.try_ssh(USER, node, command)
    }

    pub fn try_ssh(&mut self, user: &str, node: &str, command: &str) -> Output {
        let address = instance::address_of(node).unwrap_or_else(|| panic!("{node} has no single instance"));
        Command::new("ssh")
            .args(["-T", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"])
            .args(["-o", "StrictHostKeyChecking=yes", "-o", &format!("HostKeyAlias={node}")])
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", self.path(".kiln/known_hosts").display()))
            .arg("-i")
            .arg(self.path("user_key"))
            .args(["-l", user, &address, command])
            .stdin(Stdio::null())
            .output()
            .expect("ssh runs")
    }

    pub fn as_user(&mut self, node: &str, command: &str) -> String {
        let output = self.try_as_user(node, command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{command:?} on {node} as {USER} ended with {}: {stderr}",
            output.status
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_string()
    }

    /// Submits from the login node and returns the job's id.
    pub fn submit(&mut self, options: &str, script: &str) -> String {
        let id = self.as_user("login-0", &format!("sbatch --parsable {options} --wrap '{script}'"));
        assert!(id.chars().all(|c| c.is_ascii_digit()), "sbatch answered {id:?}");
        id
    }

    /// A field of a job, as `scontrol show job` tells it.
    pub fn job(&mut self, id: &str, field: &str) -> String {
        let text = self.on("control", &["scontrol", "show", "job", "--oneliner", id]);
        let key = format!("{field}=");
        text.split_whitespace().find_map(|w| w.strip_prefix(&key)).unwrap_or_default().to_string()
    }

    pub fn wait_job(&mut self, id: &str, state: &str) {
        wait(&format!("job {id} is {state}"), || self.job(id, "JobState") == state);
    }

    pub fn destroy(&mut self) {
        self.kiln(&["destroy", "--yes"]);
    }

    /// After a failure: what an administrator would look at first.
    pub fn tell(&mut self) {
        let journal =
            "journalctl --no-pager --quiet --output=short-iso --lines=150 --unit=kilnd --unit=slurmctld";
        for words in [&["status"][..], &["events", "--most", "60"], &["ssh", "control", journal]] {
            let told = self.try_kiln(words);
            println!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
        }
        if std::env::var_os("KILN_TEST_KEEP").is_some() {
            println!("kept in {}; press enter to go on", self.dir.path().display());
            let _ = std::io::stdin().read_line(&mut String::new());
        }
    }
}

/// Waits until something is so; two minutes are more than anything here takes.
pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(120), "waited in vain until {what}");
        // What takes long is looked at less often: most looks are a run of Kiln and of SSH, and other lanes want to go on.
        std::thread::sleep((waited / 8).clamp(Duration::from_millis(100), Duration::from_secs(1)));
    }
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What the local cloud is to do wrong from now on.
pub fn order(faults: &str) {
    std::fs::write(cloud_root().join("faults.json"), faults).expect("faults on order");
}

pub fn no_more_faults() {
    let _ = std::fs::remove_file(cloud_root().join("faults.json"));
}
