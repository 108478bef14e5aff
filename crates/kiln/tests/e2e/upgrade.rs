//! From a Slurm to one that takes over what it has written: Debian 13 to testing. Jobs run and wait meanwhile.

use std::path::PathBuf;

use crate::behind::{cloud, only};
use crate::cut::interrupt;
use crate::lab::{Lab, cloud_root, read, wait};

/// Everything that Slurm's accounts know of ended jobs, and who may submit them.
fn past(lab: &Lab) -> String {
    lab.on(
        "control",
        &["sacct -a -D -nXP -S 2026-01-01 -o jobid,user,account,state,exitcode,submit,start,end | grep -v '|RUNNING|\\||PENDING|'; \
           sacctmgr -nP show assoc format=cluster,account,user,partition,qos | sort"],
    )
}

fn queue(lab: &Lab) -> String {
    lab.on("control", &["squeue -ah -S i -o '%i %T %u %j'"])
}

fn reservations(lab: &Lab) -> String {
    lab.on("control", &["scontrol show reservation --oneliner"])
}

fn release_of(lab: &Lab, node: &str) -> String {
    lab.on(node, &["sinfo --version"])
}

/// slurmdbd may not change its tables, so the new one cannot convert them. The old image, the database and the queue come
/// back without a word from anybody; a job runs through all of it.
pub fn fails(lab: &mut Lab) {
    lab.on("control", &["sacctmgr", "--immediate", "add", "account", "physics"]);
    lab.on("control", &["sacctmgr", "--immediate", "add", "user", "demo", "account=physics"]);
    let running = lab.submit(
        "--nodes=2 --exclusive --output=running.%j",
        "until test -e go; do sleep 0.2; done; echo survived",
    );
    lab.wait_job(&running, "RUNNING");
    let waiting = lab.submit("--nodes=2 --exclusive --output=waiting.%j", "echo came through");
    wait("the accounts know both", || {
        lab.on("control", &[&format!("sacct -a -nXP -j {running},{waiting} -o jobid | wc -l")]) == "2"
    });
    std::fs::write(lab.path("jobs"), format!("{running} {waiting}")).expect("a file");

    lab.edit("source = \"trixie\"", "source = \"forky\"");
    lab.kiln(&["image", "build", "default"]);
    let plan = lab.kiln(&["plan"]);
    assert!(
        plan.contains("~ control: upgrade Slurm 24.11.5 -> 26.05.") && plan.contains("make a backup"),
        "{plan}"
    );
    let software = plan.lines().find(|line| line.contains("software of control")).unwrap_or_default();
    assert!(software.contains("slurm 24.11.") && software.contains(" -> 26.05."), "{plan}");
    let refused = lab.try_kiln(&["up"]);
    assert!(!refused.status.success(), "an upgrade must be agreed to");

    // Without a backup nothing begins.
    let (queued, hosts) = (queue(lab), lab.hosts());
    lab.on("control", &["chmod -x /usr/bin/mariadb-dump"]);
    let refused = lab.try_kiln(&["up", "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("the upgrade was not begun") && said.contains("mariadb-dump"), "{said}");
    assert_eq!((queue(lab), lab.hosts()), (queued.clone(), hosts.clone()));
    assert!(reservations(lab).contains("No reservations"), "{}", reservations(lab));
    lab.on("control", &["chmod +x /usr/bin/mariadb-dump"]);

    let revoke = "REVOKE ALTER ON slurm_acct_db.* FROM 'slurm'@'localhost'";
    lab.on("control", &[&format!("mariadb --execute=\"{revoke}\"")]);
    let before = past(lab);
    assert!(
        before.contains("|demo|") && before.contains("|COMPLETED|") && before.contains("|physics|demo"),
        "{before}"
    );

    let failed = lab.try_kiln(&["up", "--yes"]);
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("Slurm 24.11.5 is back") && said.contains("ALTER command denied"), "{said}");
    assert!(said.contains("made the backup"), "{said}");
    assert_eq!(lab.hosts(), hosts, "every node has its old image");
    assert!(release_of(lab, "control").contains(" 24.11."), "{said}");
    assert_eq!(past(lab), before);
    assert_eq!(queue(lab), queued);
    assert_eq!(lab.job(&running, "Restarts"), "0");
    assert!(reservations(lab).contains("No reservations"), "{}", reservations(lab));
    let list = lab.json(&["backup", "list"]);
    assert!(list["backups"][0]["reason"].to_string().contains("before the upgrade to Slurm 26.05"), "{list}");
    assert!(list["left_behind"].is_null(), "{list}");
}

/// What the upgrade that is half done has noted, on the state volume.
fn noted() -> PathBuf {
    let list = |directory: PathBuf| std::fs::read_dir(directory).into_iter().flatten().flatten();
    let volumes = list(cloud_root().join("volumes")).map(|volume| volume.path());
    let places = volumes.flat_map(|volume| [volume.join("upgrades"), volume.join("data/upgrades")]);
    let upgrades = places.flat_map(list).map(|upgrade| upgrade.path());
    let open =
        upgrades.filter(|upgrade| !upgrade.join("done").exists()).map(|upgrade| upgrade.join("before.txt"));
    open.filter(|note| note.exists()).max().expect("an upgrade that is half done")
}

/// Control and login at once, compute nodes through Slurm. Control is lost meanwhile; then cut off while control is rebuilt,
/// continued, gone back from, and done at last.
pub fn goes_well(lab: &mut Lab) {
    let jobs = read(&lab.path("jobs"));
    let (running, waiting) = jobs.split_once(' ').expect("two jobs");
    let (before, queued) = (past(lab), queue(lab));

    // The control node is lost with the old Slurm's root gone and the new one's not yet begun.
    let (code, said) = interrupt(lab, &["up", "--yes"], "control: rebuilding");
    assert_eq!(code, Some(130), "{said}");
    let lost = only("control").id;
    cloud(async |cloud| cloud.delete(&lost).await);
    let failed = lab.try_kiln(&["up", "--yes"]);
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("control was lost meanwhile") && said.contains("Slurm 24.11.5 is back"), "{said}");
    assert!(release_of(lab, "control").contains(" 24.11."), "{said}");
    assert_eq!((past(lab), queue(lab)), (before.clone(), queued.clone()));
    assert_eq!(lab.job(running, "Restarts"), "0");

    let (code, said) = interrupt(lab, &["up", "--yes"], "control: rebuilding");
    assert_eq!(code, Some(130), "{said}");
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("half done: go on with"), "{plan}");
    let refused = lab.try_kiln(&["configure"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("is half done") && said.contains("`kiln up`"),
        "{said}"
    );

    // Something that was there before is not there after: the new daemons run already, and the old ones come back.
    let note = noted();
    std::fs::write(&note, read(&note) + "user: forgotten\n").expect("the note");
    let failed = lab.try_kiln(&["up", "--yes"]);
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("user: forgotten is gone") && said.contains("Slurm 24.11.5 is back"), "{said}");
    assert!(said.contains("slurmdbd: has taken over the database"), "{said}");
    assert!(release_of(lab, "control").contains(" 24.11."), "{said}");
    assert_eq!((past(lab), queue(lab)), (before.clone(), queued));
    assert_eq!(lab.job(running, "Restarts"), "0");

    lab.kiln(&["up", "--yes"]);
    for node in ["control", "login-0"] {
        assert!(release_of(lab, node).contains(" 26.05."), "{node}");
    }
    assert_eq!(lab.job(running, "JobState"), "RUNNING");
    assert_eq!(lab.job(running, "Restarts"), "0");
    assert_eq!(lab.job(waiting, "JobState"), "PENDING");
    assert_eq!(past(lab), before);
    assert!(reservations(lab).contains("No reservations"), "{}", reservations(lab));
    lab.as_user("login-0", "touch go");
    for (id, file, words) in [(running, "running", "survived"), (waiting, "waiting", "came through")] {
        let recorded = |lab: &mut Lab| lab.as_user("login-0", &format!("sacct -nXP -j {id} -o state"));
        wait(&format!("job {id} is done"), || recorded(lab) == "COMPLETED");
        assert_eq!(lab.as_user("login-0", &format!("cat {file}.{id}")), words);
    }

    let said = String::from_utf8_lossy(&lab.try_kiln(&["rebuild"]).stderr).into_owned();
    let at = |begins: &str| said.lines().position(|line| line.starts_with(begins));
    let software =
        at("software of standard-[0-1],extra-[0-1]").unwrap_or_else(|| panic!("no difference: {said}"));
    assert!(said.lines().nth(software).is_some_and(|line| line.contains(" -> 26.05.")), "{said}");
    let rollout = at("rollout ").unwrap_or_else(|| panic!("no rollout: {said}"));
    assert!(software < rollout, "the difference is told after the rollout began: {said}");
    for node in ["standard-0", "standard-1", "extra-0", "extra-1"] {
        assert!(lab.on(node, &["slurmd", "-V"]).contains(" 26.05."), "{node}");
    }
    let id = lab.submit("--nodes=2 --output=after.%j", "srun hostname");
    lab.wait_job(&id, "COMPLETED");
}
