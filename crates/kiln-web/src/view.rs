//! What is sent and received: one type for everything that the API speaks of.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::describe::described;

described! {
    /// What a node does, in one word.
    pub enum NodeKind {
        /// In service, without jobs.
        Idle = "idle",
        /// Jobs have some of its cores.
        Mixed = "mixed",
        /// Jobs have all of its cores.
        Allocated = "allocated",
        /// It was started or rebooted, and Slurm waits for it.
        Booting = "booting",
        /// A rollout has it in work.
        Rebuilding = "rebuilding",
        /// Of an elastic group, and not needed.
        Off = "off",
        /// It takes no new jobs, and still has some.
        Draining = "draining",
        /// It takes no jobs, and has none.
        Drained = "drained",
        /// Reserved for maintenance.
        Maintenance = "maintenance",
        /// Slurm has given it up.
        Down = "down",
        /// Slurm does not know it, or cannot be asked.
        Unknown = "unknown",
    }
}

described! {
    /// How bad a finding is.
    pub enum Severity {
        /// Somebody has to do something.
        Broken = "broken",
        /// Kiln does something about it.
        Warning = "warning",
        /// It may yet turn out well by itself.
        Note = "note",
    }
}

described! {
    /// Something that is not as it should be.
    pub struct Finding {
        pub severity: Severity,
        /// A node, a group, an instance, or `kilnd`.
        pub subject: String,
        /// What was seen.
        pub text: String,
        /// What Kiln does about it, as a sentence.
        pub next: String,
        /// When that happens.
        pub due: Option<Timestamp>,
        pub since: Option<Timestamp>,
    }
}

described! {
    /// A compute node, as Slurm and the cloud have it.
    pub struct Node {
        pub name: String,
        pub group: String,
        /// It is created when jobs need it, and deleted when they do not.
        pub elastic: bool,
        pub kind: NodeKind,
        /// Slurm's state with all flags; `null`: unknown to Slurm.
        pub state: Option<String>,
        pub partitions: Vec<String>,
        pub cpus: u32,
        pub cpus_allocated: u32,
        pub memory_mib: u64,
        /// Why it is drained or down, in the words of whoever did that.
        pub reason: Option<String>,
        pub reason_by: Option<String>,
        pub booted: Option<Timestamp>,
        pub slurmd_started: Option<Timestamp>,
        pub address: Option<String>,
        pub image: Option<String>,
        /// The cloud's word for its instance; `null`: there is none.
        pub instance: Option<String>,
        pub finding: Option<Finding>,
    }
}

described! {
    /// What Slurm asked of Kiln for a node, and is not done yet.
    pub struct Request {
        pub kind: String,
        pub state: String,
        pub received: Timestamp,
        pub attempts: u32,
        pub error: Option<String>,
    }
}

described! {
    /// The end of an instance's console.
    pub struct Console {
        pub instance: String,
        pub lines: Vec<String>,
    }
}

described! {
    /// All there is to know of one node.
    pub struct NodeDetail {
        pub node: Node,
        /// What is to be said of it, as a sentence.
        pub verdict: String,
        /// What Kiln does about it, as a sentence.
        pub next: String,
        pub requests: Vec<Request>,
        pub consoles: Vec<Console>,
        /// Its life, newest first.
        pub timeline: Vec<Event>,
    }
}

described! {
    /// Who has to do something before a job can start.
    pub enum Needs {
        /// Nobody: it starts by itself.
        Time = "time",
        /// Whoever submitted it.
        Owner = "owner",
        /// An administrator of the cluster.
        Administrator = "administrator",
        /// Kiln does not know this reason.
        Unknown = "unknown",
    }
}

described! {
    /// Why a job waits.
    pub struct Waiting {
        /// Slurm's word.
        pub reason: String,
        /// The same as a sentence.
        pub text: String,
        pub needs: Needs,
    }
}

described! {
    /// A job that waits or runs. Members of an array that wait are one job.
    pub struct Job {
        pub id: String,
        pub name: String,
        pub user: String,
        pub account: String,
        pub partition: String,
        pub qos: String,
        /// Slurm's word.
        pub state: String,
        pub priority: u64,
        pub nodes: u32,
        pub cpus: u32,
        pub submitted: Option<Timestamp>,
        /// When it began, or when Slurm expects it to begin.
        pub start: Option<Timestamp>,
        pub time_limit: String,
        /// Where it runs, as a hostlist.
        pub nodelist: String,
        /// Only of a job that waits.
        pub waiting: Option<Waiting>,
    }
}

