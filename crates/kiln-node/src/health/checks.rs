//! What is looked at. Each part has a thread of its own and a time to end in: a file server that is gone makes whoever asks
//! for its files hang, and is told of all the same.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kiln_wire::AppliedResult;
use kiln_wire::health_check::{HealthCheck, MountCheck, Size};

use super::clock;
use crate::checkup::{last_words, place, service_problems};
use crate::{explain, mounts, process, state};

/// For each part, the site's commands as well.
const LIMIT: Duration = Duration::from_secs(15);
/// How long a bundle that could not be applied whole may stand, until somebody has seen to it.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Longer names of commands are cut in a reason.
const SHORT: usize = 60;

/// What is wrong with this node, in the words that a person can act on.
pub fn problems(asked: &HealthCheck) -> Vec<String> {
    let mut parts: Vec<Part> = Vec::new();
    for mount in &asked.mounts {
        let mount = mount.clone();
        parts.push(Part::start(mount.path.clone(), move || mount_problem(&mount)));
    }
    for path in &asked.places {
        let path = path.clone();
        parts.push(Part::start(path.clone(), move || place_problem(&path)));
    }
    for line in &asked.commands {
        let line = line.clone();
        parts.push(Part::start(shortened(&line), move || command_problem(&line)));
    }
    if asked.clock {
        parts.push(Part::start("chrony".into(), clock::problem));
    }
    let services = asked.services.clone();
    if !services.is_empty() {
        parts.push(Part::start("systemd".into(), move || {
            let texts: Vec<String> =
                service_problems(&services).into_iter().map(|problem| problem.text).collect();
            (!texts.is_empty()).then(|| texts.join("; "))
        }));
    }
    let deadline = Instant::now() + LIMIT;
    let mut found: Vec<String> = asked.size.and_then(size_problem).into_iter().collect();
    found.extend(gpu_problem(asked.gpus));
    found.extend(asked.bundle.then(bundle_problem).flatten());
    found.extend(parts.into_iter().filter_map(|part| part.wait(deadline)));
    found
}

struct Part {
    name: String,
    answer: Receiver<Option<String>>,
}

impl Part {
    fn start(name: String, look: impl FnOnce() -> Option<String> + Send + 'static) -> Part {
        let (sender, answer) = channel();
        // Not waited for: it may never end.
        thread::spawn(move || sender.send(look()));
        Part { name, answer }
    }

    fn wait(self, deadline: Instant) -> Option<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        let silent = || Some(format!("{} does not answer within {} s", self.name, LIMIT.as_secs()));
        self.answer.recv_timeout(left).unwrap_or_else(|_| silent())
    }
}

fn mount_problem(asked: &MountCheck) -> Option<String> {
    let path = &asked.path;
    match mounts::mounted_at(path) {
        Err(error) => return Some(format!("the table of mounts cannot be read: {error}")),
        Ok(None) => {
            mount_again(path);
            return Some(format!("{path} is not mounted"));
        }
        Ok(Some(now)) if now.read_only && asked.writable => return Some(format!("{path} is read-only")),
        Ok(Some(_)) => {}
    }
    // The server has to answer.
    rustix::fs::statvfs(path.as_str()).err().map(|error| format!("{path} cannot be read: {error}"))
}

/// One that could not be mounted: its server may be back, which the second look sees. One that somebody has unmounted stays so.
fn mount_again(path: &str) {
    let unit = crate::apply::unit_of(path, "mount");
    if process::call(&["systemctl", "--quiet", "is-failed", &unit]).is_ok() {
        let _ = process::call(&["systemctl", "--no-block", "start", &unit]);
    }
}

fn place_problem(path: &str) -> Option<String> {
    let room = place(path)?;
    if room.is_full() {
        return Some(format!("the file system of {path} is full: {} MiB left", room.free_bytes >> 20));
    }
    let file = Path::new(path).join(format!(".kiln-health-{}", std::process::id()));
    match OpenOptions::new().write(true).create_new(true).open(&file) {
        Ok(_) => std::fs::remove_file(&file).err(),
        // Users may write here, too: what somebody else has put there shows that one can.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => None,
        Err(error) => Some(error),
    }
    .map(|error| format!("{path} cannot be written to: {error}"))
}

fn command_problem(line: &str) -> Option<String> {
    let said = match process::run(&["sh", "-c", line], None, LIMIT) {
        Ok(output) if output.success() => return None,
        Ok(output) => Some(last_words(&output)).filter(|words| !words.is_empty()).unwrap_or(output.status),
        Err(error) => explain(&error),
    };
    Some(format!("`{}`: {said}", shortened(line)))
}

