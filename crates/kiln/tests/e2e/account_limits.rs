//! Accounts, limits and QOS from the file, as Slurm enforces them and as `sacctmgr` shows them.

use crate::change::assert_unchanged;
use crate::cluster_dir::printed;
use crate::lab::{Lab, USER, wait};

/// In no account.
const STRANGER: &str = "stranger";

fn tables(lab: &Lab) -> String {
    let key = std::fs::read_to_string(lab.path("user_key.pub")).expect("the public key");
    format!(
        "\n[user.{STRANGER}]\nuid = 2077\nssh_keys = [\"{}\"]\n\n[accounting]\nmode = \"manage\"\n\n\
         [account.science]\ndescription = \"Science\"\nlimits = {{ GrpTRES = \"cpu=8,mem=4096\", GrpWall = \"30-0\" }}\n\n\
         [account.physics]\nparent = \"science\"\nmembers = [\"{USER}\"]\nfairshare = 5\nqos = [\"normal\", \"short\"]\n\n\
         [qos.short]\npriority = 10\nflags = [\"NoReserve\"]\n\
         limits = {{ MaxJobsPerUser = 1, MaxTRESPerUser = \"cpu=4\", MaxWallDurationPerJob = \"120\" }}\n",
        key.trim()
    )
}

fn of_qos(lab: &Lab, field: &str) -> String {
    lab.on("control", &[&format!("sacctmgr -nP show qos where name=short format={field}")])
}

fn associations(lab: &Lab) -> String {
    lab.on(
        "control",
        &["sacctmgr -nP show assoc where cluster=e2e format=account,user,parentname,share | sort"],
    )
}

fn short_job(lab: &Lab) -> String {
    lab.submit("--qos=short --ntasks=1 --mem=10 --time=30 --output=/dev/null", "sleep 600")
}

/// From no accounts to enforced ones, in one `configure`. They are on afterwards.
fn enforced(lab: &mut Lab) {
    lab.write_file(&(lab.read_file() + &tables(lab)));
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("accounts, with `kiln configure`: + account physics in science"), "{plan}");
    let shown = lab.kiln(&["configure", "--dry-run"]);
    assert!(shown.contains("+ qos short: ") && shown.contains("AccountingStorageEnforce"), "{shown}");
    assert!(!associations(lab).contains("physics"), "nothing was changed");

    lab.kiln(&["configure"]);
    // Slurm has rounded and rewritten what it was told, which is no difference.
    assert_unchanged(lab);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do"));
    members_alone(lab);
    limits_hold(lab);
    by_hand(lab);
    strays(lab);
    without_slurmdbd(lab);
}

fn members_alone(lab: &Lab) {
    let id = lab.submit("--output=/dev/null", "true");
    assert_eq!(lab.job(&id, "Account"), "physics", "the default account");
    lab.wait_job(&id, "COMPLETED");
    let refused = lab.try_ssh(STRANGER, "login-0", "sbatch --output=/dev/null --wrap true");
    assert!(
        !refused.status.success() && printed(&refused).contains("Invalid account"),
        "{}",
        printed(&refused)
    );
}

/// A job over a limit waits, and runs as soon as the file has a higher one.
fn limits_hold(lab: &mut Lab) {
    let (first, second) = (short_job(lab), short_job(lab));
    lab.wait_job(&first, "RUNNING");
    wait("Slurm says which limit holds the second job", || {
        lab.job(&second, "Reason").starts_with("QOSMaxJobsPerUser")
    });
    lab.edit("MaxJobsPerUser = 1", "MaxJobsPerUser = 2");
    lab.kiln(&["configure"]);
    lab.wait_job(&second, "RUNNING");
    assert_eq!((lab.job(&first, "JobState"), lab.job(&first, "Restarts")), ("RUNNING".into(), "0".into()));
    lab.as_user("login-0", &format!("scancel {first} {second}"));
}

/// What somebody has changed with `sacctmgr` is shown; in one mode it is kept, in the other it is put back.
fn by_hand(lab: &mut Lab) {
    lab.on("control", &["sacctmgr -i modify qos short set MaxJobsPerUser=7 MaxTRESPerUser=node=3"]);
    let plan = lab.kiln(&["plan"]);
    let difference = "qos short: MaxJobsPerUser 7 -> 2, MaxTRESPerUser cpu=4,node=3 -> cpu=4";
    assert!(plan.contains(&format!("accounts, with `kiln configure`: ~ {difference}")), "{plan}");
    lab.edit("mode = \"manage\"", "mode = \"add\"");
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains(&format!("accounts, kept as they are (mode = \"add\"): {difference}")), "{plan}");
    lab.kiln(&["configure"]);
    assert_eq!(of_qos(lab, "MaxJobsPerUser"), "7", "kept");
    lab.edit("mode = \"add\"", "mode = \"manage\"");
    lab.kiln(&["configure"]);
    assert_eq!(of_qos(lab, "MaxJobsPerUser,MaxTRESPerUser,MaxWall"), "2|cpu=4|02:00:00");
}

/// Accounts that the file does not have go, once no job runs in them.
fn strays(lab: &mut Lab) {
    let before = associations(lab);
    lab.on(
        "control",
        &["sacctmgr -i add account stray parent=physics && sacctmgr -i add account lower parent=stray"],
    );
    lab.on("control", &[&format!("sacctmgr -i add user {USER} account=lower,stray")]);
    let job = lab.submit("--account=lower --mem=10 --time=30 --output=/dev/null", "sleep 600");
    lab.wait_job(&job, "RUNNING");
    // slurmdbd hears of a job some time after it has begun.
    let known = format!("sacct --allusers -nXP -j {job} -o state");
    wait("the accounts know that the job runs", || lab.on("control", &[&known]) == "RUNNING");
    lab.kiln(&["configure"]);
    assert_eq!(lab.job(&job, "JobState"), "RUNNING");
    assert!(associations(lab).contains(&format!("lower|{USER}|")), "{}", associations(lab));
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("- account lower"), "{plan}");
    lab.as_user("login-0", &format!("scancel {job}"));
    wait("the accounts know the end of the job", || lab.on("control", &[&known]).starts_with("CANCELLED"));
    lab.kiln(&["configure"]);
    assert_eq!(associations(lab), before);
}

fn without_slurmdbd(lab: &mut Lab) {
    lab.on("control", &["systemctl", "stop", "slurmdbd.service"]);
    let plan = lab.kiln(&["plan"]);
    lab.on("control", &["systemctl", "start", "slurmdbd.service"]);
    assert!(plan.contains("accounts could not be compared: slurmdbd does not answer"), "{plan}");
    wait("slurmdbd answers again", || lab.kiln(&["plan"]).contains("Nothing to do"));
}

pub fn for_a_while(lab: &mut Lab) {
    while_enforced(lab, |_| {});
}

/// With a node that a rollout's job has rebooted meanwhile.
pub fn with_a_rollout(lab: &mut Lab) {
    while_enforced(lab, |lab| {
        lab.kiln(&["rebuild", "--detach", "--force", "--nodes", "extra-1"]);
        let report = lab.watch();
        assert_eq!((&report["done"], &report["failed"]), (&1.into(), &0.into()), "{report}");
    });
}

/// Nothing is enforced afterwards.
fn while_enforced(lab: &mut Lab, look: impl FnOnce(&mut Lab)) {
    let file = lab.read_file();
    enforced(lab);
    look(lab);
    lab.write_file(&file);
    lab.kiln(&["configure"]);
    let id = lab.submit("--output=/dev/null", "true");
    lab.wait_job(&id, "COMPLETED");
}
