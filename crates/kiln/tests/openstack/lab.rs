//! A cluster file in a directory of its own, the binary, and the official client.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub struct Lab {
    dir: tempfile::TempDir,
    pub cluster: &'static str,
    /// The `clouds.yaml` that Kiln reads.
    pub clouds: PathBuf,
    /// Further variables for Kiln.
    pub environment: Vec<(String, String)>,
    /// Those there were before.
    access_rules: Vec<Value>,
}

/// That of the services.
pub fn services() -> PathBuf {
    PathBuf::from(
        std::env::var_os("OS_CLIENT_CONFIG_FILE").expect("OS_CLIENT_CONFIG_FILE says where they are"),
    )
}

impl Lab {
    /// `groups`: the compute groups of the file.
    pub fn new(cluster: &'static str, groups: &str) -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab { dir, cluster, clouds: services(), environment: Vec::new(), access_rules: vec![] };
        lab.write(&format!(
            "[cluster]\nname = \"{cluster}\"\nconcurrency = 20\n\n\
             [cloud]\nkind = \"openstack\"\ncloud = \"demo\"\nsubnet = \"10.41.0.0/24\"\n\
             external_network = \"public\"\n\n\
             [image.default]\nprebuilt = \"image-a\"\n\n[control]\nflavor = \"small\"\n\n\
             [login.login]\nnodes = \"login-0\"\nflavor = \"small\"\n\n{groups}"
        ));
        // What a run that was cut off has left.
        lab.kiln(&["destroy", "--yes"]);
        Lab { access_rules: access_rules(), ..lab }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, text: &str) {
        std::fs::write(self.path("cluster.toml"), text).unwrap();
    }

    /// Replaces a piece of the cluster file, which must be there.
    pub fn edit(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path("cluster.toml")).unwrap();
        assert!(text.contains(from), "the file has no {from:?}");
        self.write(&text.replace(from, to));
    }

    pub fn try_kiln(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OS_")) {
            command.env_remove(name);
        }
        command
            .arg("--file")
            .arg(self.path("cluster.toml"))
            .args(arguments)
            .env("OS_CLIENT_CONFIG_FILE", &self.clouds)
            .env("NO_PROXY", "127.0.0.1,localhost")
            .env("no_proxy", "127.0.0.1,localhost")
            .envs(self.environment.clone())
            .stdin(Stdio::null());
        command
    }

    /// Runs `kiln` and kills it, as nothing can be killed more thoroughly, as soon as it speaks of `item`.
    pub fn kiln_killed_at(&self, arguments: &[&str], item: &str) {
        let mut child = self.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let spoken = lines.any(|line| {
            said.push(line.clone());
            line.contains(&format!("] {item}"))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(spoken, "kiln never came to {item}:\n{}", said.join("\n"));
    }

    /// Runs `kiln`, which must succeed, and returns its standard output.
    pub fn kiln(&self, arguments: &[&str]) -> String {
        let output = self.try_kiln(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "kiln {arguments:?} ended with {}\n{}{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// What a run that must fail says.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.try_kiln(arguments);
        assert!(!output.status.success(), "kiln {arguments:?} did not fail");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // Only the error itself, with places as anybody has them.
        let at = text.find("error: ").unwrap_or_else(|| panic!("no error in {text}"));
        let own = self.clouds.display().to_string();
        text[at..].replace(&own, "clouds.yaml").trim_end().to_string()
    }

    pub fn hosts(&self) -> Vec<Value> {
        let text = self.kiln(&["--json", "inventory"]);
        let value: Value = serde_json::from_str(&text).unwrap();
        value["hosts"].as_array().unwrap().clone()
    }

    /// With everything of the cluster that the official client can list.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        for row in access_rules().iter().filter(|row| !self.access_rules.contains(row)) {
            found.push(format!("{ACCESS_RULES}: {row}"));
        }
        for (list, rows) in LISTS.iter().zip(openstack(LISTS)) {
            for row in rows.as_array().into_iter().flatten() {
                let text = row.to_string();
                if text.contains(self.cluster) || text.contains("10.41.0.") {
                    found.push(format!("{list}: {text}"));
                }
            }
        }
        found
    }
}

const LISTS: &[&str] = &[
    "server list --long",
    "port list --long",
    "network list --internal",
    "subnet list",
    "router list",
    "security group list",
    "floating ip list --long",
    "volume list --long",
    "volume snapshot list",
    "image list --private",
    "keypair list",
    "server group list",
    "application credential list",
];

/// These say nothing of whose they are.
const ACCESS_RULES: &str = "access rule list";

fn access_rules() -> Vec<Value> {
    openstack(&[ACCESS_RULES]).remove(0).as_array().cloned().unwrap_or_default()
}

/// What commands of the official client answer. Nobody here wrote it. All in one run of it: starting it takes longer
/// than most of what it does.
pub fn openstack(commands: &[&str]) -> Vec<Value> {
    openstack_as("demo", commands)
}

pub fn openstack_as(cloud: &str, commands: &[&str]) -> Vec<Value> {
    let script: Vec<String> = commands.iter().map(|command| format!("{command} -f json")).collect();
    let text = run(cloud, &script.join("\n"));
    let answers: Vec<Value> =
        serde_json::Deserializer::from_str(&text).into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(answers.len(), commands.len(), "{commands:?}: {text}");
    answers
}

/// Commands that answer nothing.
pub fn tell(cloud: &str, commands: &[&str]) {
    run(cloud, &commands.join("\n"));
}

/// Commands that may well fail, such as removing what a run that was cut off may have left.
pub fn attempt(cloud: &str, commands: &[&str]) {
    execute(cloud, &commands.join("\n"));
}

fn run(cloud: &str, script: &str) -> String {
    let output = execute(cloud, script);
    let problems = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(problems.trim().is_empty(), "{script}: {problems}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn execute(cloud: &str, script: &str) -> Output {
    let mut command = client();
    command.env("OS_CLOUD", cloud).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{script}\n").as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub fn client() -> Command {
    let mut command = Command::new(services().with_file_name("venv").join("bin/openstack"));
    command.env("NO_PROXY", "127.0.0.1");
    command
}
