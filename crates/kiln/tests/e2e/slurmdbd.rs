//! A slurmdbd that the site runs: the suite's own cluster has one, and a second cluster reports to it.

use serde_json::Value;

use crate::cluster_dir::{ClusterDir, printed};
use crate::instance;
use crate::lab::{Lab, cloud_root, wait};
use crate::relay::Relay;

/// The second cluster. It goes also when a scenario fails.
struct Guest(ClusterDir);

impl Drop for Guest {
    fn drop(&mut self) {
        println!("{}", printed(&self.0.try_kiln(&["destroy", "--yes"])));
    }
}

const CONTROL: &str = "guest-control";

impl Guest {
    fn new(lab: &Lab, host: &str, port: u16) -> Guest {
        let mut cluster = ClusterDir::new();
        cluster.environment = vec![("KILN_LOCAL_ROOT".into(), cloud_root().display().to_string())];
        // The same image: whether the database is here does not change it.
        let text = lab.example();
        let (_, image) = text.split_once("[image.default]").expect("the image");
        let (image, _) = image.split_once("[control]").expect("the image");
        cluster.write_file(&format!(
            "[cluster]\nname = \"guest\"\n\n[cloud]\nkind = \"local\"\n\n[image.default]{image}\
             [control]\nnode = \"{CONTROL}\"\n\n[compute.guest]\nnodes = \"guest-0\"\n\n\
             [accounting]\nhost = \"{host}\"\nport = {port}\n",
        ));
        Guest(cluster)
    }

    fn on(command: &[&str]) -> String {
        let output = Guest::try_on(command);
        assert!(output.status.success(), "{command:?} on {CONTROL}:\n{}", printed(&output));
        String::from_utf8_lossy(&output.stdout).trim_end().to_string()
    }

    fn try_on(command: &[&str]) -> std::process::Output {
        instance::command_on(CONTROL, command).expect("the control node runs").output().expect("nsenter runs")
    }

