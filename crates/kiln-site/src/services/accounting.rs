//! slurmdbd and its MariaDB, on the state volume; or a slurmdbd of the site, elsewhere.

use std::fmt::Write as _;
use std::net::IpAddr;

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::checkup::Question;
use kiln_wire::make::{command, file, service};

use super::slurm::SLURM_CONF;
use super::{Context, OpenTo, Port, Service, Unit, munge, rest};
use crate::secret::{Form, Secret};
use crate::service_users::{MYSQL, SLURM};
use crate::volumes::{Purpose, not_half_restored, only_when_mounted};

/// Every image for control nodes has it: one cluster uses it and another does not.
pub const SOFTWARE: Service = Service {
    name: "accounting software",
    software: |_| &["mariadb", "slurmdbd"],
    // The data that a new installation begins with.
    leftovers: &["/var/lib/mysql"],
    ..Service::EMPTY
};

pub const ACCOUNTING: Service = Service {
    name: "accounting",
    wanted: Some(|spec| spec.accounting.is_none()),
    users: &[MYSQL, SLURM],
    units: &[Unit::new(MARIADB).saves_on_stop(), Unit::new(SLURMDBD).saves_on_stop()],
    volumes: &[Purpose::State],
    ports: &[Port { tcp: 6819, open_to: OpenTo::Cluster }],
    secrets: &[DATABASE_PASSWORD],
    resources,
    health,
    ..Service::EMPTY
};

/// The site runs slurmdbd. Nothing of it is on the control node.
pub const EXTERNAL: Service = Service {
    name: "external accounting",
    wanted: Some(|spec| spec.accounting.is_some()),
    resources: |_| vec![slurmdbd_answers()],
    health: external_health,
    ..Service::EMPTY
};

/// Which accounts the cluster's state belongs to. slurmctld numbers jobs, associations and usage by its database: with
/// another one it must not go on as if nothing had happened.
pub const PLACE: Service = Service {
    name: "place of accounting",
    resources: |context| vec![place_kept(context.spec)],
    ..Service::EMPTY
};

pub const DATABASE_PASSWORD: Secret = Secret {
    name: "database-password",
    purpose: "slurmdbd's access to its database",
    form: Form::Hex,
    on_nodes: true,
};

const MARIADB: &str = "mariadb.service";
const SLURMDBD: &str = "slurmdbd.service";

const DATA: &str = "/var/lib/state/mysql";
/// The database is prepared here and moved into place whole, so that a cut does not leave half of one.
const DATA_NEW: &str = "/var/lib/state/mysql.new";
const DATABASE: &str = "slurm_acct_db";

const DATABASE_ANSWERS: [&str; 4] =
    ["mariadb", "--defaults-extra-file=/etc/kiln/database.cnf", "--execute=select 1", DATABASE];
const SLURMDBD_ANSWERS: [&str; 4] = ["sacctmgr", "--noheader", "show", "cluster"];

/// What stands in [`PLACE_FILE`].
pub fn place(spec: &Spec) -> &str {
    spec.accounting.as_ref().map_or(OWN, |dbd| &dbd.host)
}

pub const OWN: &str = "own";
/// On the state volume.
pub const PLACE_FILE: &str = "/var/lib/state/accounting";
/// What must not change as long as the state belongs elsewhere names it.
pub const PLACE_ID: &str = "command:accounting is where it was";
/// Prints where accounting was; nothing for a new cluster. A cluster that is older than the file has a database.
pub const ASK_PLACE: &str =
    "cat /var/lib/state/accounting 2>/dev/null || if [ -d /var/lib/state/mysql ]; then echo own; fi";

fn place_kept(spec: &Spec) -> Resource {
    let place = place(spec);
    let keep = format!(
        "was=$({ASK_PLACE}); if [ -n \"$was\" ] && [ \"$was\" != \"$1\" ]; then \
         echo \"the state of this cluster belongs to the accounts of '$was', not of '$1'\" >&2; exit 1; fi; \
         mkdir -p /var/lib/state && echo \"$1\" >{PLACE_FILE}"
    );
    let is_kept = format!("[ \"$(cat {PLACE_FILE} 2>/dev/null)\" = \"$1\" ]");
    let keep = command("accounting is where it was", &["sh", "-c", &keep, "sh", place]);
    Resource::Command(keep.unless(&["sh", "-c", &is_kept, "sh", place]))
}

/// slurmctld refuses its very first start when slurmdbd does not answer yet.
/// And nothing answers before slurm.conf is one that Slurm can read.
fn slurmdbd_answers() -> Resource {
    let answers = command("slurmdbd answers", &SLURMDBD_ANSWERS);
    Resource::Command(answers.unless(&SLURMDBD_ANSWERS).when_changed(&[SLURM_CONF]).retry(120))
}

