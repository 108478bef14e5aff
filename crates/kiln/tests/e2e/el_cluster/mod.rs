//! A cluster of nodes whose Slurm is of RPMs, built from Slurm's own spec file. No EL system is at hand: a Debian image stands for
//! one. dnf, rpm, Slurm's RPMs with their units and paths, and all that Kiln does to such a node are real; the rest is Debian's.

use std::fs;

use serde_json::Value;

use crate::cluster_dir::printed;
use crate::lab::{Lab, wait};
use crate::repository::Repository;
use crate::rpms::{self, Rpm};
use crate::slurm_rpms::{self, VERSION};

/// What would be EL's own. The packages are empty, for Debian's of the same content are on the machine.
const BASE: [Rpm; 11] = [
    Rpm { name: "ca-certificates", version: "2024-1.el9" },
    Rpm { name: "dbus", version: "1.12-1.el9" },
    Rpm { name: "iproute", version: "6.2-1.el9" },
    Rpm { name: "less", version: "590-1.el9" },
    Rpm { name: "mariadb-server", version: "10.5-1.el9" },
    Rpm { name: "munge", version: "0.5.13-13.el9" },
    Rpm { name: "nftables", version: "1.0-1.el9" },
    Rpm { name: "openssh-server", version: "8.7-1.el9" },
    Rpm { name: "pmix", version: "3.2-1.el9" },
    Rpm { name: "procps-ng", version: "3.3-1.el9" },
    Rpm { name: "sudo", version: "1.9-1.el9" },
];

/// The image of the cloud.
fn machine(lab: &Lab) -> String {
    format!(
        "[image.machine]\nsource = \"{}\"\nroles = []\n\
         packages = [\"dnf\", \"dnf-plugins-core\", \"gpg\", \"rpm\", \"less\", \"libdbus-1-3\", \"libhwloc15\", \"libmariadb3\", \
         \"libnuma1\", \"libpam0g\", \"libpmix2\", \"libreadline8\", \"mariadb-server\", \"munge\", \"sudo\"]\n\
         commands = ['''{}''']\n",
        lab.suite,
        include_str!("machine.sh")
    )
}

/// The example, on EL but for one group.
fn cluster(lab: &Lab) -> String {
    let (before, debian) = lab
        .example()
        .split_once("[compute.extra]")
        .map(|(a, b)| (a.to_string(), b.to_string()))
        .expect("a group");
    let (images, nodes) = before.split_once("[control]").expect("control");
    format!(
        "{images}[control]{}[compute.extra]{debian}",
        nodes.replace("image = \"default\"", "image = \"el\"")
    )
}

/// Of EL. Their recipes name a repository that is gone with the test.
fn forget_images(lab: &Lab) {
    let images = lab.json(&["image", "list"]);
    let names = images.as_array().into_iter().flatten().filter_map(|image| image["name"].as_str());
    for name in names.filter(|name| name.starts_with("el-")) {
        lab.kiln(&["image", "delete", name, "--yes"]);
    }
}

pub fn raise(lab: &mut Lab) {
    forget_images(lab);
    lab.write_file(&format!("{}{}", lab.example(), machine(lab)));
    let rows = lab.json(&["image", "build", "machine"]);
    let machine = rows[0]["name"].as_str().expect("a name");

    let repository = Repository::new();
    rpms::publish_with(&repository.directory("el9"), &BASE, &slurm_rpms::files(), &repository.gnupg_home());
    fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    lab.write_file(&format!(
        "{}[source.site]\naddress = \"{}/el9\"\nkey = \"site.asc\"\n\
         [image.rocky]\nprebuilt = \"{machine}\"\nsystem = \"rocky9\"\nroles = []\n\
         [image.el]\nsource = \"rocky\"\nroles = [\"control\", \"login\", \"compute\"]\nsources = [\"site\"]\n\
         [image.el-next]\nsource = \"el\"\ncommands = [\"echo next >/etc/which-image\"]\n",
        cluster(lab),
        repository.address
    ));
    // As long as the repository is there.
    lab.kiln(&["image", "build", "el-next"]);
    lab.kiln(&["-v", "up"]);
    let status = lab.json(&["status"]);
    for node in status["nodes"].as_array().expect("nodes") {
        assert_eq!(node["verdict"], "ok", "{node}");
    }
    let images = lab.json(&["image", "list"]);
    let is_el = |image: &&Value| image["id"] == lab.host("control")["image_id"];
    let image = images.as_array().into_iter().flatten().find(is_el).expect("control's image");
    let name = image["name"].as_str().expect("a name");
    assert!(lab.kiln(&["image", "check", name]).contains("clean and complete"));
    let debian = lab.host("extra-0")["image_id"].clone();
    for node in ["control", "login-0", "standard-0", "standard-1"] {
        assert_ne!(lab.host(node)["image_id"], debian, "{node}");
        assert_eq!(lab.on(node, &["rpm -qf /usr/bin/sinfo"]), format!("slurm-{VERSION}.x86_64"), "{node}");
    }
}

