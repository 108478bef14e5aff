//! Backups: made, refused, put back. What counts is what Slurm's accounts say before and after.

use std::path::PathBuf;
use std::process::Stdio;

use kiln_site::Purpose;
use serde_json::Value;

use crate::behind::cloud;
use crate::cluster_dir::printed;
use crate::lab::{Lab, cloud_root, read, wait};

/// One compute node, a job that ended well and one that failed, and an account that the file does not have.
pub fn raise(lab: &mut Lab) {
    let text = lab.example().replace("[compute.extra]\nnodes = \"extra-[0-1]\"\nimage = \"default\"\n\n", "");
    // The timer makes none while these tests count them.
    let far_away = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(12);
    let at = far_away.strftime("%H:%M");
    let text = format!("{text}\n[backup]\nat = \"{at}\"\n");
    lab.write_file(&text.replace("standard-[0-1]", "standard-0"));
    lab.kiln(&["-v", "up"]);
    lab.on("control", &["sacctmgr", "--immediate", "add", "account", "physics"]);
    lab.on("control", &["sacctmgr", "--immediate", "add", "user", "demo", "account=physics"]);
    lab.submit("--output=/dev/null", "true");
    let failed = lab.submit("--output=/dev/null", "exit 3");
    wait("the jobs are in the accounts", || past(lab, &failed).lines().count() == 2);
    assert!(lab.on("control", &["systemctl", "list-timers", "--all"]).contains("kiln-backup.timer"));
}

/// What the accounts say of ended jobs up to this one. A slurmctld that ended before it wrote a cancelled job down tells its end a second
/// time, without who asked for it.
fn past(lab: &Lab, last: &str) -> String {
    let jobs = lab.on(
        "control",
        &["sacct -a -nXP -S 2026-01-01 -o jobid,user,account,state,exitcode,submit,start,end | sed 's/ by [0-9]*//'"],
    );
    let number = |line: &&str| line.split('|').next().and_then(|id| id.parse::<u64>().ok());
    let last: u64 = last.parse().expect("a job's number");
    let is_over = |line: &&str| !line.contains("|RUNNING|") && !line.contains("|PENDING|");
    let wanted = jobs.lines().filter(|line| number(line).is_some_and(|n| n <= last));
    let jobs: Vec<&str> = wanted.filter(is_over).collect();
    jobs.join("\n")
}

fn accounts(lab: &Lab) -> String {
    lab.on("control", &["sacctmgr", "-nP", "show", "assoc", "format=cluster,account,user"])
}

fn names(lab: &Lab) -> Vec<String> {
    let list = lab.json(&["backup", "list"]);
    let backups = list["backups"].as_array().expect("backups").iter();
    backups.map(|backup| backup["name"].as_str().expect("a name").to_string()).collect()
}

/// A job that waits. By then all others have ended, also in the accounts.
fn waiting_job(lab: &Lab) -> String {
    let running = "sacct -a -nXP -S 2026-01-01 -o state | grep -c RUNNING || true";
    wait("the accounts have the end of every job", || lab.on("control", &[running]) == "0");
    lab.submit_waiting()
}

fn serves_jobs(lab: &Lab) {
    wait("the cluster serves jobs", || {
        lab.try_as_user("login-0", "srun --immediate=5 hostname").status.success()
    });
}

/// Somebody deletes its instance.
fn lose_control(lab: &Lab) {
    let id = lab.host("control")["instance_id"].as_str().expect("an instance").to_string();
    cloud(async |cloud| cloud.delete(&id).await);
}

fn lose_volume(purpose: Purpose) {
    let name = format!("e2e-{}", purpose.name());
    let volume = cloud(async |cloud| cloud.volume_by_name(&name).await).expect("the volume");
    cloud(async |cloud| cloud.delete_volume(&volume.id).await);
}

/// Where the local cloud keeps a backup.
fn directory_of(name: &str) -> PathBuf {
    let volumes = std::fs::read_dir(cloud_root().join("volumes")).expect("volumes").flatten();
    let found = volumes.map(|volume| volume.path()).find_map(|volume| {
        [volume.join(name), volume.join("data").join(name)].into_iter().find(|path| path.is_dir())
    });
    found.unwrap_or_else(|| panic!("no volume has the backup {name}"))
}

