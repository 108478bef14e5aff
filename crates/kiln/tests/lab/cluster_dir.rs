//! A cluster file in a directory of its own, and the binary to run on it. What the tests and benches on every cloud
//! begin with.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Nodes that leave out the key exchange against quantum computers: it is most of what a login costs, and there are
/// thousands of logins. If they have a kernel of their own, it leaves out mitigations, which
/// protect nobody here.
pub const QUICK: &str = "echo KexAlgorithms curve25519-sha256 >/etc/ssh/sshd_config.d/quick-login.conf; \
    echo mitigations=off audit=0 >/etc/kernel/cmdline";

pub struct ClusterDir {
    dir: PathBuf,
    /// Goes with it.
    _temporary: Option<tempfile::TempDir>,
    /// Variables for Kiln.
    pub environment: Vec<(String, String)>,
    /// Everything every run printed, for the search for secrets.
    transcript: Mutex<String>,
}

impl ClusterDir {
    pub fn new() -> ClusterDir {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        ClusterDir {
            dir: temporary.path().into(),
            _temporary: Some(temporary),
            ..ClusterDir::at(PathBuf::new())
        }
    }

    /// A directory that is there, and stays.
    pub fn at(dir: PathBuf) -> ClusterDir {
        ClusterDir { dir, _temporary: None, environment: Vec::new(), transcript: Mutex::default() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn write_file(&self, text: &str) {
        std::fs::write(self.path("cluster.toml"), text).expect("the cluster file");
    }

    pub fn read_file(&self) -> String {
        std::fs::read_to_string(self.path("cluster.toml")).expect("the cluster file")
    }

    /// Replaces a piece of the cluster file, which must be there.
    pub fn edit(&self, from: &str, to: &str) {
        let text = self.read_file();
        assert!(text.contains(from), "the file has no {from:?}");
        self.write_file(&text.replace(from, to));
    }

    /// Without what the caller's own environment says about clouds.
    pub fn kiln_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OS_")) {
            command.env_remove(name);
        }
        command
            .arg("--file")
            .arg(self.path("cluster.toml"))
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Removes what a run that was cut off left, whose `.kiln` went with its directory.
    pub fn clear(&self) {
        self.try_kiln(&["secrets", "adopt", "--yes"]);
        self.kiln(&["destroy", "--yes"]);
    }

    pub fn try_kiln(&self, arguments: &[&str]) -> Output {
        let output = self.kiln_command(arguments).output().expect("kiln runs");
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner).push_str(&printed(&output));
        output
    }

    /// Runs `kiln`, which must succeed, and returns its standard output.
    pub fn kiln(&self, arguments: &[&str]) -> String {
        let output = self.try_kiln(arguments);
        let words = arguments.join(" ");
        assert!(output.status.success(), "kiln {words} ended with {}\n{}", output.status, printed(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let with: Vec<&str> = std::iter::once("--json").chain(arguments.iter().copied()).collect();
        // `status` prints what is wrong and exits with 1.
        let text = if arguments == ["status"] {
            String::from_utf8_lossy(&self.try_kiln(&with).stdout).into_owned()
        } else {
            self.kiln(&with)
        };
        serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("kiln {arguments:?} printed no JSON ({e}):\n{text}"))
    }

    pub fn hosts(&self) -> Vec<Value> {
        self.json(&["inventory"])["hosts"].as_array().cloned().unwrap_or_default()
    }

    pub fn transcript(&self) -> String {
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All that a program printed.
pub fn printed(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}
