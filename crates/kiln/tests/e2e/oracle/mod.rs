//! The life of a cluster over Oracle's API: the fake of the services, with instances that boot as systems of the local cloud
//! and know nothing but what `/opc/v2/` tells them.
//!
//! What those systems cannot do stands in their image under other names (`stand_ins.sh`): their host may have no NFS. Slurm
//! does without cgroups, by the site's own settings.

use std::collections::BTreeMap;

use kiln_cloud::oci::fake::{COMPARTMENT, Fault, REGION};

use crate::cluster_dir::{QUICK, printed};
use crate::instance;
use crate::lab::{Lab, USER, wait};
use crate::region::Region;
use crate::rollout::{use_image, which_image};

const FLAVOR: &str = "VM.Standard.E5.Flex.1.8";
/// The names that images of the local cloud have in the compartment.
const IMAGES: [&str; 2] = ["oracle", "second"];

/// Images are made on the local cloud; Oracle's services have them as if somebody had imported them.
fn images(lab: &Lab) -> String {
    format!(
        "[cluster]\nname = \"e2e\"\n\n[cloud]\nkind = \"local\"\n\n\
         [image.default]\nsource = \"{}\"\ncommands = [\"{QUICK}\"]\n\n\
         [image.oracle]\nsource = \"default\"\npackages = [\"libpam-slurm-adopt\", \"socat\", \"sshfs\"]\n\
         commands = ['''\n{}''']\n\n\
         [image.second]\nsource = \"oracle\"\ncommands = [\"echo second >/etc/which-image\"]\n\n\
         [control]\nimage = \"oracle\"\n\n[compute.standard]\nnodes = \"standard-0\"\nimage = \"second\"\n",
        lab.suite,
        include_str!("stand_ins.sh")
    )
}

fn cluster(lab: &Lab, subnet: &str) -> String {
    let key = std::fs::read_to_string(lab.path("user_key.pub")).expect("the public key");
    format!(
        "[cluster]\nname = \"e2e\"\n\n\
         [cloud]\nkind = \"oci\"\ncompartment = \"{COMPARTMENT}\"\nsubnet = \"{subnet}\"\n\n\
         [image.default]\nprebuilt = \"oracle\"\n\n[image.second]\nprebuilt = \"second\"\n\n\
         [control]\nflavor = \"{FLAVOR}\"\nimage = \"default\"\n\n\
         [login.login]\nnodes = \"login-0\"\nflavor = \"{FLAVOR}\"\nimage = \"default\"\n\n\
         [compute.standard]\nnodes = \"standard-0\"\nflavor = \"{FLAVOR}\"\nimage = \"default\"\n\n\
         [compute.burst]\nnodes = \"burst-[0-3]\"\nflavor = \"{FLAVOR}\"\nimage = \"default\"\n\
         elastic = {{ idle = \"15s\" }}\n\n\
         [slurm.config]\nProctrackType = \"proctrack/linuxproc\"\nTaskPlugin = \"task/none\"\n\
         SlurmdParameters = \"config_overrides\"\nSuspendTimeout = 10\n\n\
         [[role.control.file]]\npath = \"/etc/slurm/cgroup.conf\"\ncontent = \"CgroupPlugin=cgroup/v1\\n\"\n\n\
         [reconcile]\nevery = \"2s\"\ngrace = \"6s\"\n\n\
         [user.{USER}]\nuid = 2001\nssh_keys = [\"{}\"]\n",
        key.trim()
    )
}

fn region(lab: &Lab) -> &Region {
    lab.region.as_ref().expect("a region")
}