described! {
    /// Nodes being moved to another image, through Slurm.
    pub struct Rollout {
        pub id: i64,
        pub created: Timestamp,
        pub finished: Option<Timestamp>,
        /// `running`, `paused`, `halting`, `aborting`, `rolling_back`, `done`, `halted`, `aborted` or `rolled_back`.
        pub state: String,
        /// The state as a sentence.
        pub message: String,
        pub is_open: bool,
        pub total: usize,
        pub pending: usize,
        pub in_flight: usize,
        pub done: usize,
        pub failed: usize,
        pub skipped: usize,
        /// `job` or `drain`.
        pub strategy: String,
        /// This many nodes go first; 0: none.
        pub canary: usize,
        /// At most this many at a time; 0: no limit.
        pub max_unavailable: usize,
        /// It stops after this many failures; 0: never.
        pub halt_after: usize,
    }
}

described! {
    /// A node of a rollout.
    pub struct RolloutNode {
        pub rollout: i64,
        pub node: String,
        /// In the order of their turns, from 0.
        pub position: usize,
        /// `pending`, `submitted`, `draining`, `rebuilding`, `booting`, `checking`, `done`, `failed` or `skipped`.
        pub step: String,
        /// The step in words, with its job or its reason.
        pub text: String,
        pub since: Timestamp,
        pub previous: Option<String>,
        pub target: Option<String>,
    }
}

described! {
    /// A rollout with its nodes.
    pub struct RolloutDetail {
        pub rollout: Rollout,
        pub nodes: Vec<RolloutNode>,
    }
}

described! {
    /// Something that Kiln did, or that somebody had it do.
    pub struct Event {
        pub id: i64,
        pub time: Timestamp,
        /// Empty where it is about no single node.
        pub node: String,
        pub what: String,
        pub why: String,
        pub outcome: String,
    }
}

described! {
    /// A group of nodes with the same properties.
    pub struct Group {
        pub name: String,
        pub elastic: bool,
        /// By kind.
        pub nodes: BTreeMap<String, usize>,
    }
}

described! {
    /// The cluster at a glance.
    pub struct Overview {
        pub cluster: String,
        /// The release of Kiln on control.
        pub version: String,
        /// When Slurm and the cloud were last asked.
        pub observed: Timestamp,
        /// When kilnd last compared Slurm with the cloud.
        pub last_check: Option<Timestamp>,
        /// By kind.
        pub nodes: BTreeMap<String, usize>,
        pub groups: Vec<Group>,
        pub cpus: u64,
        pub cpus_allocated: u64,
        pub jobs_running: usize,
        pub jobs_waiting: usize,
        /// How many of these jobs can be listed; the queue may be longer.
        pub jobs_listed: usize,
        /// Worst first.
        pub findings: Vec<Finding>,
    }
}

described! {
    /// An image that nodes can have.
    pub struct Image {
        pub id: String,
        pub name: String,
        /// `null`: Kiln has not built it.
        pub built: Option<Timestamp>,
        pub size_mib: u64,
        /// What it was built on, the nearest first.
        pub descent: Vec<String>,
        /// What it has on top of that: roles and sets of software.
        pub software: Vec<String>,
        /// How many there are.
        pub packages: usize,
        /// It was built to be tested, and stands for no recipe yet.
        pub is_test: bool,
    }
}

described! {
    /// A package of an image.
    pub struct Package {
        pub name: String,
        pub version: String,
    }
}

described! {
    /// An image with its packages.
    pub struct ImageDetail {
        pub image: Image,
        /// By name.
        pub packages: Vec<Package>,
    }
}

described! {
    /// A group whose nodes are created when jobs need them.
    pub struct ElasticGroup {
        pub name: String,
        /// How many it may have.
        pub nodes: usize,
        /// Nodes in a row that did not come up.
        pub failures: u32,
        /// Kiln asks the cloud for no node before.
        pub paused_until: Option<Timestamp>,
        /// Why the last one did not come up, in the cloud's words.
        pub problem: Option<String>,
        pub last_failure: Option<Timestamp>,
    }
}

described! {
    /// What Slurm asked for a node of an elastic group.
    pub struct PowerRequest {
        pub node: String,
        pub group: String,
        /// `resume`, `suspend`, `give-up` or `take-back`.
        pub kind: String,
        /// The jobs that wait for the node, with commas.
        pub jobs: Option<String>,
        pub received: Timestamp,
        /// When the cloud was asked.
        pub began: Option<Timestamp>,
        pub finished: Option<Timestamp>,
        /// `queued`, `working`, `done` or `failed`.
        pub state: String,
        /// What went wrong, or why nothing was done.
        pub error: Option<String>,
    }
}

described! {
    /// How long the queue was.
    pub struct QueueLength {
        pub time: Timestamp,
        pub running: usize,
        pub waiting: usize,
    }
}

