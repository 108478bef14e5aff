//! Slurm's Epilog on compute nodes whose Slurm cannot keep a login inside a job: when a user's last job on the node ends, what
//! the user has left there ends too. slurmd runs it as root.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{explain, process};

/// How long processes have to end by themselves.
const GRACE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(20);

/// Jobs that hold the node. One that is completing does not.
const STATES: &str = "--states=RUNNING,CONFIGURING,SUSPENDED,STOPPED,RESIZING,SIGNALING";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    uid: u32,
    name: String,
}

/// Never an error for slurmd, which would drain the node.
pub fn run() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let Some(uid) = variable("SLURM_JOB_UID").parse().ok().filter(|uid| is_person(*uid)) else { return };
    let node = match variable("SLURMD_NODENAME") {
        name if name.is_empty() => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        name => name,
    };
    match has_other_job(uid, &node, &variable("SLURM_JOB_ID")) {
        Ok(true) => {}
        Ok(false) => end(uid),
        Err(reason) => crate::boot::say(&format!("the processes of user {uid} were left alone: {reason}")),
    }
}

/// Systems give their own users other numbers.
fn is_person(uid: u32) -> bool {
    uid >= 1000 && !(60_001..=65_535).contains(&uid)
}

fn has_other_job(uid: u32, node: &str, job: &str) -> Result<bool, String> {
    let (user, node) = (format!("--user={uid}"), format!("--nodelist={node}"));
    let argv = ["squeue", "--all", "--noheader", "--format=%A", STATES, &user, &node];
    let output = process::run(&argv, None, LIMIT).and_then(process::Output::checked);
    let output = output.map_err(|error| explain(&error))?;
    Ok(output.stdout.split_whitespace().any(|other| other != job))
}

fn end(uid: u32) {
    let start = Instant::now();
    for pid in left_by(uid, &processes()) {
        signal(pid, Signal::TERM);
    }
    loop {
        let left = left_by(uid, &processes());
        if left.is_empty() || start.elapsed() > 2 * GRACE {
            return;
        }
        if start.elapsed() > GRACE {
            for pid in left {
                signal(pid, Signal::KILL);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// The user's processes that are not a job's: a new one may have begun in the meantime.
fn left_by(uid: u32, processes: &[Process]) -> Vec<i32> {
    let by_pid: HashMap<i32, &Process> = processes.iter().map(|process| (process.pid, process)).collect();
    let is_of_a_job = |process: &Process| {
        let mut above = by_pid.get(&process.parent);
        // No tree is as deep as there are processes.
        for _ in 0..processes.len() {
            match above {
                // Anyone may call a program so, but only root's is Slurm's.
                Some(ancestor) if ancestor.uid == 0 && ancestor.name == "slurmstepd" => return true,
                Some(ancestor) => above = by_pid.get(&ancestor.parent),
                None => return false,
            }
        }
        false
    };
    let own = processes.iter().filter(|process| process.uid == uid);
    own.filter(|process| !is_of_a_job(process)).map(|process| process.pid).collect()
}

fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let statuses = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
    statuses.filter_map(|text| parse(&text)).collect()
}

fn parse(status: &str) -> Option<Process> {
    let field = |name: &str| {
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.split_whitespace().next())
    };
    // A process that has ended and is not yet collected cannot be ended again.
    if field("State") == Some("Z") {
        return None;
    }
    Some(Process {
        pid: field("Pid")?.parse().ok()?,
        parent: field("PPid")?.parse().ok()?,
        uid: field("Uid")?.parse().ok()?,
        name: field("Name")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, uid: u32, name: &str) -> Process {
        Process { pid, parent, uid, name: name.into() }
    }

    #[test]
    fn sessions_end_and_jobs_do_not() {
        let processes = [
            process(1, 0, 0, "systemd"),
            process(10, 1, 0, "sshd"),
            process(11, 10, 2001, "sshd"),
            process(12, 11, 2001, "bash"),
            process(20, 1, 0, "slurmstepd"),
            process(21, 20, 2001, "slurm_script"),
            process(22, 21, 2001, "python"),
            // A user who tries to look like Slurm, and one whose parent is unknown.
            process(30, 1, 2001, "slurmstepd"),
            process(31, 30, 2001, "miner"),
            process(40, 99, 2001, "nohup"),
            process(50, 1, 2002, "bash"),
        ];
        assert_eq!(left_by(2001, &processes), [11, 12, 30, 31, 40]);
        assert_eq!(left_by(2002, &processes), [50]);
    }

    #[test]
    fn the_systems_own_users_are_left_alone() {
        assert!(is_person(1000) && is_person(60_000) && is_person(1_000_000));
        assert!(!is_person(0) && !is_person(999) && !is_person(64_030) && !is_person(65_534));
    }

    #[test]
    fn a_process_is_read() {
        let text = "Name:\tbash\nState:\tS (sleeping)\nPid:\t12\nPPid:\t11\nUid:\t2001\t2001\t2001\t2001\n";
        assert_eq!(parse(text), Some(process(12, 11, 2001, "bash")));
        assert_eq!(parse(&text.replace("S (sleeping)", "Z (zombie)")), None);
        assert!(processes().iter().any(|own| own.pid == rustix::process::getpid().as_raw_nonzero().get()));
    }
}
