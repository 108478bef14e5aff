//! slurmdbd and its MariaDB, on the state volume.

use kiln_spec::Spec;

use crate::bundle::Resource;
use crate::inputs::{Inventory, Secrets};
use crate::make::{command, directory, file, service};
use crate::storage;

const DATA: &str = "/var/lib/state/mysql";
/// The database is prepared here and moved into place whole, so that a cut does not leave half of one.
const DATA_NEW: &str = "/var/lib/state/mysql.new";
const DATABASE: &str = "slurm_acct_db";

pub fn resources(spec: &Spec, inventory: &Inventory, secrets: &Secrets) -> Vec<Resource> {
    let control = &spec.control.node;
    let memory = inventory.nodes.get(control).map_or(2048, |facts| facts.memory_mib);
    // Half of the table data of a busy site fits; the rest of the node is slurmctld's.
    let buffer_pool = (memory / 4).clamp(128, 16 * 1024);
    let password = &secrets.database_password;

    let server = file(
        "/etc/mysql/mariadb.conf.d/60-kiln.cnf",
        format!(
            "# Written by Kiln: what slurmdbd asks of its database.\n[mariadbd]\ndatadir={DATA}\nbind-address=127.0.0.1\n\
             innodb_buffer_pool_size={buffer_pool}M\ninnodb_log_file_size=64M\ninnodb_lock_wait_timeout=900\n\
             max_allowed_packet=16M\n"
        ),
    );
    let client = file(
        "/etc/kiln/database.cnf",
        format!("# Written by Kiln.\n[client]\nuser=slurm\npassword={password}\n"),
    );
    let slurmdbd = file(
        "/etc/slurm/slurmdbd.conf",
        format!(
            "# Written by Kiln.\nAuthType=auth/munge\nDbdHost={control}\nSlurmUser=slurm\nPidFile=/run/slurmdbd.pid\n\
             StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=slurm\nStoragePass={password}\n\
             StorageLoc={DATABASE}\n"
        ),
    );
    let is_installed = ["test", "-d", "/var/lib/state/mysql/mysql"];
    let answers = ["sacctmgr", "--noheader", "show", "cluster"];
    let mut grant = command("database for slurmdbd", &["mariadb"]).unless(&[
        "mariadb",
        "--defaults-extra-file=/etc/kiln/database.cnf",
        "--execute=select 1",
        DATABASE,
    ]);
    grant.stdin = Some(format!(
        "CREATE DATABASE IF NOT EXISTS {DATABASE};\n\
         CREATE USER IF NOT EXISTS 'slurm'@'localhost';\n\
         ALTER USER 'slurm'@'localhost' IDENTIFIED BY '{password}';\n\
         GRANT ALL ON {DATABASE}.* TO 'slurm'@'localhost';\n"
    ));

    vec![
        Resource::File(server),
        Resource::File(client.owned_by("root", 0o600).secret()),
        Resource::Command(
            command("clear a half-made database", &["rm", "-rf", DATA_NEW]).unless(&is_installed),
        ),
        Resource::Command(
            command(
                "new database",
                &[
                    "mariadb-install-db",
                    "--user=mysql",
                    "--datadir=/var/lib/state/mysql.new",
                    "--auth-root-authentication-method=socket",
                    "--skip-test-db",
                ],
            )
            .unless(&is_installed),
        ),
        Resource::Command(command("database in place", &["mv", "-T", DATA_NEW, DATA]).unless(&is_installed)),
        directory(DATA, "mysql", 0o700),
        Resource::File(storage::drop_in("mariadb.service")),
        Resource::Service(storage::resident(
            spec,
            service("mariadb.service", &["file:/etc/mysql/mariadb.conf.d/60-kiln.cnf"]),
        )),
        Resource::Command(grant),
        Resource::File(slurmdbd.owned_by("slurm", 0o600).secret()),
        Resource::File(storage::drop_in("slurmdbd.service")),
        Resource::Service(storage::resident(
            spec,
            service("slurmdbd.service", &["file:/etc/slurm/slurmdbd.conf", "file:/etc/munge/munge.key"]),
        )),
        // slurmctld refuses its very first start when slurmdbd does not answer yet.
        // And nothing answers before slurm.conf is one that Slurm can read.
        Resource::Command(
            command("slurmdbd answers", &answers)
                .unless(&answers)
                .when_changed(&["file:/etc/slurm/slurm.conf"])
                .retry(120),
        ),
    ]
}

/// Where only users with an account may submit, rebuild jobs need one too: Slurm's own user is no exception.
pub fn account_of_slurm(spec: &Spec) -> Option<Resource> {
    let enforced = spec.slurm.config.keys().any(|key| key.eq_ignore_ascii_case("AccountingStorageEnforce"));
    let known = "sacctmgr --noheader --parsable2 show associations user=slurm format=user | grep -qx slurm";
    let add = command(
        "an account for rebuild jobs",
        &["sacctmgr", "--immediate", "add", "user", "slurm", "account=root"],
    );
    // slurmctld has to register the cluster first.
    (enforced && !spec.rebuild.is_empty())
        .then(|| Resource::Command(add.unless(&["sh", "-c", known]).retry(60)))
}
