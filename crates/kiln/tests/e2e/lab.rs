//! A cluster on the local cloud: its file, its user's key, the binary, ways onto its nodes.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster_dir::{ClusterDir, QUICK, printed};
use crate::instance;
use crate::pulp_server::PulpServer;
use crate::region::Region;

pub struct Lab {
    cluster: ClusterDir,
    pub suite: &'static str,
    /// The arguments of every process seen while `up` ran.
    pub arguments: BTreeSet<String>,
    /// Of the scenarios that need one; it ends with the suite.
    pub pulp: Option<PulpServer>,
    /// Of the scenarios on Oracle Cloud.
    pub region: Option<Region>,
}

impl Deref for Lab {
    type Target = ClusterDir;

    fn deref(&self) -> &ClusterDir {
        &self.cluster
    }
}

/// Images are kept between runs, by their recipe's digest.
pub fn cloud_root() -> PathBuf {
    std::env::var_os("KILN_TEST_ROOT").map_or_else(|| "/var/tmp/kiln-test".into(), PathBuf::from)
}

pub const USER: &str = "demo";

impl Lab {
    pub fn new(suite: &'static str) -> Lab {
        let mut cluster = ClusterDir::new();
        cluster.environment = vec![("KILN_LOCAL_ROOT".into(), cloud_root().display().to_string())];
        let status = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", USER, "-f"])
            .arg(cluster.path("user_key"))
            .status()
            .expect("ssh-keygen runs");
        assert!(status.success());
        let lab = Lab { cluster, suite, arguments: BTreeSet::new(), pulp: None, region: None };
        lab.write_file(&lab.example());
        lab
    }

    /// The example cluster: one control, one login, two compute nodes in each of two partitions.
    pub fn example(&self) -> String {
        let key = std::fs::read_to_string(self.path("user_key.pub")).expect("the public key");
        format!(
            "[cluster]\nname = \"e2e\"\n\n[cloud]\nkind = \"local\"\n\n\
             [image.default]\nsource = \"{}\"\ncommands = [\"{QUICK}\"]\n\n\
             [control]\nimage = \"default\"\n\n\
             [login.login]\nnodes = \"login-0\"\nimage = \"default\"\n\n\
             [compute.standard]\nnodes = \"standard-[0-1]\"\nimage = \"default\"\n\n\
             [compute.extra]\nnodes = \"extra-[0-1]\"\nimage = \"default\"\n\n\
             [slurm.config]\nKillWait = 30\n\n[user.{USER}]\nuid = 2001\nssh_keys = [\"{}\"]\n",
            self.suite,
            key.trim()
        )
    }