described! {
    /// Nodes that come and go with the queue.
    pub struct Elastic {
        pub groups: Vec<ElasticGroup>,
        /// Of the last day, newest first; 2,000 at most.
        pub requests: Vec<PowerRequest>,
        /// Of every minute of the last day in which kilnd has run, oldest first.
        pub queue: Vec<QueueLength>,
    }
}

described! {
    /// What instances have used in some time.
    pub struct Used {
        /// How long they have run, together.
        pub seconds: u64,
        /// In millionths of the unit of the file's prices; `null`: the file has no prices.
        pub cost_millionths: Option<u64>,
    }
}

described! {
    /// What the instances of a compute group have used.
    pub struct GroupUsage {
        pub group: String,
        /// In the last 24 hours.
        pub day: Used,
        /// In the last 7 days.
        pub week: Used,
        /// In the last 30 days.
        pub month: Used,
    }
}

described! {
    /// The queue and the instances over time, as far as kilnd was there to see.
    pub struct UsageReport {
        /// Of the last day in steps of 5 minutes, oldest first, each with its highest numbers.
        pub queue: Vec<QueueLength>,
        /// By group.
        pub usage: Vec<GroupUsage>,
    }
}

described! {
    /// A unit of systemd.
    pub struct HealthUnit {
        pub name: String,
        /// systemd's words: `active (running)`.
        pub state: String,
        pub since: Option<Timestamp>,
        /// The end of its journal, if something is wrong with its service.
        pub journal: Vec<String>,
    }
}

described! {
    /// A service of a control or login node.
    pub struct HealthService {
        pub name: String,
        /// What is wrong with it; empty: nothing.
        pub problems: Vec<String>,
        pub units: Vec<HealthUnit>,
    }
}

described! {
    /// A file system.
    pub struct Disk {
        pub path: String,
        pub bytes: u64,
        pub free_bytes: u64,
        /// 0 where it does not count them.
        pub files: u64,
        pub free_files: u64,
        pub is_nearly_full: bool,
        /// Programs that write there fail, or soon will.
        pub is_full: bool,
    }
}

described! {
    /// A certificate that a node shows others, or trusts others by.
    pub struct Certificate {
        pub name: String,
        /// `null`: it cannot be read.
        pub ends: Option<Timestamp>,
        /// In less than 14 days, or it has ended.
        pub ends_soon: bool,
    }
}

described! {
    /// A control or login node, as it reports on itself every minute.
    pub struct HealthNode {
        pub name: String,
        /// `control` or `login`.
        pub role: String,
        /// When it made this report.
        pub reported: Option<Timestamp>,
        /// The report is old: how things are now is not known.
        pub is_stale: bool,
        /// Why there is no newer report.
        pub problem: Option<String>,
        /// How many seconds its clock is ahead of control's; `null`: it is control, or not known.
        pub clock_ahead: Option<i64>,
        /// Those with a problem first.
        pub services: Vec<HealthService>,
        pub disks: Vec<Disk>,
        pub certificates: Vec<Certificate>,
    }
}

described! {
    /// How control and login nodes are.
    pub struct Health {
        /// Control first.
        pub nodes: Vec<HealthNode>,
    }
}

described! {
    /// What has changed since the message before; the first one has everything.
    pub struct Change {
        /// `null`: the same as before.
        pub overview: Option<Overview>,
        /// New ones and those that have changed.
        pub nodes: Vec<Node>,
        pub nodes_gone: Vec<String>,
        pub jobs: Vec<Job>,
        pub jobs_gone: Vec<String>,
        pub rollouts: Vec<Rollout>,
        /// Of rollouts that are not over, and of the newest.
        pub rollout_nodes: Vec<RolloutNode>,
        /// Oldest first.
        pub events: Vec<Event>,
    }
}

described! {
    /// Who is logged in.
    pub struct Session {
        pub cluster: String,
        pub name: String,
        /// `viewer` or `operator`.
        pub role: String,
        pub expires: Timestamp,
        /// To be sent as the header `X-Kiln-Csrf` with every change; `null` for a token, which needs none.
        pub csrf: Option<String>,
    }
}

described! {
    /// What lets somebody in.
    pub struct Login {
        /// A token, or the word of a one-time login.
        pub token: String,
    }
}

described! {
    /// Logins besides tokens and `kiln dashboard`.
    pub struct Logins {
        /// The host of the site's OpenID Connect provider: `/login/oidc` leads a browser there.
        pub provider: Option<String>,
    }
}

described! {
    /// Why something was not done.
    pub struct Failure {
        pub error: String,
    }
}

described! {
    /// A node that Prometheus is to ask.
    pub struct Target {
        /// Where it listens.
        pub targets: Vec<String>,
        pub labels: TargetLabels,
    }
}

described! {
    /// The labels of a node's series.
    pub struct TargetLabels {
        /// The node.
        pub instance: String,
        pub role: String,
        pub group: String,
    }
}