pub fn raise(lab: &mut Lab) {
    lab.write_file(&images(lab));
    lab.kiln(&["image", "build"]);
    lab.enter(Region::start(&IMAGES));
    let subnet = region(lab).fake.place().expect("a subnet").to_string();
    lab.write_file(&cluster(lab, &subnet));
    lab.kiln(&["up"]);

    let status = lab.json(&["status"]);
    let nodes = status["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 7);
    for node in nodes.iter().filter(|node| node["group"] != "compute.burst") {
        assert_eq!(node["verdict"], "ok", "{node}");
    }
    // There is no other way in which they could know.
    for node in ["control", "login-0", "standard-0"] {
        assert_eq!(lab.on(node, &["find /mnt -name meta_data.json"]), "", "{node} has a config drive");
    }
    let id = lab.submit("--output=out.%j", "hostname; id -un");
    lab.wait_job(&id, "COMPLETED");
    // The home directory is shared.
    assert_eq!(lab.as_user("login-0", &format!("cat out.{id}")), "standard-0\ndemo");
}

/// kilnd has no key of a person: it gets tokens for the certificate in its metadata.
pub fn principal(lab: &mut Lab) {
    let tokens = || {
        let all = region(lab).fake.exchanges().into_iter();
        all.filter(|one| one.target == "/v1/x509" && one.status == 200).count()
    };
    wait("kilnd has a token", || tokens() > 0);
    let known = tokens();
    region(lab).fake.forget_tokens();
    wait("kilnd gets another one when the first is no longer taken", || tokens() > known);
    let places = "/etc/kiln /var/lib/kiln /var/lib/state/kiln /root";
    let personal = lab.try_on("control", &[&format!("grep -rlsF -e fingerprint -e 'BEGIN RSA' {places}")]);
    assert_eq!(String::from_utf8_lossy(&personal.stdout), "", "a person's credentials");

    // Nobody else on a node can have them: the certificate is where only root and kilnd get.
    for (node, user, may) in [
        ("control", "kilnd", true),
        ("control", "slurm", false),
        ("login-0", "root", true),
        ("login-0", "kilnd", false),
        ("login-0", USER, false),
    ] {
        let limit = if may { 60 } else { 3 };
        let connect = format!("timeout {limit} bash -c \"exec 3<>/dev/tcp/169.254.169.254/80\"");
        let asked = lab.try_on(node, &[&format!("runuser -u {user} -- {connect}")]);
        assert_eq!(asked.status.success(), may, "{user} on {node}");
    }
}

/// The policy lets control look at everything, and change instances. An image is refused.
pub fn outside_the_policy(lab: &mut Lab) {
    let (file, url) = (lab.read_file(), &region(lab).fake.url);
    let upload = format!(
        "mkdir -p /run/try && cd /run/try && cat >cluster.toml <<'END'\n{file}END\n\
         printf 'QFI\\373' >disk.qcow2\n\
         export OCI_CLI_AUTH=instance_principal OCI_CLI_ENDPOINT={url} OCI_CLI_REGION={REGION}\n\
         kiln image upload disk.qcow2"
    );
    let output = lab.try_on("control", &[&upload]);
    let said = printed(&output);
    assert!(!output.status.success() && said.contains("opc-request-id"), "{said}");
    let exchanges = region(lab).fake.exchanges();
    let refused = exchanges.iter().rfind(|one| one.target.starts_with("/n/") && one.method != "GET");
    assert_eq!(refused.map(|one| one.status), Some(404), "{said}");
    lab.on("control", &["rm -r /run/try"]);
}

/// Nodes of the elastic group that the compartment has.
fn burst(lab: &Lab) -> usize {
    (0..4).map(|n| region(lab).fake.count(&format!("burst-{n}"))).sum()
}

/// Oracle throttles both when they come and when they go.
pub fn elastic_nodes(lab: &mut Lab) {
    assert_eq!(burst(lab), 0);
    for what in ["POST /20160918/instances", "DELETE /20160918/instances"] {
        region(lab).fake.order(Fault::throttle(what));
    }
    lab.as_user("login-0", "rm -f may-go");
    let script = "srun hostname; until test -e may-go; do sleep 0.2; done";
    let id = lab.submit("--partition=burst --nodes=2 --output=grown.%j", script);
    wait("both have run it", || {
        lab.as_user("login-0", &format!("sort grown.{id} 2>/dev/null || true")) == "burst-0\nburst-1"
    });
    // From the share, without anybody who pushes it.
    let journal = lab.on("burst-0", &["journalctl --no-pager --quiet --unit=kiln-node"]);
    assert!(journal.contains("bundle"), "{journal}");
    lab.as_user("login-0", "touch may-go");
    lab.wait_job(&id, "COMPLETED");
    wait("idle nodes are terminated", || burst(lab) == 0);
    wait("Slurm has them powered down", || {
        let states = lab.on("control", &["sinfo", "-hN", "--partition=burst", "--format=%t"]);
        states.lines().all(|state| state == "idle~")
    });
    assert_eq!(region(lab).fake.faults_left(), [""; 0], "it never throttled");
}

/// Somebody stops the control node in Oracle's console. Jobs run on without it, and the next `kiln up` starts it as it was.
pub fn control_off(lab: &mut Lab) {
    let before = nodes(lab);
    lab.on("standard-0", &["rm -f /tmp/may-go"]);
    let until_told = "until test -e /tmp/may-go; do sleep 0.2; done; echo went on";
    let job = lab.submit("--nodelist=standard-0 --chdir=/tmp --output=/tmp/out.%j", until_told);
    lab.wait_job(&job, "RUNNING");
    let id = &before["control"].0;
    region(lab).behind(async |cloud| cloud.stop(id, false).await);
    wait("control is off", || instance::command_on("control", &["true"]).is_none());
    lab.on("standard-0", &["touch /tmp/may-go"]);
    let out = format!("cat /tmp/out.{job}");
    wait("the job goes on without control", || lab.on("standard-0", &[&out]) == "went on");

    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("~ control: start control"), "{plan}");
    let start = format!("POST /20160918/instances/{id}?action=START");
    region(lab).fake.order(Fault::throttle(&start));
    region(lab).fake.order(Fault::refuse(&start, 500, "InternalServerError", "Internal error"));
    lab.kiln(&["up", "--yes"]);
    assert_eq!(region(lab).fake.faults_left(), [""; 0]);
    assert_eq!(nodes(lab), before, "the same instances");
    lab.wait_job(&job, "COMPLETED");
    // What control serves is served again.
    let id = lab.submit("--output=back.%j", "hostname");
    lab.wait_job(&id, "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("cat back.{id}")), "standard-0");
}

/// Instance and image of the nodes that have one.
fn nodes(lab: &Lab) -> BTreeMap<String, (String, String)> {
    let text = |host: &serde_json::Value, key: &str| host[key].as_str().unwrap_or_default().to_string();
    let hosts = lab.hosts();
    hosts.iter().map(|h| (text(h, "name"), (text(h, "instance_id"), text(h, "image_id")))).collect()
}

/// The fixed node keeps its instance and gets another boot volume when its job has ended; an elastic one that idles goes.
pub fn new_image(lab: &mut Lab) {
    let before = nodes(lab);
    lab.as_user("login-0", "rm -f may-go");
    let until_told = "until test -e may-go; do sleep 0.2; done; echo whole";
    let busy = lab.submit("--nodelist=standard-0 --output=went.%j", until_told);
    lab.wait_job(&busy, "RUNNING");
    use_image(lab, "second");
    assert_eq!(which_image(lab, "standard-0"), "default");
    lab.kiln(&["rebuild", "--detach"]);
    wait("its turn is in the queue", || {
        !lab.on("control", &["squeue", "--noheader", "--partition=rebuild"]).is_empty()
    });
    assert_eq!(lab.job(&busy, "JobState"), "RUNNING");
    assert_eq!(nodes(lab)["standard-0"], before["standard-0"]);
    lab.as_user("login-0", "touch may-go");
    let report = lab.watch();
    assert_eq!((&report["done"], &report["failed"]), (&1.into(), &0.into()), "{report}");
    assert_eq!(lab.job(&busy, "JobState"), "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("cat went.{busy}")), "whole");
    assert_eq!(which_image(lab, "standard-0"), "second");
    let after = nodes(lab);
    assert_eq!(after["standard-0"].0, before["standard-0"].0, "in place");
    assert_ne!(after["standard-0"].1, before["standard-0"].1);
    let id = lab.submit("--partition=burst --nodes=1 --output=second.%j", "srun cat /etc/which-image");
    lab.wait_job(&id, "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("cat second.{id}")), "second");
}
