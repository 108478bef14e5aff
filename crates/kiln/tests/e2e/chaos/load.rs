//! What users do meanwhile: batch jobs, arrays, jobs on several nodes, jobs that must not run twice, and people who wait
//! in front of `srun`.

use std::process::{Child, Command, Stdio};

use super::checker::now;
use super::random::Random;
use crate::lab::{Lab, USER};

/// More would only wait.
const MOST: usize = 10;

pub struct Load {
    /// What `sbatch` said, and when: these must be found again.
    pub submitted: Vec<(String, i64)>,
    /// People in front of `srun`.
    waiting: Vec<Child>,
}

/// Name and options of a job. The name says what may become of it; behind it comes for how many seconds it runs.
const KINDS: &[(&str, &str)] = &[
    ("batch", "--requeue --partition=standard --nodes=1"),
    ("once", "--no-requeue --partition=standard --nodes=1"),
    ("wide", "--requeue --partition=standard --nodes=2"),
    ("array", "--requeue --partition=standard --nodes=1 --array=0-2"),
    ("burst", "--requeue --partition=burst --nodes=1"),
    ("burst-wide", "--requeue --partition=burst --nodes=2"),
    ("burst-once", "--no-requeue --partition=burst --nodes=1"),
];

/// The name of a job, and for how many seconds it was to run. Rebuild jobs have no such number.
pub fn read_name(name: &str) -> (&str, Option<i64>) {
    match name.rsplit_once('-').map(|(kind, number)| (kind, number.parse())) {
        Some((kind, Ok(seconds))) => (kind, Some(seconds)),
        _ => (name, None),
    }
}

impl Load {
    pub fn new() -> Load {
        Load { submitted: Vec::new(), waiting: Vec::new() }
    }

    /// Fills the queue up again. Nothing is asked of a scheduler that does not answer.
    pub fn top_up(&mut self, lab: &Lab, random: &mut Random) {
        let queue = lab.try_on("control", &["timeout", "5", "squeue", "-h", "-r", "-u", USER, "-o", "%i"]);
        if !queue.status.success() {
            return;
        }
        let active = String::from_utf8_lossy(&queue.stdout).lines().count();
        for _ in active..MOST.min(active + 3) {
            let seconds = random.between(4, 25);
            if random.between(0, 6) == 0 {
                self.sit_down(lab, seconds);
                continue;
            }
            let (name, options) = random.pick(KINDS);
            let line = format!(
                "timeout 20 sbatch --parsable --output=/dev/null --job-name={name}-{seconds} {options} --wrap 'sleep {seconds}'"
            );
            let answer = lab.try_as_user("login-0", &line);
            let id = String::from_utf8_lossy(&answer.stdout).trim().to_string();
            if answer.status.success() && id.parse::<u32>().is_ok() {
                self.submitted.push((id, now()));
            }
        }
    }

    fn sit_down(&mut self, lab: &Lab, seconds: u64) {
        let line = format!(
            "timeout 900 srun --job-name=srun-{seconds} --partition=standard --nodes=1 sleep {seconds}"
        );
        let mut ssh: Command = lab.ssh_command(USER, "login-0", &line);
        let child = ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.waiting.push(child.expect("ssh runs"));
    }

    /// Everybody goes home. Their jobs are judged by the accounts.
    pub fn end(&mut self) {
        for mut child in self.waiting.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}
