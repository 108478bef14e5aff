//! From a Slurm to one that cannot take over what it has written: Debian has nothing between 22.05 and 24.11.

use serde_json::Value;

use crate::control::too_far;
use crate::cut::interrupt;
use crate::lab::{Lab, wait};

/// One fixed node and one that comes and goes; users, limits, a history, a job that waits and a node that is drained.
pub fn raise(lab: &mut Lab) {
    let text = lab.example().replace(
        "[compute.extra]\nnodes = \"extra-[0-1]\"\n",
        "[compute.burst]\nnodes = \"burst-0\"\nelastic = { idle = \"1h\" }\n",
    );
    lab.write_file(&text);
    lab.kiln(&["up"]);
    for words in [
        "add qos low",
        "add qos high",
        "modify qos where name=high set Priority=100 GraceTime=90 Preempt=low Flags=DenyOnLimit MaxTRESPerUser=cpu=7",
        "modify qos where name=low set GrpTRES=cpu=3,mem=4G MaxWallDurationPerJob=02:00:00 MaxJobsPerUser=9",
        "add account science Description=science Organization=lab GrpTRES=cpu=5 MaxJobs=11",
        "add account physics parent=science Description=physics Organization=lab Fairshare=7",
        "add user demo account=physics,science DefaultAccount=physics",
        "modify user where name=demo account=physics set MaxSubmitJobs=6 QOS=normal,high,low DefaultQOS=high",
        "add coordinator account=science names=demo",
    ] {
        lab.on("control", &[&format!("sacctmgr --immediate {words}")]);
    }
    let done = lab.submit("--partition=burst --output=/dev/null", "true");
    lab.wait_job(&done, "COMPLETED");
    lab.on("control", &["scontrol update nodename=standard-1 state=drain reason='bad memory'"]);
    too_far(lab);
    lab.edit("source = \"bookworm\"", "source = \"trixie\"");
}

fn reservation(lab: &Lab) -> String {
    lab.on("control", &["scontrol", "show", "reservation", "--oneliner"])
}