/// The packages that what runs on the nodes is of, and how units are enabled: not by the packages, but as Kiln says.
pub fn services_of_rpms(lab: &mut Lab) {
    let own = [("control", "slurmctld"), ("control", "slurmdbd"), ("standard-0", "slurmd")];
    for (node, daemon) in own {
        let owner = format!("slurm-{daemon}-{VERSION}.x86_64");
        let program = format!("readlink /proc/$(systemctl show --value --property=MainPID {daemon})/exe");
        let unit = format!("systemctl show --value --property=FragmentPath {daemon}");
        for path in [program, unit] {
            assert_eq!(lab.on(node, &[&format!("rpm -qf $({path})")]), owner, "{path} on {node}");
        }
        assert_eq!(lab.on(node, &["dpkg-query --show '*slurm*' 2>/dev/null || true"]), "", "Debian's Slurm");
    }
    let enabled = |lab: &Lab, node: &str, unit: &str| {
        let output = lab.try_on(node, &["systemctl", "is-enabled", unit]);
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    // slurmd is started by Kiln once the node is configured, never by systemd alone.
    for (node, unit, wanted) in [
        ("control", "slurmctld", "enabled"),
        ("control", "slurmdbd", "enabled"),
        ("control", "slurmd", "disabled"),
        ("standard-0", "slurmctld", "disabled"),
        ("standard-0", "slurmd", "disabled"),
        ("standard-0", "munge", "enabled"),
        ("standard-0", "sshd", "enabled"),
    ] {
        assert_eq!(enabled(lab, node, unit), wanted, "{unit} on {node}");
    }
    // EL makes host keys that are missing. Kiln's is there before.
    for (key, made) in [("rsa", "yes"), ("ed25519", "no")] {
        let unit = format!("sshd-keygen@{key}.service");
        let show = ["systemctl", "show", "--value", "--property=ConditionResult", &unit];
        assert_eq!(lab.on("standard-0", &show), made, "{unit}");
    }
    let options = lab.on("standard-0", &["tr '\\0' ' ' </proc/$(pgrep -o -x slurmd)/cmdline"]);
    assert!(options.contains("--conf-server control:6817"), "/etc/sysconfig/slurmd is read: {options}");
    let plugins = lab.on("control", &["scontrol show config | awk '$1 == \"PluginDir\" { print $3 }'"]);
    assert_eq!(plugins, "/usr/lib64/slurm");
}

/// The family's own questions are asked, too.
pub fn examined(lab: &mut Lab) {
    let report = |lab: &Lab| -> Value {
        serde_json::from_slice(&lab.try_kiln(&["--json", "doctor"]).stdout).expect("JSON")
    };
    // Nodes have the room that this machine has.
    let of_nodes = |report: &Value| {
        let findings = report["findings"].as_array().expect("findings").clone();
        let text = |finding: &Value| finding["text"].as_str().unwrap_or_default().to_string();
        let texts = findings.iter().map(text).filter(|text| !text.contains("is nearly full"));
        texts.collect::<Vec<_>>()
    };
    wait("nothing is found", || of_nodes(&report(lab)).is_empty());
    lab.on("control", &["systemctl", "stop", "slurmdbd.service"]);
    let found = of_nodes(&report(lab));
    lab.on("control", &["systemctl", "start", "slurmdbd.service"]);
    assert!(found.iter().any(|text| text == "slurmdbd.service is inactive"), "{found:?}");
    wait("all is well again", || of_nodes(&report(lab)).is_empty());
}

/// A new image comes through Slurm, and nodes boot from it by themselves.
pub fn rolled_out(lab: &mut Lab) {
    lab.edit("nodes = \"standard-[0-1]\"\nimage = \"el\"", "nodes = \"standard-[0-1]\"\nimage = \"el-next\"");
    lab.kiln(&["up", "--yes"]);
    lab.kiln(&["rebuild", "--detach"]);
    let report = lab.watch();
    assert_eq!((&report["state"], &report["failed"]), (&"done".into(), &0.into()), "{report}");
    let id = lab.submit("--nodes=2 --output=out.%j", "srun cat /etc/which-image");
    lab.wait_job(&id, "COMPLETED");
    assert_eq!(lab.as_user("login-0", &format!("cat out.{id}")), "next\nnext");
}

/// A group of Debian's does not get an image of EL.
pub fn keeps_its_family(lab: &mut Lab) {
    let file = lab.read_file();
    let before = lab.json(&["inventory"]);
    lab.edit("nodes = \"extra-[0-1]\"\nimage = \"default\"", "nodes = \"extra-[0-1]\"\nimage = \"el\"");
    let refused = lab.try_kiln(&["up", "--yes"]);
    let said = printed(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let why = "compute.extra has nodes of the debian family of systems; image el is of the el family";
    assert!(said.contains(why), "{said}");
    lab.write_file(&file);
    assert_eq!(before, lab.json(&["inventory"]));
}

/// Images stay as long as nodes use them.
pub fn end(lab: &mut Lab) {
    lab.destroy();
    forget_images(lab);
}

/// Two nodes of EL, and with one of Debian's, in one cluster.
pub fn jobs(lab: &mut Lab) {
    let of = "rpm -qf /usr/sbin/slurmd /usr/sbin/slurmstepd";
    let id = lab.submit("--nodes=2 --output=out.%j", &format!("srun --mpi=pmix hostname; {of}; id -un"));
    lab.wait_job(&id, "COMPLETED");
    let package = format!("slurm-slurmd-{VERSION}.x86_64");
    let output = lab.as_user("login-0", &format!("sort out.{id}"));
    assert_eq!(output, format!("demo\n{package}\n{package}\nstandard-0\nstandard-1"));
    let record = format!("sacct -nXP -j {id} -o jobid,user,partition,nnodes,state,exitcode");
    let expected = format!("{id}|demo|standard|2|COMPLETED|0:0");
    wait("sacct has the job", || lab.as_user("login-0", &record) == expected);

    let id =
        lab.submit("--partition=extra --output=out.%j", "hostname; rpm -q slurm || dpkg-query --show slurmd");
    lab.wait_job(&id, "COMPLETED");
    let output = lab.as_user("login-0", &format!("cat out.{id}"));
    assert!(
        output.starts_with("extra-") && output.contains("slurmd\t22.05.8-4"),
        "Debian's beside it: {output}"
    );
}
