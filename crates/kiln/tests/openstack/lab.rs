//! A cluster on the services of `tests/openstack-services`, and what the official client says of it.

use std::io::{BufRead as _, BufReader};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

pub use crate::client::{ask as openstack_as, attempt, log_out, own_project, services, tell};
use crate::cluster_dir::{ClusterDir, printed};
pub use crate::project::openstack;
use crate::project::{ACCESS_RULES, access_rules, leftovers};

/// A test that fails leaves nothing either: see `drop`.
pub struct Lab {
    dir: ClusterDir,
    pub cluster: &'static str,
    /// What addresses of the nodes begin with.
    subnet: &'static str,
    /// As it was written first. The test may have spoilt its own.
    file: String,
    /// Those there were before.
    access_rules: Vec<Value>,
    /// Clouds, and commands of the official client there.
    undo: Mutex<Vec<(String, String)>>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        eprintln!("{}: the test failed, and what it made is removed", self.cluster);
        let undo = std::mem::take(&mut *self.undo.lock().unwrap_or_else(PoisonError::into_inner));
        let undo = || undo.iter().for_each(|(cloud, command)| attempt(cloud, &[command]));
        // Some of it is in the way of the cluster's removal, and some the other way round.
        undo();
        self.set_environment(&services(), &[]);
        self.write_file(&self.file);
        self.try_kiln(&["secrets", "adopt", "--yes"]);
        let removed = self.try_kiln(&["destroy", "--yes"]);
        if !removed.status.success() {
            eprintln!("{}: not removed: {}", self.cluster, printed(&removed));
        }
        undo();
    }
}

impl Deref for Lab {
    type Target = ClusterDir;

    fn deref(&self) -> &ClusterDir {
        &self.dir
    }
}

impl DerefMut for Lab {
    fn deref_mut(&mut self) -> &mut ClusterDir {
        &mut self.dir
    }
}

/// What addresses of the nodes begin with.
const SUBNET: &str = "10.41.0.";

/// Says to Kiln which `clouds.yaml` to read.
const CLOUDS: &str = "OS_CLIENT_CONFIG_FILE";

impl Lab {
    /// `groups`: the compute groups of the file.
    pub fn new(cluster: &'static str, groups: &str) -> Lab {
        Lab::in_subnet(SUBNET, cluster, groups)
    }

    /// For who sees what is in other projects, too, and must be able to tell it from its own.
    pub fn in_subnet(subnet: &'static str, cluster: &'static str, groups: &str) -> Lab {
        let file = format!(
            "[cluster]\nname = \"{cluster}\"\nconcurrency = 20\n\n\
             [cloud]\nkind = \"openstack\"\ncloud = \"demo\"\nsubnet = \"{subnet}0/24\"\n\
             external_network = \"public\"\n\n\
             [image.default]\nprebuilt = \"image-a\"\n\n[control]\nflavor = \"small\"\n\n\
             [login.login]\nnodes = \"login-0\"\nflavor = \"small\"\n\n{groups}"
        );
        let undo = Mutex::default();
        let mut lab = Lab { dir: ClusterDir::new(), cluster, subnet, file, access_rules: vec![], undo };
        lab.set_environment(&services(), &[]);
        lab.write_file(&lab.file);
        // What a run that was cut off has left.
        lab.clear();
        lab.access_rules = access_rules();
        lab
    }

    /// What takes away what the test itself makes: done now, if a run that was cut off left it, and when the test fails.
    pub fn undo_with(&self, cloud: &str, commands: &[&str]) {
        attempt(cloud, commands);
        let commands = commands.iter().map(|command| (cloud.to_string(), (*command).to_string()));
        self.undo.lock().unwrap_or_else(PoisonError::into_inner).extend(commands);
    }

    /// The `clouds.yaml` that Kiln reads, and further variables for it.
    pub fn set_environment(&mut self, clouds: &Path, more: &[(&str, &str)]) {
        let clouds = clouds.display().to_string();
        let own = [
            (CLOUDS, clouds.as_str()),
            ("NO_PROXY", "127.0.0.1,localhost"),
            ("no_proxy", "127.0.0.1,localhost"),
        ];
        let all = own.iter().chain(more).map(|(name, value)| ((*name).to_string(), (*value).to_string()));
        self.environment = all.collect();
    }

    fn clouds(&self) -> &str {
        let clouds = self.environment.iter().find(|(name, _)| name == CLOUDS);
        clouds.map(|(_, path)| path.as_str()).unwrap_or_default()
    }

    /// A `clouds.yaml` of the test's own, for Kiln to read.
    pub fn write_clouds(&mut self, text: &str) -> PathBuf {
        let path = self.path("clouds.yaml");
        std::fs::write(&path, text).unwrap();
        self.set_environment(&path, &[]);
        path
    }

    /// Runs `kiln` and kills it, as nothing can be killed more thoroughly, as soon as it speaks of `item`.
    pub fn kiln_killed_at(&self, arguments: &[&str], item: &str) {
        let mut child =
            self.kiln_command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
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

    /// What a run that must fail says.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.try_kiln(arguments);
        assert!(!output.status.success(), "kiln {arguments:?} did not fail");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // Only the error itself, with places as anybody has them.
        let at = text.find("error: ").unwrap_or_else(|| panic!("no error in {text}"));
        text[at..].replace(self.clouds(), "clouds.yaml").trim_end().to_string()
    }

    /// With everything of the cluster that the official client can list.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found = leftovers(self.cluster, self.subnet);
        for row in access_rules().iter().filter(|row| !self.access_rules.contains(row)) {
            found.push(format!("{ACCESS_RULES}: {row}"));
        }
        found
    }
}

/// Whoever deploys is an administrator of the cloud until this is dropped. Keystone then deletes the credentials made meanwhile.
pub struct Administrator {
    project: String,
}

impl Administrator {
    pub fn begin() -> Administrator {
        let administrator = Administrator { project: own_project() };
        tell("admin", &[&administrator.role("add")]);
        administrator
    }

    fn role(&self, change: &str) -> String {
        format!("role {change} --user {0} --project {0} admin", self.project)
    }
}

impl Drop for Administrator {
    fn drop(&mut self) {
        attempt("admin", &[&self.role("remove")]);
        log_out("demo");
    }
}

/// The client as a user runs it, for what needs another environment.
pub fn client() -> Command {
    let mut command = Command::new(services().with_file_name("venv").join("bin/openstack"));
    command.env("NO_PROXY", "127.0.0.1");
    command
}

#[test]
fn a_test_that_fails_leaves_nothing() {
    let failed = std::panic::catch_unwind(|| {
        let mut lab = Lab::new("failing", "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n");
        lab.undo_with("demo", &["port delete in-failing", "keypair delete of-failing"]);
        lab.kiln(&["apply"]);
        openstack(&["port create --network failing in-failing"]);
        tell("demo", &["keypair create of-failing --private-key /dev/null"]);
        assert!(leftovers("failing", SUBNET).len() > 10);
        // As tests do, before they find what they do not expect.
        lab.write_file("");
        lab.write_clouds("");
        panic!("as a test that fails");
    });
    assert!(failed.is_err());
    assert_eq!(leftovers("failing", SUBNET), Vec::<String>::new());
}