fn external_health(spec: &Spec, _: Role) -> Vec<Question> {
    let place = spec.accounting.as_ref().map(kiln_spec::ExternalSlurmdbd::place).unwrap_or_default();
    vec![Question::new(format!("slurmdbd at {place} does not answer"), &SLURMDBD_ANSWERS)]
}

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let family = context.family;
    let control = &context.spec.control.node;
    let memory = context.inventory.nodes.get(control).map_or(2048, |facts| facts.memory_mib);
    // Half of the table data of a busy site fits; the rest of the node is slurmctld's.
    let buffer_pool = (memory / 4).clamp(128, 16 * 1024);
    let password = context.secrets.value(&DATABASE_PASSWORD);
    let settings = family.paths.mariadb;
    let mariadb = service(family.unit(MARIADB), &[&format!("file:{settings}")]);

    let server = file(
        settings,
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
    let mut settings = format!(
        "# Written by Kiln.\nAuthType=auth/munge\nDbdHost={control}\nSlurmUser=slurm\nPidFile=/run/slurmdbd.pid\n\
         StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=slurm\nStoragePass={password}\n\
         StorageLoc={DATABASE}\n"
    );
    for (key, value) in rest::parameters(context.spec) {
        let _ = writeln!(settings, "{key}={value}");
    }
    for (key, value) in &context.spec.slurm.slurmdbd_config {
        let _ = writeln!(settings, "{key}={value}");
    }
    let slurmdbd = file("/etc/slurm/slurmdbd.conf", settings);
    let is_installed = ["test", "-d", "/var/lib/state/mysql/mysql"];
    let mut grant = command("database for slurmdbd", &["mariadb"]).unless(&DATABASE_ANSWERS);
    grant.stdin = Some(format!(
        "CREATE DATABASE IF NOT EXISTS {DATABASE};\n\
         CREATE USER IF NOT EXISTS 'slurm'@'localhost';\n\
         ALTER USER 'slurm'@'localhost' IDENTIFIED BY '{password}';\n\
         GRANT ALL ON {DATABASE}.* TO 'slurm'@'localhost';\n"
    ));

    let mut resources = vec![
        Resource::File(server),
        Resource::File(client.owned_by("root", 0o600).secret()),
        Resource::Command(
            command("clear a half-made database", &["rm", "-rf", DATA_NEW])
                .unless(&is_installed)
                .needs(PLACE_ID),
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
            .unless(&is_installed)
            .needs(PLACE_ID),
        ),
        Resource::Command(
            command("database in place", &["mv", "-T", DATA_NEW, DATA]).unless(&is_installed).needs(PLACE_ID),
        ),
    ];
    let mut slurmdbd_waits = only_when_mounted(SLURMDBD);
    slurmdbd_waits.content += &not_half_restored();
    // It ends itself where the database has kept it waiting for too long, and leaves it to others to start it again.
    slurmdbd_waits.content += "StartLimitIntervalSec=0\n[Service]\nRestart=on-failure\nRestartSec=2\n";
    let address = context.inventory.nodes.get(control).map(|facts| facts.address);
    slurmdbd_waits.content += &address.map(acknowledged_at_once).unwrap_or_default();
    let mut dbd = service(SLURMDBD, &["file:/etc/slurm/slurmdbd.conf", munge::KEY_ID]);
    dbd.restart_on.extend(rest::key_id(context.spec));
    resources.extend(MYSQL.tree(DATA, 0o700));
    resources.extend([
        Resource::File(only_when_mounted(family.unit(MARIADB))),
        Resource::Service(mariadb.needs(PLACE_ID)),
        Resource::Command(grant),
        Resource::File(slurmdbd.owned_by("slurm", 0o600).secret()),
        Resource::File(slurmdbd_waits),
        Resource::Service(dbd),
        slurmdbd_answers(),
    ]);
    resources
}

/// slurmdbd and its clients write each message in two parts. The second one waits for the acknowledgement of the first, which
/// Linux delays by 40 ms: half a second for a user whom `sacctmgr` adds. What the node tells itself is acknowledged at once.
fn acknowledged_at_once(address: IpAddr) -> String {
    if address.is_ipv6() {
        return String::new();
    }
    let has = format!("$$(ip route show table local exact {address})");
    format!(
        "[Service]\nExecStartPre=-+/bin/sh -c 'route=\"{has}\"; case \"$$route\" in \"\"|*quickack*) ;; \
         *) ip route change table local $$route quickack 1 ;; esac'\n"
    )
}

fn health(_: &Spec, _: Role) -> Vec<Question> {
    vec![
        Question::new("the accounting database does not answer", &DATABASE_ANSWERS),
        Question::new("slurmdbd does not answer", &SLURMDBD_ANSWERS),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// systemd puts in the values of its own variables, unless their sign is doubled.
    #[test]
    fn only_what_the_node_tells_itself_is_acknowledged_at_once() {
        let lines = acknowledged_at_once([192, 0, 2, 7].into());
        assert!(lines.contains("$$(ip route show table local exact 192.0.2.7)"), "{lines}");
        assert_eq!(lines.replace("$$", "").matches('$').count(), 0, "{lines}");
        // Without this a slurmdbd would not start where there is no such program.
        assert!(lines.starts_with("[Service]\nExecStartPre=-+"), "{lines}");
        assert_eq!(acknowledged_at_once("2001:db8::7".parse().unwrap()), "");
    }
}
