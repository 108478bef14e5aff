//! A cluster of machines that boot: its file, its user's key, ways onto its nodes.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::services;
use crate::cluster_dir::{ClusterDir, QUICK, printed};
use crate::filer::{self, Filer};
use crate::project;

const CLUSTER: &str = "vms";
/// What addresses of the nodes begin with.
const SUBNET: &str = "10.42.0.";
pub const USER: &str = "demo";
pub const USER_ID: u32 = 2001;
/// Of the services.
pub const TIME_SERVER: &str = "172.24.5.1";
/// Two disks that can be told by their names alone.
pub const DISKS: [&str; 2] = ["vms-first", "vms-second"];
/// More than anything takes on a machine that has much else to do: every instruction is emulated.
const LIMIT: Duration = Duration::from_secs(1500);

/// For work on scenarios: the directory of a cluster that stays, and may be up already.
pub fn kept() -> Option<PathBuf> {
    std::env::var_os("KILN_TEST_CLUSTER").map(PathBuf::from)
}

/// What clusters differ in.
#[derive(Clone, Copy)]
pub struct Site {
    /// Debian release of the images.
    pub debian: &'static str,
    /// More packages of the images.
    pub packages: &'static str,
    /// More of the table of the cloud.
    pub cloud: &'static str,
    /// More of the file.
    pub file: &'static str,
    /// Home directories are on a file server of the site.
    pub filer: bool,
}

pub struct Lab {
    /// Before the directory: it serves a part of that, and ends first.
    filer: Option<Mutex<Filer>>,
    cluster: ClusterDir,
    /// Where the image comes from.
    pub local: ClusterDir,
    pub site: Site,
    access_rules: Vec<Value>,
    /// Of others. Root disks that Nova has made into volumes have no name.
    volumes: Value,
}

impl Deref for Lab {
    type Target = ClusterDir;

    fn deref(&self) -> &ClusterDir {
        &self.cluster
    }
}

/// The local cloud whose images become disks. The end-to-end suites have built them there.
fn local_root() -> PathBuf {
    let root = std::env::var_os("KILN_TEST_ROOT").map_or_else(|| "/var/tmp/kiln-test".into(), PathBuf::from);
    root.join("elastic")
}

/// The file of the local cloud, with the image that the end-to-end suites have built.
fn local_cluster(Site { debian, packages, .. }: Site) -> ClusterDir {
    let mut local = ClusterDir::new();
    local.environment = vec![("KILN_LOCAL_ROOT".into(), local_root().display().to_string())];
    local.write_file(&format!(
        "[cluster]\nname = \"local\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n\
         [image.default]\nsource = \"{debian}\"\ncommands = [\"{QUICK}\"]\npackages = [{packages}]\n"
    ));
    local
}

impl Lab {
    pub fn new(site: Site) -> Lab {
        let mut cluster = kept().map_or_else(ClusterDir::new, ClusterDir::at);
        let is_new = !cluster.path("cluster.toml").exists();
        cluster.environment = vec![
            ("OS_CLIENT_CONFIG_FILE".into(), services().display().to_string()),
            ("NO_PROXY".into(), "*".into()),
        ];
        let filer = site.filer.then(|| Mutex::new(Filer::new(cluster.path("filer"))));
        let access_rules = project::access_rules();
        let mut lab = Lab {
            cluster,
            local: local_cluster(site),
            site,
            filer,
            access_rules,
            volumes: Value::Array(Vec::new()),
        };
        if is_new {
            lab.make_key();
            lab.write_file(&lab.example());
            // What a run that was cut off has left.
            lab.clear();
            lab.volumes = volumes();
            std::fs::write(lab.path("volumes-of-others.json"), lab.volumes.to_string()).expect("a note");
        } else {
            let note = std::fs::read_to_string(lab.path("volumes-of-others.json")).expect("a note");
            lab.volumes = serde_json::from_str(&note).expect("JSON");
        }
        lab
    }

    fn make_key(&self) {
        let key = self.path("user_key");
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(key).status();
        assert!(made.expect("ssh-keygen runs").success());
    }

    /// One control, one login, two fixed compute nodes, and one that comes for a job.
    fn example(&self) -> String {
        let key = std::fs::read_to_string(self.path("user_key.pub")).expect("the public key");
        format!(
            "[cluster]\nname = \"{CLUSTER}\"\n\n[cloud]\nkind = \"openstack\"\ncloud = \"demo\"\n\
             subnet = \"{SUBNET}0/24\"\nexternal_network = \"public\"\n{5}\n\
             [image.default]\nprebuilt = \"{0}\"\nsystem = \"{1}\"\n\n\
             [image.next]\nprebuilt = \"{2}\"\nsystem = \"{1}\"\n\n\
             [control]\nflavor = \"vm.2048\"\nimage = \"default\"\n\n\
             [login.login]\nnodes = \"login-0\"\nflavor = \"vm.1536\"\nimage = \"default\"\n\n\
             [compute.standard]\nnodes = \"standard-[0-1]\"\nflavor = \"vm.1536.2\"\nimage = \"default\"\n\n\
             [compute.burst]\nnodes = \"burst-0\"\nflavor = \"vm.1536\"\nimage = \"default\"\n\
             elastic = {{ idle = \"30s\" }}\n\n\
             [slurm.config]\nResumeTimeout = 1800\nMessageTimeout = 60\nTCPTimeout = 30\n\n[time]\nservers = [\"{TIME_SERVER}\"]\n\n{4}{6}\
             [user.{USER}]\nuid = {USER_ID}\nssh_keys = [\"{3}\"]\n",
            DISKS[0],
            self.site.debian,
            DISKS[1],
            key.trim(),
            self.site.file,
            self.site.cloud,
            if self.site.filer { filer::HOMES } else { "" }
        )
    }