/// Without a word about them running jobs stop the upgrade; with one they end first, and the wait can be given up.
pub fn jobs_end_first(lab: &mut Lab) {
    // The image that they are to get may be built meanwhile.
    let instances = |lab: &mut Lab| {
        let hosts = lab.json(&["inventory"])["hosts"].as_array().cloned().expect("hosts");
        hosts
            .into_iter()
            .map(|h| [&h["name"], &h["instance_id"], &h["image_id"]].map(Value::clone))
            .collect::<Vec<_>>()
    };
    let before = instances(lab);
    let running = lab.submit(
        "--nodelist=standard-0 --time=30 --output=ended.%j",
        "until test -e go; do sleep 0.2; done; echo whole",
    );
    lab.wait_job(&running, "RUNNING");
    let refused = lab.try_kiln(&["upgrade", "--maintenance", "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("job {running} of demo")) && said.contains("ends by 20"), "{said}");
    assert!(reservation(lab).contains("No reservations"), "{}", reservation(lab));

    let shown = lab.kiln(&["upgrade", "--maintenance", "--dry-run"]);
    assert!(
        shown.contains("Slurm 22.05.8 -> 24.11") && shown.contains("stays drained: standard-1"),
        "{shown}"
    );
    assert!(shown.contains("compute.standard: rebuild standard-[0-1] in place"), "{shown}");
    assert!(shown.contains("compute.burst: delete burst-0"), "{shown}");

    let (code, said) = interrupt(lab, &["upgrade", "--maintenance", "--wait", "--yes"], "waiting for job");
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("kiln upgrade --abort"), "{said}");
    assert!(reservation(lab).contains("kiln-upgrade"), "no other job starts");
    // It does not end by itself between the end of the reservation and its own.
    let late = lab.submit("--output=/dev/null", "sleep 600");
    wait("a job waits for the end of the reservation", || {
        lab.job(&late, "Reason").contains("ReqNodeNotAvail") || lab.job(&late, "Reason").contains("Reserv")
    });
    assert_eq!(lab.job(&running, "JobState"), "RUNNING");
    lab.kiln(&["upgrade", "--abort"]);
    assert!(reservation(lab).contains("No reservations"), "{}", reservation(lab));
    lab.as_user("login-0", &format!("touch go; scancel {late}"));
    lab.wait_job(&running, "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("cat ended.{running}")), "whole");
    assert_eq!(before, instances(lab));
}

/// Users and limits as `sacctmgr` shows them.
fn accounts(lab: &Lab) -> Vec<String> {
    [
        "show qos format=Name,Priority,GraceTime,Preempt,Flags,GrpTRES,MaxWall,MaxJobsPU,MaxTRESPU",
        "show account format=Account,Description,Organization",
        "show user withcoord format=User,DefaultAccount,AdminLevel,Coordinators",
        "show association format=Cluster,Account,User,ParentName,Fairshare,GrpTRES,MaxJobs,MaxSubmit,QOS,DefaultQOS",
    ]
    .iter()
    .map(|words| lab.on("control", &[&format!("sacctmgr -nP {words} | sort")]))
    .collect()
}

/// The records of users' jobs that were completed. slurmdbd hears of others, such as cancelled ones, at its own time.
fn history(lab: &Lab) -> String {
    lab.on(
        "control",
        &["sacct --allusers -nXP -S 2020-01-01 -o jobid,user,state | grep 'demo|COMPLETED' || true"],
    )
}

/// Cut off when the old Slurm's data is aside, then continued.
pub fn upgraded(lab: &mut Lab) {
    let waiting =
        lab.submit("--begin=now+1hour --job-name=tomorrow --output=/dev/null", "echo not forgotten");
    let accounts_before = accounts(lab);
    assert!(accounts_before[3].contains("|physics|demo|"), "{accounts_before:?}");
    wait("the accounting has both jobs", || history(lab).lines().count() == 2);
    let past = history(lab);
    let done: Vec<&str> = past.lines().collect();
    std::fs::write(lab.path("before"), format!("{waiting}\n{past}")).expect("a note");

    let words = ["upgrade", "--maintenance", "--yes"];
    let (code, said) = interrupt(lab, &words, "Slurm's data is aside");
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains(&format!("lost: job {waiting} of demo (tomorrow)")), "{said}");
    // Slurm would start without its data.
    let refused = lab.try_kiln(&["configure"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("Slurm's data is aside in /var/lib/state/"), "{said}");
    assert!(said.contains("`kiln upgrade --maintenance` continues"), "{said}");
    let finished = lab.json(&words);
    let directory = finished["directory"].as_str().expect("a directory").to_string();

    for node in ["control", "login-0", "standard-0", "standard-1"] {
        assert!(lab.on(node, &["sinfo --version"]).contains(" 24.11."), "{node}");
    }
    assert_eq!(accounts_before, accounts(lab));
    wait("the drained node is back as it was", || {
        let state = lab.on("control", &["sinfo", "--noheader", "--node=standard-1", "--format=%T %E"]);
        state.starts_with("drained bad memory")
    });
    assert!(reservation(lab).contains("No reservations"), "{}", reservation(lab));
    assert_eq!(finished["tested"], Value::from(vec!["standard"]), "{finished}");
    assert_eq!(finished["warnings"], Value::Array(vec![]), "{finished}");

    // What could not be kept can be read.
    let kept = |name: &str| lab.on("control", &["cat", &format!("{directory}/{name}")]);
    let exported = kept("history.txt");
    for line in done {
        let id = line.split('|').next().unwrap_or_default();
        let found = exported.lines().find(|l| l.starts_with(&format!("{id}|")));
        assert!(
            found.is_some_and(|l| l.contains("|demo|") && l.contains("|COMPLETED|")),
            "{line}: {found:?}"
        );
    }
    assert!(kept(&format!("scripts/{waiting}.sh")).contains("echo not forgotten"));
    assert!(kept("queue.txt").contains("tomorrow"));
    lab.on("control", &[&format!("zgrep -q 'CREATE TABLE.*e2e_job_table' {directory}/database.sql.gz")]);
    lab.on(
        "control",
        &[&format!("test -e {directory}/slurmctld/job_state && test -d {directory}/mysql/slurm_acct_db")],
    );

    // Numbers of jobs are not given twice; fixed and elastic nodes take jobs.
    let id = lab.submit("--partition=standard --account=physics --output=after.%j", "srun hostname");
    assert!(
        id.parse::<u64>().expect("a number") > waiting.parse().expect("a number"),
        "{id} after {waiting}"
    );
    lab.wait_job(&id, "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("cat after.{id}")), "standard-0");
    let id = lab.submit("--partition=burst --output=after.%j", "srun sinfo --version");
    lab.wait_job(&id, "COMPLETED");
    assert!(lab.as_user("login-0", &format!("cat after.{id}")).contains(" 24.11."));
    let again = lab.json(&["up"]);
    assert_eq!(again["plan"]["actions"], Value::Array(vec![]), "{}", again["plan"]);
    let over = lab.try_kiln(&words);
    assert!(
        String::from_utf8_lossy(&over.stderr).contains("runs Slurm 24.11"),
        "there is nothing left to do"
    );
}

/// Slurm knows again all that it knew before.
pub fn back(lab: &mut Lab) {
    let before = crate::lab::read(&lab.path("before"));
    let (waiting, past) = before.split_once('\n').expect("two parts");
    let accounts_before = accounts(lab);
    let refused = lab.try_kiln(&["upgrade", "--back", "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("put the old source"), "{said}");
    lab.edit("source = \"trixie\"", "source = \"bookworm\"");
    lab.kiln(&["upgrade", "--back", "--yes"]);
    for node in ["control", "login-0", "standard-0", "standard-1"] {
        assert!(lab.on(node, &["sinfo --version"]).contains(" 22.05."), "{node}");
    }
    assert_eq!(history(lab), past);
    assert_eq!(accounts_before, accounts(lab));
    assert_eq!(lab.job(waiting, "JobState"), "PENDING");
    assert!(reservation(lab).contains("No reservations"), "{}", reservation(lab));
    let id = lab.submit("--partition=standard --output=/dev/null", "true");
    lab.wait_job(&id, "COMPLETED");
    assert!(lab.kiln(&["plan"]).contains("Nothing to do"));
}
