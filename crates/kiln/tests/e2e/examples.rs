//! Examples of the documentation for the local cloud are raised, run a job, and go. The one with a site's own directory is not
//! among them.

use std::path::Path;

use crate::lab::{Lab, wait};
use crate::monitoring::value;
use crate::raise::up_again;

/// What the examples read from the environment.
const SECRETS: [(&str, &str); 2] = [("KILN_OIDC_SECRET", "of-the-test"), ("MAIL_LOGIN", "kiln:of-the-test")];

/// Servers of others are this machine here, where nothing answers.
fn raise(lab: &mut Lab, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples").join(format!("{name}.toml"));
    let mut text = std::fs::read_to_string(path).expect("the example");
    for server in ["pager", "mail", "sso"] {
        text = text.replace(&format!("{server}.example.org"), "localhost");
    }
    // What a run that was cut off has left is found by this name.
    let own = text.lines().find(|line| line.starts_with("name = ")).expect("a name").to_string();
    lab.write_file(&text.replacen(&own, "name = \"e2e\"", 1));
    lab.set(&SECRETS);
    lab.clear();
    lab.kiln(&["up"]);
    up_again(lab);
}

/// A job on two nodes, of somebody whom all nodes know.
fn run_job(lab: &Lab, user: &str) {
    let hosts = lab.on("login-0", &[&format!("cd /tmp && runuser -u {user} -- srun --nodes=2 hostname")]);
    assert_eq!(hosts.lines().count(), 2, "{hosts}");
}

pub fn small_lab(lab: &mut Lab) {
    raise(lab, "small-lab");
    run_job(lab, "ben");
    lab.destroy();
}

/// A partition that only one of the groups may use, and a limit of one member.
pub fn department(lab: &mut Lab) {
    raise(lab, "department");
    run_job(lab, "ada");
    assert_eq!(
        lab.on("login-0", &["cd /tmp && runuser -u carl -- srun --partition=large hostname"]),
        "large-0"
    );
    let submit =
        "cd /tmp && runuser -u ben -- sbatch --parsable --partition=large --output=/dev/null --wrap hostname";
    let job = lab.on("login-0", &[submit]);
    let reason = format!("squeue -ho %R -j {job}");
    wait("Slurm says that he may not", || {
        lab.on("login-0", &[&reason]).contains("account not permitted to use this partition")
    });
    let limits = lab.on("control", &["sacctmgr -nP show assoc account=solid user=ben format=maxjobs"]);
    assert_eq!(limits, "10");
    lab.destroy();
}

/// Somebody is added as the example says, and runs a job on a node that comes for it.
fn somebody_comes(lab: &Lab) {
    let key = lab.path("user_key.pub").display().to_string();
    lab.kiln(&["user", "add", "ada", "--key", &key, "--account", "astro"]);
    wait("she runs a job", || {
        let job = lab.try_ssh("ada", "login-0", "srun --account=astro id -un");
        String::from_utf8_lossy(&job.stdout).trim() == "ada"
    });
}

pub fn directory(lab: &mut Lab) {
    raise(lab, "directory");
    somebody_comes(lab);
    lab.destroy();
}

pub fn monitoring(lab: &mut Lab) {
    raise(lab, "monitoring");
    // The example has no users.
    run_job(lab, "nobody");
    wait("there are figures of control, login and compute nodes", || {
        value(lab, "count(up{job=\"node\"} == 1)").is_some_and(|count| count >= 4.0)
    });
    lab.destroy();
}

pub fn all_of_it(lab: &mut Lab) {
    raise(lab, "all-of-it");
    somebody_comes(lab);
    lab.destroy();
}