    /// Watches the newest rollout to its end; its report.
    pub fn watch(&self) -> Value {
        let output = self.try_kiln(&["--json", "rebuild", "watch"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = text.lines().last().unwrap_or_default();
        let report: Value = serde_json::from_str(last)
            .unwrap_or_else(|e| panic!("kiln rebuild watch printed no JSON ({e}):\n{}", printed(&output)));
        let well = report["state"] == "done" && report["failed"] == 0;
        assert_eq!(output.status.success(), well, "{report}");
        report
    }

    /// Runs a command as root on a node; it must succeed.
    pub fn on(&self, node: &str, command: &[&str]) -> String {
        let output = self.try_on(node, command);
        assert!(
            output.status.success(),
            "{command:?} on {node} ended with {}\n{}",
            output.status,
            printed(&output)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_string()
    }

    /// As [`Lab::on`], whatever comes of it. Through `kiln ssh` only where there is no other way.
    pub fn try_on(&self, node: &str, command: &[&str]) -> Output {
        if let Some(mut command) = instance::command_on(node, command) {
            return command.output().expect("nsenter runs");
        }
        let arguments: Vec<&str> = ["ssh", node].into_iter().chain(command.iter().copied()).collect();
        self.try_kiln(&arguments)
    }

    pub fn host(&self, node: &str) -> Value {
        let hosts = self.hosts();
        hosts.into_iter().find(|h| h["name"] == node).unwrap_or_else(|| panic!("no {node} in the inventory"))
    }

    /// Runs a command as the ordinary user, over SSH with the user's own key.
    pub fn try_as_user(&self, node: &str, command: &str) -> Output {
        self.try_ssh(USER, node, command)
    }

    pub fn try_ssh(&self, user: &str, node: &str, command: &str) -> Output {
        self.ssh_command(user, node, command).output().expect("ssh runs")
    }

    pub fn ssh_command(&self, user: &str, node: &str, command: &str) -> Command {
        let address = instance::address_of(node).unwrap_or_else(|| panic!("{node} has no single instance"));
        let mut ssh = Command::new("ssh");
        ssh.args(["-T", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"])
            .args(["-o", "StrictHostKeyChecking=yes", "-o", &format!("HostKeyAlias={node}")])
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", self.path(".kiln/known_hosts").display()))
            .arg("-i")
            .arg(self.path("user_key"))
            .args(["-l", user, &address, command])
            .stdin(Stdio::null());
        ssh
    }

    pub fn as_user(&self, node: &str, command: &str) -> String {
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
    pub fn submit(&self, options: &str, script: &str) -> String {
        let id = self.as_user("login-0", &format!("sbatch --parsable {options} --wrap '{script}'"));
        assert!(id.chars().all(|c| c.is_ascii_digit()), "sbatch answered {id:?}");
        id
    }

    /// A job that waits for an hour, once slurmctld has written it down: it does that every few seconds, and what came after
    /// goes with a machine that is cut off.
    pub fn submit_waiting(&self) -> String {
        let name = format!("late-{}", jiff::Timestamp::now().as_millisecond());
        let id = self.submit(&format!("--begin=now+1hour --output=/dev/null --job-name={name}"), "echo late");
        wait("slurmctld has written down the job", || {
            let grep = ["grep", "-q", &name, "/var/lib/state/slurmctld/job_state"];
            self.try_on("control", &grep).status.success()
        });
        id
    }

    /// A field of a job, as `scontrol show job` tells it.
    pub fn job(&self, id: &str, field: &str) -> String {
        let text = self.on("control", &["scontrol", "show", "job", "--oneliner", id]);
        let key = format!("{field}=");
        text.split_whitespace().find_map(|w| w.strip_prefix(&key)).unwrap_or_default().to_string()
    }

    pub fn wait_job(&self, id: &str, state: &str) {
        wait(&format!("job {id} is {state}"), || self.job(id, "JobState") == state);
    }

    /// For every `kiln` from now on.
    pub fn set(&mut self, variables: &[(&str, &str)]) {
        self.cluster
            .environment
            .extend(variables.iter().map(|(name, value)| (name.to_string(), value.to_string())));
    }

    /// From now on there are Oracle's services, whose instances boot on this machine.
    pub fn enter(&mut self, region: Region) {
        self.cluster.environment.extend(crate::oracle_login::environment(&self.cluster, &region.fake));
        self.region = Some(region);
    }

    pub fn destroy(&mut self) {
        let destroyed = self.try_kiln(&["destroy", "--yes"]);
        let left = self.region.take().map(Region::end);
        assert!(destroyed.status.success(), "{}", printed(&destroyed));
        assert_eq!(left.unwrap_or_default(), [""; 0], "left in the compartment");
    }

    /// After a failure: what an administrator would look at first.
    pub fn tell(&self) {
        let journal =
            "journalctl --no-pager --quiet --output=short-iso --lines=150 --unit=kilnd --unit=slurmctld";
        for words in [&["status"][..], &["events", "--most", "60"], &["ssh", "control", journal]] {
            println!("{}", printed(&self.try_kiln(words)));
        }
        // For what a few lines do not explain.
        let whole = "journalctl --no-pager --quiet --output=short-iso";
        let file = cloud_root().join("failed.journal");
        if std::fs::write(&file, self.try_on("control", &[whole]).stdout).is_ok() {
            println!("control's whole journal is in {}", file.display());
        }
        if std::env::var_os("KILN_TEST_KEEP").is_some() {
            println!("kept in {}; press enter to go on", self.path("").display());
            let _ = std::io::stdin().read_line(&mut String::new());
        }
    }
}

/// Waits until something is so. Nothing here takes a third of the limit, but machines that others use, too, are slow at times.
pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    loop {
        let look = Instant::now();
        if is_so() {
            return;
        }
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(300), "timed out waiting until {what}");
        // What takes long, or is much work to look at, is looked at less often: most looks are a run of Kiln and of SSH, and
        // other lanes want to go on.
        let pause = (waited / 8).max(look.elapsed() * 2);
        std::thread::sleep(pause.clamp(Duration::from_millis(100), Duration::from_secs(2)));
    }
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What the local cloud is to do wrong from now on.
pub fn order(faults: &str) {
    with_faults(|file| std::fs::write(file, faults)).expect("faults on order");
}

/// The cloud's daemon counts what has happened in the same file.
fn with_faults(change: impl FnOnce(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    let gate = std::fs::File::create(cloud_root().join("faults.lock"))?;
    gate.lock()?;
    change(&cloud_root().join("faults.json"))
}

/// Those that were ordered and have not all happened.
pub fn faults_left() -> Vec<String> {
    let faults: Value = serde_json::from_str(&read(&cloud_root().join("faults.json"))).expect("JSON");
    let faults = faults.as_object().expect("a table").iter();
    faults.filter(|(_, fault)| fault["fail"] != 0).map(|(operation, _)| operation.clone()).collect()
}

pub fn no_more_faults() {
    // There is no cloud yet before the first suite.
    let _ = with_faults(|file| std::fs::remove_file(file));
}