/// Rollback of a mistake: what was deleted is back, what came later is gone. Nothing secret is in a backup.
pub fn mistake(lab: &mut Lab) {
    let waiting = lab.submit("--begin=now+1hour --output=/dev/null", "echo late");
    let name =
        lab.json(&["backup", "now", "--reason", "a test"])["name"].as_str().expect("a name").to_string();
    assert_eq!(names(lab).join(" "), name);
    let (before, known) = (past(lab, &waiting), accounts(lab));
    assert_eq!(before.lines().count(), 2, "{before}");
    assert!(known.contains("|physics|demo"), "{known}");

    let content = "cd \"$1\"; gzip -dc database.sql.gz; gzip -dc slurmctld.tar.gz; cat accounts.cfg kilnd.db manifest.json";
    let directory = directory_of(&name);
    let content = std::process::Command::new("sh")
        .args(["-c", content, "sh"])
        .arg(&directory)
        .output()
        .expect("sh runs");
    assert!(content.status.success() && content.stdout.len() > 10_000, "{content:?}");
    let content = String::from_utf8_lossy(&content.stdout).into_owned();
    assert!(content.contains("physics") && content.contains("echo late"), "it holds accounts and scripts");
    for secret in ["munge-key", "database-password", "cloud-token", "node-seed", "ssh-key"] {
        let text = read(&lab.path(".kiln/secrets").join(secret));
        let piece = text.lines().max_by_key(|line| line.len()).expect("a line").trim().to_string();
        assert!(piece.len() >= 32 && !content.contains(&piece), "{secret} is in a backup");
    }

    lab.as_user("login-0", &format!("scancel {waiting}"));
    let delete = ["sacctmgr", "--immediate", "delete", "user", "demo", "account=physics"];
    wait("an association without jobs is deleted", || lab.try_on("control", &delete).status.success());
    assert!(!accounts(lab).contains("|physics|demo"));
    let refused = lab.try_kiln(&["restore"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("by the backup") && said.contains("--yes"), "{said}");
    let restored = lab.json(&["restore", "--yes"]);
    assert_eq!(restored["restored"], name.as_str());
    assert_eq!(before, past(lab, &waiting));
    assert_eq!(known, accounts(lab));
    assert_eq!(lab.job(&waiting, "JobState"), "PENDING");
    // What was replaced is kept, and is not what a restore without a name takes.
    assert_eq!(names(lab), [restored["before"].as_str().expect("a name").to_string(), name]);
    serves_jobs(lab);
    lab.as_user("login-0", &format!("scancel {waiting}"));
}

/// One byte is enough. Nothing is stopped, nothing changes.
pub fn damaged(lab: &mut Lab) {
    let name = lab.kiln(&["backup", "now"]).trim().to_string();
    let started = |lab: &Lab| {
        lab.on(
            "control",
            &["systemctl show --property=ActiveEnterTimestampMonotonic slurmctld slurmdbd kilnd mariadb"],
        )
    };
    let seen = |lab: &Lab| {
        (accounts(lab), names(lab), started(lab), lab.on("control", &["cat", "/var/lib/state/state-id"]))
    };
    let before = seen(lab);
    for file in ["database.sql.gz", "slurmctld.tar.gz", "kilnd.db"] {
        let path = directory_of(&name).join(file);
        let whole = std::fs::read(&path).expect("the file");
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("the file");
        let refused = lab.try_kiln(&["restore", &name, "--yes"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains(&format!("{file} is not as it was written")), "{said}");
        std::fs::write(&path, whole).expect("the file");
    }
    // Nor is one of another cluster taken, whatever its name.
    let manifest = directory_of(&name).join("manifest.json");
    let own = read(&manifest);
    let id = read(&lab.path(".kiln/secrets/cluster-id"));
    assert!(own.contains(id.trim()), "{own}");
    std::fs::write(&manifest, own.replace(id.trim(), "0123456789abcdef")).expect("the manifest");
    let refused = lab.try_kiln(&["restore", &name, "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("is of the cluster e2e with the id 0123456789abcdef"),
        "{said}"
    );
    std::fs::write(&manifest, own).expect("the manifest");
    assert_eq!(before, seen(lab));
}

/// Applying a bundle may restart the database: a backup that fails on it is made when that is over. One that is made ends the report of one
/// that failed.
pub fn configured_meanwhile(lab: &mut Lab) {
    let made = names(lab).len();
    lab.on("control", &["systemctl", "stop", "mariadb.service"]);
    assert!(!lab.try_on("control", &["systemctl", "start", "kiln-backup.service"]).status.success());
    let check = || lab.try_on("control", &["kiln", "node", "backup", "check"]);
    assert!(printed(&check()).contains("the last backup failed"), "{}", printed(&check()));

    let lock = "/run/kiln-apply.lock";
    let held = "until test -e /run/go-on; do sleep 0.1; done; systemctl start mariadb.service";
    lab.on("control", &["systemd-run", "--collect", "flock", "--close", lock, "sh", "-c", held]);
    let users =
        || lab.on("control", &[&format!("ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c {lock} || true")]);
    wait("a bundle is being applied", || users() == "1");
    let mut backup = lab.kiln_command(&["backup", "now"]).stdout(Stdio::null()).spawn().expect("kiln runs");
    wait("the backup has failed once, and waits", || users() == "2");
    lab.on("control", &["touch", "/run/go-on"]);
    assert!(backup.wait().expect("it ends").success());
    assert_eq!(names(lab).len(), made + 1);
    assert!(check().status.success(), "{}", printed(&check()));
}

/// The root disk is gone, the volumes are not.
pub fn root_disk_lost(lab: &mut Lab) {
    let waiting = waiting_job(lab);
    let (before, known, made) = (past(lab, &waiting), accounts(lab), names(lab));
    lose_control(lab);
    let said = lab.try_kiln(&["up", "--yes"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() && !text.contains("kiln restore"), "{text}");
    assert_eq!(before, past(lab, &waiting));
    assert_eq!((known, made), (accounts(lab), names(lab)));
    assert_eq!(lab.job(&waiting, "JobState"), "PENDING");
    serves_jobs(lab);
}

/// The state is gone, the backups are not. `up` says so, and `restore` brings back what there was.
pub fn state_volume_lost(lab: &mut Lab) {
    let waiting = waiting_job(lab);
    let name = lab.kiln(&["backup", "now", "--reason", "the last one"]).trim().to_string();
    let kept = lab.path("kept");
    std::fs::create_dir(&kept).expect("a directory");
    lab.kiln(&["backup", "fetch", &name, &kept.display().to_string()]);
    let (before, known) = (past(lab, &waiting), accounts(lab));
    assert!(before.lines().count() >= 2 && known.contains("|physics|demo"), "{before}\n{known}");

    lose_control(lab);
    lose_volume(Purpose::State);
    let said = lab.try_kiln(&["up", "--yes"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{text}");
    assert!(text.contains(&format!("started empty after the backup {name}: `kiln restore`")), "{text}");
    assert!(!accounts(lab).contains("physics"), "the state is a new one");
    let status = lab.json(&["status"]);
    assert!(status["nodes"][0]["verdict"].to_string().contains("kiln restore"), "{status}");
    // The timer does not fill the volume with an empty cluster.
    assert!(!lab.try_on("control", &["systemctl", "start", "kiln-backup.service"]).status.success());
    assert_eq!(names(lab)[0], name);

    lab.kiln(&["restore", "--yes"]);
    comes_back(lab, &before, &known, &waiting);
    // By the timer's service, and nothing is left to report.
    lab.on("control", &["systemctl", "start", "kiln-backup.service"]);
    assert_eq!(lab.json(&["status"])["nodes"][0]["verdict"], "ok");

    // Even the backups are gone: one that was fetched is brought back.
    lose_control(lab);
    lose_volume(Purpose::State);
    lose_volume(Purpose::Backup);
    lab.kiln(&["up", "--yes"]);
    assert_eq!(names(lab), [""; 0]);
    assert_eq!(lab.kiln(&["backup", "put", &kept.join(&name).display().to_string()]).trim(), name);
    lab.kiln(&["restore", &name, "--yes"]);
    comes_back(lab, &before, &known, &waiting);
}

fn comes_back(lab: &Lab, before: &str, known: &str, waiting: &str) {
    assert_eq!(before, past(lab, waiting));
    assert_eq!(known, accounts(lab));
    assert_eq!(lab.job(waiting, "JobState"), "PENDING");
    let again: Value = lab.json(&["up"]);
    assert_eq!(again["plan"]["actions"].as_array().map(Vec::len), Some(0), "{}", again["plan"]);
    assert!(again["configured"]["left_behind"].is_null(), "{again}");
    serves_jobs(lab);
}
