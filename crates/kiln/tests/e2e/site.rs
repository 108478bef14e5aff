//! A site, with everything around Slurm in one cluster: users of a directory, accounts, monitoring, alerts, the REST API, the health
//! check, mounts, settings, a syslog server.

use crate::behind::{cloud, only};
use crate::directory::{OWN, as_user, well};
use crate::lab::{Lab, wait};
use crate::monitoring::{ADDRESS_FILE, NO_LOG_SERVER, answers, value};
use crate::raise;
use crate::rest;

/// One fixed node, and nodes that come when there are jobs. Members of the account may run one job at a time.
pub fn raise(lab: &mut Lab) {
    let text = lab
        .example()
        // A server of the site will run on the login node.
        .replace("commands = [", "software = [\"directory\"]\ncommands = [")
        .replace("nodes = \"standard-[0-1]\"", "nodes = \"standard-0\"")
        .replace(
            "[compute.extra]\nnodes = \"extra-[0-1]\"\n",
            "[compute.burst]\nnodes = \"burst-[0-1]\"\nelastic = { idle = \"15s\" }\n",
        )
        .replace(
            "[slurm.config]\nKillWait = 30\n",
            "[slurm]\nrest = true\n\n[slurm.config]\nSuspendTimeout = 10\nSlurmdTimeout = 30\n",
        );
    lab.write_file(&format!(
        "{text}\n[account.astro]\nmembers = [\"demo\"]\nlimits = {{ MaxJobs = 1 }}\n\n{OWN}\n\
         [health]\nevery = \"5s\"\n\n\
         [[mount]]\nsource = \"/usr/share/misc\"\npath = \"/software\"\ntype = \"none\"\noptions = [\"bind\", \"ro\"]\n\
         roles = [\"login\", \"compute\"]\nrequired = true\n\n\
         [system]\n{NO_LOG_SERVER}\nlocale = \"POSIX\"\n\n[time]\nzone = \"Etc/GMT-5\"\n\n\
         [monitoring]\ninterval = \"2s\"\nalert_after = \"4s\"\nprices = {{ medium = 3600 }}\n\n\
         [monitoring.webhook.test]\naddress = \"file:{ADDRESS_FILE}\"\n\n\
         [notify]\nwebhook = \"file:{ADDRESS_FILE}\"\nabout = [\"rollout\"]\n\n\
         [reconcile]\nevery = \"2s\"\ngrace = \"20s\"\n"
    ));
    let refused = lab.try_kiln(&["up"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(ADDRESS_FILE), "{said}");
    std::fs::write(lab.path(ADDRESS_FILE), "http://127.0.0.1:1/\n").expect("a file");
    lab.kiln(&["-v", "up"]);
    well(lab);
    settings(lab);
}

fn settings(lab: &Lab) {
    assert_eq!(lab.as_user("login-0", "echo $LANG; date +%z"), "POSIX\n+0500");
    assert_eq!(lab.on("control", &["ip route show table local | grep -c 'quickack 1'"]), "1");
    assert_eq!(lab.as_user("login-0", "srun cat /etc/security/limits.d/kiln.conf | grep -c unlimited"), "2");
    for node in ["login-0", "standard-0"] {
        lab.on(node, &["mountpoint", "--quiet", "/software"]);
    }
}

const SERIES: &str = "count_over_time(up{job=\"node\",instance=\"login-0\"}[2h])";

/// The control node is lost with its root disk. What was measured, and the directory, are on the state volume.
pub fn control_lost(lab: &mut Lab) {
    let users = lab.json(&["user", "list"]);
    let before = value(lab, SERIES).expect("figures");
    let id = only("control").id;
    cloud(async |cloud| cloud.delete(&id).await);
    lab.kiln(&["up", "--yes"]);
    assert_eq!(users, lab.json(&["user", "list"]));
    let mut after = None;
    wait("Prometheus answers again", || {
        after = value(lab, SERIES);
        after.is_some()
    });
    // What was not yet written is lost with the machine.
    assert!(after >= Some(before - 15.0) && before > 20.0, "{before} and {after:?}");
    works(lab, before);
}

/// Control and the login node are rebuilt in place, the compute node by a rollout.
pub fn new_image(lab: &mut Lab) {
    let before = value(lab, SERIES).expect("figures");
    let trust = "cat /etc/kiln/slurm-rest.crt /etc/kiln/directory-ca.pem /etc/kiln/directory/certificate.pem";
    let trusted = lab.on("control", &[trust]);
    lab.edit(
        "[control]\n",
        "[image.second]\nsource = \"default\"\nsoftware = [\"directory\"]\ncommands = [\"echo second >/etc/which-image\"]\n\n[control]\n",
    );
    lab.edit("image = \"default\"", "image = \"second\"");
    lab.kiln(&["up", "--yes"]);
    lab.kiln(&["rebuild", "--detach", "--nodes", "standard-0"]);
    assert_eq!(lab.watch()["state"], "done");
    for node in ["control", "login-0", "standard-0"] {
        assert_eq!(lab.on(node, &["cat", "/etc/which-image"]), "second", "{node}");
    }
    assert_eq!(lab.on("control", &[trust]), trusted, "certificates are the same");
    works(lab, before);
    settings(lab);
    raise::up_again(lab);
}

/// All of it, with a user of the directory, her limits and the past of the figures.
fn works(lab: &Lab, before: f64) {
    assert_eq!(as_user(lab, "ben", "id -un; mountpoint --quiet /software"), "ben");
    let submit = "sbatch --parsable --partition=standard --output=/dev/null --wrap 'sleep 600'";
    let (first, second) = (as_user(lab, "ben", submit), as_user(lab, "ben", submit));
    lab.wait_job(&first, "RUNNING");
    wait("his limit holds the second job", || lab.job(&second, "Reason") == "AssocMaxJobsLimit");
    as_user(lab, "ben", &format!("scancel {first} {second}"));
    for node in ["control", "login-0", "standard-0"] {
        wait(&format!("Prometheus has figures of {node}"), || answers(lab, node));
    }
    wait("the series go on", || value(lab, SERIES) > Some(before));
    wait("Slurm's REST API answers", || rest::answers(lab));

    // Jobs of the directory's users need it.
    let state = |words: &str| {
        let record = lab.on("control", &["scontrol", "show", "node", "--oneliner", "standard-0"]);
        words.split('&').all(|words| record.contains(words))
    };
    lab.on("standard-0", &["systemctl", "stop", "sssd.service"]);
    wait("a node without sssd is drained", || state("+DRAIN&Reason=kiln: health: sssd.service is inactive"));
    lab.on("standard-0", &["systemctl", "start", "sssd.service"]);
    wait("the node is back", || state(" State=IDLE "));
}
