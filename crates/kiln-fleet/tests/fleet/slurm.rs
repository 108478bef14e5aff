//! Slurm's commands as small scripts over files; the test plays slurmctld.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct PretendSlurm {
    pub dir: PathBuf,
}

const SCONTROL: &str = r#"
case "$1 $2" in
    "--version ") cat "$D/version" ;;
    "show partition")
        case $3 in rebuild) only=YES ;; *) only=NO ;; esac
        echo "PartitionName=$3 Nodes=n-[0-2] RootOnly=$only MaxTime=00:20:00 State=UP" ;;
    "update "*) if [ -e "$D/deaf" ]; then
        echo "slurm_update error: Unable to contact slurm controller (connect failure)" >&2
        exit 1
    fi ;;
    "show node") if [ "$3" = --oneliner ]; then cat "$D"/nodes/*; else cat "$D/nodes/$3"; fi ;;
esac"#;
const SBATCH: &str = r#"
if [ -e "$D/full" ]; then
    echo "sbatch: error: AssocMaxSubmitJobLimit" >&2
    echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)" >&2
    exit 1
fi
for argument; do
    case $argument in --comment=*) comment=${argument#*=} ;; esac
done
id=$(($(ls "$D/jobs" | wc -l) + 1))
echo "PENDING|$comment|Resources" >"$D/jobs/$id"
echo "$id""#;
/// Files have `|x9|` where it prints what it was asked to put between fields.
const SQUEUE: &str = r#"
for argument; do
    case $argument in --format=*) delimiter=${argument#--format=%?} ;; esac
done
delimiter=${delimiter%%\%*}
case $* in
    *%W*) [ ! -e "$D/licenses" ] || cat "$D/licenses" ;;
    *%V*) [ ! -e "$D/queue" ] || cat "$D/queue" ;;
    *) for job in "$D"/jobs/*; do
        [ ! -e "$job" ] || echo "${job##*/}|$(cat "$job")" | sed 's/|/|x9|/g'
    done ;;
esac | sed "s/|x9|/$delimiter/g""#;
const SETPRIV: &str = r#"
while [ "$1" != -- ]; do shift; done
shift
exec "$@""#;
const SACCT: &str = r#"
for argument; do
    case $argument in --delimiter=*) delimiter=${argument#*=} ;; esac
done
[ ! -e "$D/history" ] || sed "s/|x9|/$delimiter/g" "$D/history""#;
const SACCTMGR: &str = "case $* in *name=operator*) echo Operator ;; *) echo None ;; esac";
const SCANCEL: &str = r#"
for argument; do job=$argument; done
sed -i s/PENDING/CANCELLED/ "$D/jobs/$job""#;

impl PretendSlurm {
    pub fn new(dir: &Path, nodes: &[&str]) -> Self {
        let slurm = PretendSlurm { dir: dir.join("slurm") };
        for sub in ["jobs", "nodes"] {
            fs::create_dir_all(slurm.dir.join(sub)).unwrap();
        }
        let scripts = [
            ("scontrol", SCONTROL),
            ("sbatch", SBATCH),
            ("squeue", SQUEUE),
            ("scancel", SCANCEL),
            ("sacct", SACCT),
            ("setpriv", SETPRIV),
            ("id", "echo 4711"),
            ("sacctmgr", SACCTMGR),
        ];
        let (texts, to) = (dir.join("scripts"), slurm.dir.display());
        fs::create_dir(&texts).unwrap();
        for (name, body) in scripts {
            let log = format!("echo \"{name} $*\" >>'{to}/calls'");
            fs::write(texts.join(name), format!("#!/bin/sh\nD='{to}'\n{log}\n{body}\n")).unwrap();
        }
        // Another process writes what is run: programs that other threads start meanwhile would have a file of this one open
        // for writing, and it could not be run.
        let mut install = Command::new("install");
        install.args(["--mode=755", "--target-directory"]).arg(&slurm.dir);
        install.args(scripts.map(|(name, _)| texts.join(name)));
        assert!(install.status().unwrap().success());
        slurm.is_of_release("22.05.8");
        for node in nodes {
            slurm.node(node, "IDLE", "2020-01-01T00:00:00");
        }
        slurm
    }

    pub fn is_of_release(&self, release: &str) {
        fs::write(self.dir.join("version"), format!("slurm-wlm {release}\n")).unwrap();
    }

    pub fn node(&self, name: &str, state: &str, booted: &str) {
        let line = format!("NodeName={name} State={state} BootTime={booted}\n");
        replace(&self.dir.join("nodes").join(name), &line);
    }

    /// Slurm has called the reboot hook and waits for the node.
    pub fn waits_for_boot(&self, name: &str) {
        let path = self.dir.join("nodes").join(name);
        let text = fs::read_to_string(&path).unwrap();
        if !text.contains("+REBOOT_ISSUED") {
            replace(&path, &text.replacen(" BootTime=", "+REBOOT_ISSUED BootTime=", 1));
        }
    }

    /// From now on `sbatch` is refused because of a limit, or no more.
    pub fn is_full(&self, full: bool) {
        let path = self.dir.join("full");
        if full { fs::write(path, "").unwrap() } else { fs::remove_file(path).unwrap() }
    }

    /// What `squeue` says of licences: lines of job, partition and licences.
    pub fn licenses(&self, lines: &str) {
        fs::write(self.dir.join("licenses"), lines).unwrap();
    }

    /// What `squeue` says of all jobs that are not over.
    pub fn queue(&self, lines: &str) {
        fs::write(self.dir.join("queue"), lines).unwrap();
    }

    pub fn job_waits_for(&self, id: u64, reason: &str) {
        let path = self.dir.join("jobs").join(id.to_string());
        let text = fs::read_to_string(&path).unwrap();
        let (rest, _) = text.rsplit_once('|').unwrap();
        replace(&path, &format!("{rest}|{reason}\n"));
    }

    /// The node has just booted.
    pub fn registers(&self, name: &str) {
        let now = jiff::Timestamp::now().to_string();
        self.node(name, "IDLE", &now[..19]);
    }

    /// Id, state and comment of every job.
    pub fn jobs(&self) -> Vec<(u64, String, String)> {
        let mut jobs: Vec<_> = fs::read_dir(self.dir.join("jobs"))
            .unwrap()
            .filter_map(|entry| {
                let entry = entry.unwrap();
                let text = fs::read_to_string(entry.path()).ok()?;
                let mut words = text.split('|');
                let id = entry.file_name().to_str()?.parse().ok()?;
                Some((id, words.next()?.to_string(), words.next()?.to_string()))
            })
            .collect();
        jobs.sort();
        jobs
    }

    pub fn job_becomes(&self, id: u64, state: &str) {
        let path = self.dir.join("jobs").join(id.to_string());
        let text = fs::read_to_string(&path).unwrap();
        let (_, rest) = text.split_once('|').unwrap();
        replace(&path, &format!("{state}|{rest}"));
    }

    /// slurmctld does not answer those who want something changed.
    pub fn deaf(&self, is_deaf: bool) {
        let mark = self.dir.join("deaf");
        if is_deaf { fs::write(mark, "") } else { fs::remove_file(mark) }.unwrap();
    }

    pub fn calls(&self, start: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("calls")).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(start)).map(String::from).collect()
    }
}

/// A script that reads meanwhile sees the old or the new, never a half.
fn replace(path: &Path, text: &str) {
    let beside = path.parent().unwrap().parent().unwrap().join("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}