    pub fn filer(&self) -> MutexGuard<'_, Filer> {
        self.filer
            .as_ref()
            .expect("the suite has a file server")
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command as root on a node; it must succeed.
    pub fn on(&self, node: &str, command: &str) -> String {
        self.kiln(&["ssh", node, command]).trim_end().to_string()
    }

    /// Where anybody logs in.
    pub fn login_address(&self) -> String {
        let note = self.path("login-address");
        if !note.exists() {
            let hosts = self.hosts();
            let login = hosts.iter().find(|host| host["name"] == "login-0").expect("login-0");
            std::fs::write(&note, login["public_address"].as_str().expect("a floating address"))
                .expect("a note");
        }
        std::fs::read_to_string(&note).expect("a note")
    }

    /// As the ordinary user. All that goes through the login node is in one connection to it: a login costs an emulated
    /// machine seconds.
    fn ssh(&self, node: &str) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.args([
            "-F",
            "none",
            "-T",
            "-o",
            "BatchMode=yes",
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "ConnectTimeout=120",
        ])
        .args(["-o", "StrictHostKeyChecking=yes"])
        .args(["-o", &format!("HostKeyAlias={node}")])
        .arg("-o")
        .arg(format!("UserKnownHostsFile={}", self.path(".kiln/known_hosts").display()))
        .arg("-i")
        .arg(self.path("user_key"))
        .args(["-l", USER])
        .stdin(Stdio::null());
        ssh
    }

    fn connection(&self) -> String {
        format!("ControlPath={}", self.path("login.sock").display())
    }

    /// A shell script on the login node.
    pub fn try_as_user(&self, script: &str) -> Output {
        let mut ssh = self.ssh("login-0");
        ssh.args(["-o", "ControlMaster=auto", "-o", "ControlPersist=600", "-o", &self.connection()]);
        ssh.args([&self.login_address(), script]).output().expect("ssh runs")
    }

    /// A command on another node, as by `ssh -J`.
    pub fn ssh_through_login(&self, node: &str, command: &str) -> Command {
        let address = self.login_address();
        let jump = format!("ProxyCommand=ssh -F none -o {} -W {node}:22 {address}", self.connection());
        let mut ssh = self.ssh(node);
        ssh.args(["-o", &jump, node, command]);
        ssh
    }

    pub fn as_user(&self, script: &str) -> String {
        let output = self.try_as_user(script);
        assert!(
            output.status.success(),
            "{script:?} as {USER} ended with {}\n{}",
            output.status,
            printed(&output)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_string()
    }

    /// The state in which a job has ended, once its account says so.
    pub fn end_of(&self, job: &str) -> String {
        let mut state = String::new();
        wait("the account of a job is complete", || {
            // A machine with much to do answers late, which Slurm's commands do not wait for.
            let output = self.try_as_user(&format!("sacct -nXP -j {job} -o state"));
            state = String::from_utf8_lossy(&output.stdout).trim_end().to_string();
            !matches!(state.as_str(), "" | "RUNNING" | "PENDING" | "COMPLETING")
        });
        state
    }

    /// Everything of the cluster that the official client can list.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found = project::leftovers(CLUSTER, SUBNET);
        let rules = project::access_rules();
        if volumes() != self.volumes {
            found.push(format!("volumes: {}", volumes()));
        }
        found.extend(rules.iter().filter(|rule| !self.access_rules.contains(rule)).map(ToString::to_string));
        found
    }

    /// Ends the user's connection, which would outlive the test.
    pub fn log_out(&self) {
        let _ = Command::new("ssh")
            .args(["-F", "none", "-O", "exit", "-o", &self.connection(), "login-0"])
            .output();
    }

    /// After a failure: what an administrator would look at first.
    pub fn tell(&self) {
        println!("{}", printed(&self.try_kiln(&["status"])));
        println!("{}", printed(&self.try_kiln(&["events", "--most", "60"])));
    }
}

fn volumes() -> Value {
    project::openstack(&["volume list"]).remove(0)
}

pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        let waited = start.elapsed();
        assert!(waited < LIMIT, "timed out waiting until {what}");
        std::thread::sleep((waited / 8).clamp(Duration::from_millis(200), Duration::from_secs(3)));
    }
}
