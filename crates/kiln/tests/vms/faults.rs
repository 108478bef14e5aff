//! What breaks below the cloud's API.

use std::fs;
use std::process::Stdio;

use crate::client::tell;
use crate::cluster_dir::printed;
use crate::lab::{DISKS, Lab, wait};
use crate::project::openstack;
use crate::raise::all_well;
use crate::renewal::{image, server};
use crate::services;

const BROKEN: &str = "vms-broken";

/// QEMU's process of a server.
fn machine(id: &str) -> Option<i32> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with("/usr/bin/qemu-system") && line.contains(id)
    })
}

/// Its machine ends as if its host had lost power: the job starts again elsewhere, the node comes back by itself.
pub fn killed(lab: &Lab) {
    let before = server("standard-1").expect("a server");
    let id = before["ID"].as_str().expect("an id");
    let job = lab.as_user(
        "id=$(sbatch --parsable --requeue --nodelist=standard-1 --mem=50 --output=/dev/null --wrap 'sleep 36000'); \
         until [ \"$(squeue -ho %T -j $id)\" = RUNNING ]; do sleep 1; done; echo $id",
    );
    let pid = machine(id).expect("QEMU's process");
    services::send("-KILL", &pid.to_string());
    wait("the machine runs again", || machine(id).is_some_and(|now| now != pid));
    wait("the job was put back and runs again", || {
        let shown = lab.as_user(&format!("scontrol show job {job}"));
        shown.contains("Restarts=1") && shown.contains("JobState=RUNNING")
    });
    let after = server("standard-1").expect("a server");
    assert_eq!((&after["ID"], &after["Networks"]), (&before["ID"], &before["Networks"]), "the same server");
    lab.as_user(&format!("scancel {job}"));
}

/// nova-compute ends while it replaces a root disk, and calls the server broken once it is back: Kiln asks again.
pub fn rebuild_cut_off(lab: &Lab) {
    let before = server("standard-1").expect("a server");
    let file = lab.read_file();
    lab.edit("flavor = \"vm.1536.2\"\nimage = \"default\"", "flavor = \"vm.1536.2\"\nimage = \"next\"");
    lab.kiln(&["up", "--yes"]);
    let rebuild = ["rebuild", "--nodes", "standard-1"];
    let rollout = lab.kiln_command(&rebuild).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let rollout = rollout.expect("kiln runs");
    wait("Nova replaces the disk", || server("standard-1").expect("a server")["Status"] == "REBUILD");
    services::kill("nova-compute");
    services::start();
    let ended = rollout.wait_with_output().expect("kiln ends");
    assert!(ended.status.success(), "{}", printed(&ended));
    let events = lab.kiln(&["events", "--most", "20"]);
    assert!(events.contains("the cloud could not rebuild the instance"), "{events}");
    let after = server("standard-1").expect("a server");
    assert_eq!((&after["ID"], &after["Networks"]), (&before["ID"], &before["Networks"]), "in place");
    assert_eq!(image("standard-1"), DISKS[1]);
    lab.as_user("srun --nodes=1 --nodelist=standard-1 --mem=50 true");
    lab.write_file(&file);
    lab.kiln(&["up", "--yes"]);
    lab.kiln(&rebuild);
}

/// A machine that boots while nobody gives it an address joins the cluster as soon as it has one.
pub fn without_dhcp(lab: &Lab) {
    let before = server("standard-1").expect("a server");
    let network = openstack(&["network list --internal"]).remove(0);
    let network = network.as_array().into_iter().flatten().find(|row| row["Name"] == "vms").cloned();
    services::kill_dhcp(network.expect("the cluster's network")["ID"].as_str().expect("an id"));
    let booted = "cat /proc/sys/kernel/random/boot_id";
    let first = lab.on("standard-1", booted);
    tell("demo", &["server reboot --hard standard-1"]);
    wait("it has started, and says that it does not reach the share", || {
        printed(&lab.try_kiln(&["console", "standard-1"])).contains("next attempt in")
    });
    assert!(!lab.try_kiln(&["ssh", "standard-1", "true"]).status.success(), "it has an address");
    wait("a doctor says so", || {
        let told = printed(&lab.try_kiln(&["doctor", "standard-1"]));
        told.contains("Slurm does not reach it") && told.contains("Network is unreachable")
    });
    services::start();
    wait("it answers", || lab.try_kiln(&["ssh", "standard-1", "true"]).status.success());
    let second = lab.on("standard-1", booted);
    assert_ne!(first, second);
    wait("all nodes are well", || all_well(lab));
    assert_eq!(lab.on("standard-1", booted), second, "nobody started it once more");
    lab.on("standard-1", "findmnt -t nfs4 /home");
    assert_eq!(server("standard-1").expect("a server")["ID"], before["ID"]);
    lab.as_user("srun --nodes=1 --nodelist=standard-1 --mem=50 true");
}

/// A node that finds no config drive asks the metadata service, be it late, which from then on is closed to its users.
pub fn without_config_drive(lab: &Lab) {
    let before = server("standard-1").expect("a server");
    let id = before["ID"].as_str().expect("an id");
    let drives = services::virsh(&["domblklist", id]);
    let drive = drives.lines().find(|line| line.ends_with("disk.config")).expect("a config drive");
    let drive = drive.split_whitespace().next().expect("its name");
    services::virsh(&["change-media", id, drive, "--eject", "--force", "--live"]);
    let held = services::hold("neutron-metadata");
    lab.on("standard-1", "touch /run/this-boot; systemctl --no-block reboot");
    wait("sshd waits no longer for its identity", || {
        printed(&lab.try_kiln(&["console", "standard-1"])).contains("no config drive, and no answer from")
    });
    drop(held);
    wait("it is back", || {
        lab.try_kiln(&["ssh", "standard-1", "test ! -e /run/this-boot"]).status.success() && all_well(lab)
    });
    let seen = lab.on("standard-1", "blkid -L config-2 || echo no config drive; nft list ruleset");
    assert!(seen.contains("no config drive") && seen.contains("169.254.169.254"), "{seen}");
    lab.as_user("srun --nodes=1 --nodelist=standard-1 --mem=50 true");
    let asked = "srun --nodes=1 --nodelist=standard-1 --mem=50 \
        timeout 20 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80' && echo open || echo closed";
    assert_eq!(lab.as_user(asked), "closed");
    lab.on("standard-1", "timeout 20 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80'");
}

/// Nova's reason is shown, nothing else is harmed, and what could not be started goes with the file.
pub fn cannot_start(lab: &Lab) {
    let disk = lab.path("disk.qcow2").display().to_string();
    lab.kiln(&["image", "upload", &disk, "--name", BROKEN, "--property", "hw_machine_type=no-such-machine"]);
    let file = lab.read_file();
    let more = format!(
        "\n[image.broken]\nprebuilt = \"{BROKEN}\"\nsystem = \"{}\"\n\n\
         [compute.broken]\nnodes = \"broken-0\"\nflavor = \"vm.1536\"\nimage = \"broken\"\n",
        lab.site.debian
    );
    lab.write_file(&format!("{file}{more}"));
    let failed = lab.try_kiln(&["up", "--yes"]);
    let said = printed(&failed);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("broken-0 is broken: Exceeded maximum number of retries"), "{said}");
    lab.as_user("srun --nodes=2 --mem=50 true");
    lab.write_file(&file);
    lab.kiln(&["up", "--yes"]);
    assert_eq!(server("broken-0"), None);
    tell("demo", &[&format!("image delete {BROKEN}")]);
}