fn shortened(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SHORT { line } else { line.chars().take(SHORT).chain("...".chars()).collect() }
}

fn size_problem(promised: Size) -> Option<String> {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").map_or(0, |text| online(&text));
    let memory = std::fs::read_to_string("/proc/meminfo").map_or(0, |text| memory_mib(&text));
    if cpus < promised.cpus {
        return Some(format!("{cpus} CPUs are online, slurm.conf has {}", promised.cpus));
    }
    (memory < promised.memory_mib)
        .then(|| format!("there are {memory} MiB of memory, slurm.conf has {}", promised.memory_mib))
}

/// Of a list such as `0-3,5`.
fn online(list: &str) -> u32 {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let count = |range: &str| match range.split_once('-') {
        Some((first, last)) => Some((number(last)? + 1).saturating_sub(number(first)?)),
        None => number(range).map(|_| 1),
    };
    list.split(',').filter_map(count).sum()
}

fn memory_mib(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

/// NVIDIA's are `/dev/nvidia0` and so on; others have a node for rendering.
fn gpu_problem(promised: u32) -> Option<String> {
    if promised == 0 {
        return None;
    }
    let there = count_devices("/dev", "nvidia").max(count_devices("/dev/dri", "renderD"));
    (there < promised).then(|| format!("{there} GPUs are there, slurm.conf has {promised}"))
}

fn count_devices(folder: &str, prefix: &str) -> u32 {
    let is_one = |name: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    u32::try_from(names.filter(|name| name.to_str().is_some_and(is_one)).count()).unwrap_or(u32::MAX)
}

/// A node that has joined stays when a later bundle fails on it, but not for ever.
fn bundle_problem() -> Option<String> {
    let applied = state::applied(Path::new("/"))?;
    let is_old = applied.time + PATIENCE < Timestamp::now();
    (applied.result == AppliedResult::Failed && is_old)
        .then(|| "its last bundle was applied in part: `kiln configure` tells what failed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(lines: &[&str]) -> Vec<String> {
        let commands = lines.iter().map(ToString::to_string).collect();
        problems(&HealthCheck { commands, ..HealthCheck::default() })
    }

    #[test]
    fn commands_of_the_site_fail_with_their_last_words() {
        assert_eq!(commands(&["true", "test -d /"]), [""; 0]);
        assert_eq!(
            commands(&["echo first; echo no link on ib0 >&2; exit 3", "false"]),
            ["`echo first; echo no link on ib0 >&2; exit 3`: no link on ib0", "`false`: ended with status 1"]
        );
        let long = format!("false {}", "x".repeat(100));
        assert!(commands(&[&long])[0].starts_with(&format!("`false {}...`", "x".repeat(54))));
    }

    #[test]
    fn what_does_not_answer_is_told_of() {
        let part = Part::start("/scratch".into(), || {
            thread::sleep(Duration::from_secs(60));
            None
        });
        let said = part.wait(Instant::now() + Duration::from_millis(10));
        assert_eq!(said.as_deref(), Some("/scratch does not answer within 15 s"));
    }

    #[test]
    fn mounts_and_places() {
        let mount = |path: &str, writable| mount_problem(&MountCheck { path: path.into(), writable });
        assert_eq!(mount("/no/such", true).as_deref(), Some("/no/such is not mounted"));
        assert_eq!(mount("/proc", false), None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert_eq!(place_problem(path), None);
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "nothing is left");
        assert!(place_problem("/proc").is_some_and(|text| text.starts_with("/proc cannot be written to")));
        assert_eq!(place_problem("/no/such"), None, "what is not there is not judged");
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!([online("0\n"), online("0-3"), online("0-1,4-5,7")], [1, 4, 5]);
        assert_eq!(memory_mib("MemTotal:        2048000 kB\nMemFree: 1 kB\n"), 2000);
        assert_eq!(size_problem(Size { cpus: 1, memory_mib: 1 }), None);
        let few = size_problem(Size { cpus: 100_000, memory_mib: 1 }).unwrap();
        assert!(few.ends_with("CPUs are online, slurm.conf has 100000"), "{few}");
    }

    #[test]
    fn gpus_are_devices_with_a_number() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(count_devices(folder.path().to_str().unwrap(), "nvidia"), 2);
        assert_eq!(gpu_problem(0), None);
    }
}