    /// What `kiln` says where it refuses.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.0.try_kiln(arguments);
        assert!(!output.status.success(), "kiln {arguments:?} did it:\n{}", printed(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn submit(options: &str) -> String {
        Guest::on(&[&format!(
            "runuser -u slurm -- sbatch --parsable --chdir=/ --output=/dev/null {options} --wrap=true"
        )])
    }

    /// Runs a job to its end, which the accounts know; its number.
    fn run_job() -> String {
        let id = Guest::submit("--wait");
        let ended = format!("sacct --clusters=guest -nXP -j {id} -o state");
        wait("the accounts have the guest's job", || Guest::on(&[&ended]) == "COMPLETED");
        id
    }

    fn files_of_newest_backup(&self) -> String {
        let list: Value = self.0.json(&["backup", "list"]);
        let files = list["backups"][0]["files"].as_object().expect("files");
        files.keys().cloned().collect::<Vec<_>>().join(" ")
    }
}

pub fn of_the_site(lab: &mut Lab) {
    let control = instance::address_of("control").expect("the control node's address");
    let (network, _) = control.rsplit_once('.').expect("an address");
    let host = format!("{network}.1");
    let relay = Relay::open(&host, &format!("{control}:6819"));
    let guest = Guest::new(lab, &host, relay.port);
    guest.0.clear();

    let plan = guest.0.kiln(&["plan"]);
    assert!(
        plan.contains("! the site's munge-key is missing") && plan.contains("base64 /etc/munge/munge.key"),
        "{plan}"
    );
    let said = guest.refused(&["up"]);
    assert!(said.contains("munge-key is missing") && said.contains("base64 /etc/munge/munge.key"), "{said}");
    let secrets = guest.0.path(".kiln/secrets");
    assert!(!secrets.join("munge-key").exists() && instance::id_of(CONTROL).is_none());
    // As an administrator brings it.
    let key = lab.on("control", &["base64", "/etc/munge/munge.key"]);
    assert!(key.lines().count() > 1);
    std::fs::write(secrets.join("munge-key"), key).expect("the key");
    guest.0.kiln(&["up"]);
    assert!(!secrets.join("database-password").exists());
    let said = guest.refused(&["secrets", "rotate", "munge-key"]);
    assert!(said.contains("munge-key is the site's"), "{said}");

    // Nothing of the database is here, and the accounts of both clusters are in one.
    for unit in ["slurmdbd.service", "mariadb.service"] {
        assert!(!Guest::try_on(&["systemctl", "is-active", "--quiet", unit]).status.success(), "{unit} runs");
    }
    assert!(Guest::on(&["ls", "/var/lib/state"]).lines().all(|name| name != "mysql"));
    Guest::run_job();
    let both = "sacct --allclusters --allusers -nXP -S now-2hours -o cluster,state | sort -u";
    // Slurm leaves out what began in the second in which it is asked.
    wait("the accounts have jobs of both clusters", || {
        let accounts = lab.on("control", &[both]);
        accounts.contains("guest|COMPLETED") && accounts.contains("e2e|COMPLETED")
    });
    // slurmdbd knows slurmctld by its user, whose number is the same on both sides.
    let refused = Guest::try_on(&["runuser", "-u", "nobody", "--", "sacctmgr", "-i", "add", "account", "x"]);
    assert!(!refused.status.success(), "{}", printed(&refused));

    let again = guest.0.try_kiln(&["up"]);
    assert!(again.status.success() && printed(&again).contains("nothing changed"), "{}", printed(&again));
    guest.0.kiln(&["status"]);

    // A backup has no database, and can be restored.
    let waiting = Guest::submit("--begin=now+1hour --job-name=late");
    guest.0.kiln(&["backup", "now"]);
    assert_eq!(guest.files_of_newest_backup(), "accounts.cfg kilnd.db slurmctld.tar.gz");
    Guest::on(&["scancel", &waiting]);
    guest.0.kiln(&["restore", "--yes"]);
    let state = format!("squeue -h -j {waiting} -o %T");
    assert_eq!(Guest::on(&[&state]), "PENDING");

    // Without slurmdbd the cluster goes on, and says what is missing.
    lab.on("control", &["systemctl", "stop", "slurmdbd.service"]);
    let status = guest.0.try_kiln(&["status"]);
    lab.on("control", &["systemctl", "start", "slurmdbd.service"]);
    let missing = format!("slurmdbd at {host}:{} does not answer", relay.port);
    assert!(!status.status.success() && printed(&status).contains(&missing), "{}", printed(&status));
    wait("slurmdbd answers again", || guest.0.try_kiln(&["status"]).status.success());

    let said = guest.refused(&["upgrade", "--maintenance", "--yes"]);
    assert!(said.contains("no slurmdbd works with both ends"), "{said}");

    moved(&guest, &host, &waiting);
    drop(guest);
    let accounts = lab.on("control", &[both]);
    assert!(accounts.contains("guest|COMPLETED"), "destroy leaves the site's accounts alone: {accounts}");
}

/// To a database of its own, and back. Nothing is moved, and nothing is lost.
fn moved(guest: &Guest, host: &str, waiting: &str) {
    let external = guest.0.read_file();
    guest.0.write_file(external.split("[accounting]").next().expect("the file without its end"));
    let conf = Guest::on(&["cat", "/etc/slurm/slurm.conf"]);
    let said = guest.refused(&["up"]);
    assert!(said.contains(&format!("belongs to the accounts at {host}")), "{said}");
    assert!(said.contains("kiln configure --leave-accounting"), "{said}");
    assert_eq!(Guest::on(&["cat", "/etc/slurm/slurm.conf"]), conf, "nothing was changed");
    let said = guest.refused(&["configure", "--leave-accounting"]);
    assert!(said.contains(&format!("while jobs are in the queue: {waiting}")), "{said}");
    Guest::on(&["scancel", waiting]);
    wait("the queue is empty", || Guest::on(&["squeue", "-h"]).is_empty());
    guest.0.kiln(&["configure", "--leave-accounting"]);
    Guest::on(&["systemctl", "is-active", "slurmdbd.service", "mariadb.service"]);
    let own = Guest::run_job();
    assert!(own.parse::<u64>().ok() > waiting.parse().ok(), "numbers of jobs go on: {own} after {waiting}");
    let known = Guest::on(&["sacctmgr", "-nP", "show", "cluster", "format=cluster"]);
    assert_eq!(known, "guest", "its own database knows it alone");
    guest.0.kiln(&["status"]);

    guest.0.write_file(&external);
    let said = guest.refused(&["plan"]);
    assert!(said.contains("belongs to the accounts of its own database"), "{said}");
    wait("the queue is empty", || Guest::on(&["squeue", "-h"]).is_empty());
    guest.0.kiln(&["configure", "--leave-accounting"]);
    let stopped = Guest::try_on(&["systemctl", "is-active", "slurmdbd.service", "mariadb.service"]);
    assert!(!stopped.status.success(), "{}", printed(&stopped));
    assert!(Guest::on(&["ls", "/var/lib/state"]).contains("mysql.left-"), "the database is kept");
    Guest::run_job();
    guest.0.kiln(&["status"]);
}
