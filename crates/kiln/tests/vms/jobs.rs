//! What Slurm does with cgroups and NFS of a real kernel.

use std::process::Stdio;

use kiln_wire::paths::{BACKUPS, SHARE};

use crate::cluster_dir::printed;
use crate::control::Writer;
use crate::lab::{Lab, wait};
use crate::raise::all_well;

/// A node of two cores: a job of one core sees one, and cannot take the other. A job that takes more memory than it asked for is ended, and says so.
pub fn confined(lab: &Lab) {
    let cores = lab.as_user(
        "srun --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=50 bash -c 'nproc; taskset -c 0-1 nproc'",
    );
    assert_eq!(cores, "1\n1");
    let job = lab.as_user(
        "sbatch --parsable --mem=40 --output=/dev/null --wrap 'head -c 200M /dev/zero | tail | wc -c'",
    );
    assert_eq!(lab.end_of(&job), "OUT_OF_MEMORY");
}

/// Only users with a job get onto a compute node; what they run there is in the job's cgroup and ends with it.
pub fn adopted(lab: &Lab) {
    // What is left of a job counts as one.
    let left = || lab.on("standard-1", "pgrep -f '[s]lurmstepd: ' || true");
    wait("nothing is left of earlier jobs", || left().is_empty());
    let refused = lab.ssh_through_login("standard-1", "true").output().expect("ssh runs");
    assert!(!refused.status.success(), "a user without a job logged in to a compute node");
    let said = printed(&refused);
    assert!(
        said.contains("Access denied by pam_slurm_adopt: you have no active jobs on this node"),
        "{said}"
    );
    let id = lab.as_user(
        ": >started; sbatch --parsable --nodelist=standard-0 --mem=100 --output=/dev/null \
         --wrap 'echo x >started; sleep 3600'",
    );
    // Slurm calls a job running before a login finds anything of it there.
    wait("the job has begun", || lab.as_user("cat started") == "x");
    let seen =
        lab.ssh_through_login("standard-0", "cat /proc/self/cgroup; nproc").output().expect("ssh runs");
    assert!(seen.status.success() && printed(&seen).contains(&format!("job_{id}/")), "{}", printed(&seen));
    assert!(printed(&seen).lines().any(|line| line == "1"), "cores: {}", printed(&seen));
    let mut session = lab
        .ssh_through_login("standard-0", "echo in; exec sleep 4321")
        .stdout(Stdio::piped())
        .spawn()
        .expect("ssh runs");
    let mut line = String::new();
    let mut output = std::io::BufReader::new(session.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
    assert_eq!(line, "in\n");
    lab.as_user(&format!("scancel {id}"));
    wait("the session ends with the job", || session.try_wait().expect("ssh").is_some());
}

/// By NFS 4 from control, without set-user-id programs and devices; root of a node is nobody there.
pub fn homes(lab: &Lab) {
    let seen = lab.on(
        "standard-0",
        "findmnt -no FSTYPE,OPTIONS /home; touch /home/demo/by-root || echo squashed; \
         stat -c %U /home/demo; slurmd -C | grep -o 'CPUs=[0-9]*'; scontrol show config | grep -E 'ProctrackType|TaskPlugin '; \
         { slurmd -C; scontrol show node standard-0; } | grep -o 'RealMemory=[0-9]*'; \
         findmnt -no TARGET,FSTYPE,OPTIONS SHARE"
            .replace("SHARE", SHARE)
            .as_str(),
    );
    assert!(seen.starts_with("nfs4") && seen.contains("nosuid,nodev") && seen.contains("vers=4.2"), "{seen}");
    assert!(seen.contains("squashed\ndemo\nCPUs=2\n"), "{seen}");
    assert!(seen.contains("proctrack/cgroup") && seen.contains("task/cgroup,task/affinity"), "{seen}");
    let memory = seen.lines().filter_map(|line| line.strip_prefix("RealMemory=")?.parse::<u32>().ok());
    let [has, promised] = memory.collect::<Vec<_>>()[..] else { panic!("{seen}") };
    assert!(promised <= has && promised * 100 >= has * 95 && has <= 1536, "{seen}");
    let share = seen.lines().last().unwrap_or_default();
    assert!(share.starts_with(SHARE) && share.contains("nfs4") && share.contains("nosuid,nodev"), "{share}");
}

/// Control has no volume for them, no node's root can write there, and a job outlives that the server is away.
pub fn homes_elsewhere(lab: &Lab) {
    for node in ["control", "login-0", "standard-0"] {
        let seen = lab
            .on(node, "findmnt -no SOURCE,FSTYPE,OPTIONS /home; touch /home/demo/by-root || echo squashed");
        assert!(seen.starts_with("172.24.5.1:/home nfs4") && seen.contains("nosuid,nodev"), "{node}: {seen}");
        assert!(seen.contains(",hard,") && seen.ends_with("\nsquashed"), "{node}: {seen}");
    }
    let shared = lab.as_user(
        "srun --nodes=1 --nodelist=standard-0 --mem=50 bash -c 'echo of the first >shared' && \
         srun --nodes=1 --nodelist=standard-1 --mem=50 cat shared",
    );
    assert_eq!(shared, "of the first");
    assert_eq!(lab.filer().read("shared"), "of the first\n");
    let job = Writer::start(lab);
    lab.filer().stop();
    // Whoever writes waits, and is not told that it went wrong.
    lab.on(
        "standard-0",
        "timeout 10 setpriv --reuid=demo --clear-groups touch /home/demo/later; [ $? = 124 ]",
    );
    lab.filer().start();
    job.check();
    job.end();
    wait("all nodes are well", || all_well(lab));
}

/// Root of a compute node takes from control by NFS what it is given, and nothing else.
pub fn exports(lab: &Lab) {
    let try_all = format!(
        "exec 2>&1; mkdir -p /run/try; \
         mount -t nfs4 -o rw control:{SHARE} /run/try && {{ touch /run/try/mine; umount /run/try; }}; \
         for place in /var/lib/state {BACKUPS} /etc /root; do \
         mount -t nfs4 -o retry=0 control:$place /run/try && {{ echo got $place; umount /run/try; }}; done; rmdir /run/try"
    );
    let said = lab.on("standard-0", &try_all);
    assert!(said.contains("Read-only file system") || said.contains("Permission denied"), "{said}");
    assert!(!said.contains("got ") && said.matches("mount.nfs4").count() >= 4, "{said}");
}

/// The clock of one node is wrong: that is told, nothing is done about the server, and all is well once it is right.
pub fn clock(lab: &Lab) {
    let before = lab.hosts();
    lab.on("standard-1", "systemctl stop chrony; date -s '10 minutes'");
    let told = lab.try_kiln(&["--json", "doctor"]);
    let told = printed(&told);
    lab.on("standard-1", "date -s '10 minutes ago'; systemctl start chrony");
    let is_told = |line: &str| line.contains("clock");
    assert!(told.lines().any(is_told) && told.contains("standard-1"), "{told}");
    assert_eq!(lab.hosts(), before);
    lab.as_user("srun --nodes=1 --nodelist=standard-1 --mem=50 true");
}
