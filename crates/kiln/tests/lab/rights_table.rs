//! Who can reach what: the table of docs/security.md. A scenario plays every person on a running cluster and tries every
//! cell; the page has the same table.

/// In the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    UserOnLogin,
    UserInJob,
    SlurmOnControl,
    RootOnCompute,
    RootOnLogin,
}

impl Person {
    pub const ALL: [Person; 5] = [
        Person::UserOnLogin,
        Person::UserInJob,
        Person::SlurmOnControl,
        Person::RootOnCompute,
        Person::RootOnLogin,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Person::UserOnLogin => "a user on login",
            Person::UserInJob => "a user in a job",
            Person::SlurmOnControl => "`slurm` on control",
            Person::RootOnCompute => "root on a compute node",
            Person::RootOnLogin => "root on login",
        }
    }
}

/// What the page says, and what is tried: lines for bash, with the functions of [`LIBRARY`], and whether they succeed.
pub struct Cell {
    pub word: &'static str,
    pub tries: &'static [(&'static str, bool)],
}

pub struct Row {
    pub thing: &'static str,
    pub cells: [Cell; 5],
}

/// Of every script. The test sets METADATA (places that may answer) and puts what `finds` looks for into /run/rights, where it
/// does not look. The user has a key that opens every node that lets the user in, at ~demo/.rights/key.
pub const LIBRARY: &str = r#"
finds() { grep -rqsF -f "/run/rights/$1" --exclude-dir=rights /etc /var /home /srv /root /run /tmp /opt /mnt /usr/local; }
ask() { timeout "${LIMIT:-3}" bash -c "exec 3<>/dev/tcp/${1%:*}/${1#*:} && printf 'GET /openstack/latest/$2 HTTP/1.0\r\n\r\n' >&3 && cat <&3" | grep -q '200 OK'; }
any_metadata() { for at in $METADATA; do for what in meta_data.json user_data; do ask "$at" "$what" && return 0; done; done; return 1; }
connects() { timeout "${LIMIT:-3}" bash -c "exec 3<>/dev/tcp/$1/$2"; }
enters() { ssh -T -i /home/demo/.rights/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "$1" true; }
database() { MYSQL_PWD=$(sed -n 's/^StoragePass=//p' /etc/slurm/slurmdbd.conf) mariadb --user=slurm --execute='select 1' slurm_acct_db; }
set_trigger() { strigger --set --down --node=standard-1 --program=/bin/true; }
trigger() { set_trigger && strigger --clear --user=slurm; }
as() { local user=$1; shift; runuser -u "$user" -- bash -c "$(declare -f); $*"; }
batch() { sbatch --partition=standard --output=/dev/null --time=1 "$@" --wrap=true; }
# Slurm's programs refuse by themselves what only root may; to them this is root.
pretend() { unshare --map-root-user bash -c "$(declare -f batch); $*"; }
# From the address of another node.
as_another() {
    local at via; at=$(getent hosts standard-1 | cut -d' ' -f1); via=$(ip -4 route show default | cut -d' ' -f3)
    ip address add "$at/32" dev eth0 && ip route replace 169.254.169.254/32 via "$via" src "$at" || exit 0
    "$@"; local code=$?
    ip route del 169.254.169.254/32; ip address del "$at/32" dev eth0
    return $code
}
run() { srun --partition=standard --nodelist=standard-1 --ntasks=1 --immediate=60 "$@"; }
"#;

const fn cell(word: &'static str, tries: &'static [(&'static str, bool)]) -> Cell {
    Cell { word, tries }
}

const STORE: &[(&str, bool)] = &[("head -c 1 /var/lib/state/kiln/store.db", false)];
const SPOOL: &[(&str, bool)] =
    &[("touch /var/lib/state/kiln-spool/x.tmp", false), ("touch /var/spool/kiln/x.tmp", false)];
const NO_KEYS: &[(&str, bool)] = &[("finds keys", false)];
const NO_CLOUD: &[(&str, bool)] = &[("finds cloud", false)];
const NO_PASSWORD: &[(&str, bool)] = &[("finds database", false)];
const NO_DATABASE: &[(&str, bool)] =
    &[("connects control 3306", false), ("database", false), ("LIMIT=60 connects control 6817", true)];
const NO_MUNGE_KEY: &[(&str, bool)] = &[("head -c 1 /etc/munge/munge.key", false)];
const MUNGE_KEY: &[(&str, bool)] = &[("head -c 1 /etc/munge/munge.key", true)];
const AS_ONESELF: &[(&str, bool)] =
    &[("munge -n | unmunge | grep -q \"^UID: .*($(id -u))\"", true), ("munge -n --uid=0", false)];
const AS_ANYBODY: &[(&str, bool)] = &[("as demo 'munge -n | unmunge | grep -q \"^UID: .*(2001)\"'", true)];
const NO_METADATA: &[(&str, bool)] = &[("any_metadata", false), ("ls /mnt/config", false)];
const METADATA: &[(&str, bool)] = &[
    ("LIMIT=60 ask 169.254.169.254:80 user_data", true),
    ("as_another ask 169.254.169.254:80 user_data", false),
];
const NO_SHARE: &[(&str, bool)] = &[("ls /srv/kiln/share/bundles", false)];
const SHARE: &[(&str, bool)] = &[
    ("ls /srv/kiln/share/bundles", true),
    ("touch /srv/kiln/share/x", false),
    ("kiln --version", true),
    ("kiln node unseal /srv/kiln/share/bundles/standard-0.age", false),
    ("kiln node unseal /srv/kiln/share/bundles/standard-1.age", false),
];
const NO_DEVICES: &[(&str, bool)] = &[
    ("mknod /home/demo/rights-own c 1 3", false),
    ("cp /usr/bin/id /home/demo/rights-id && chown 0 /home/demo/rights-id", false),
];
const DEVICES: &[(&str, bool)] = &[
    ("rm -f /home/demo/rights-null && mknod -m 666 /home/demo/rights-null c 1 3", true),
    ("as demo 'head -c 0 /home/demo/rights-null'", false),
    ("cp /usr/bin/id /home/demo/rights-id && chmod 4755 /home/demo/rights-id", true),
    ("test \"$(as demo '/home/demo/rights-id -u')\" = 0", false),
];
const NO_HOMES: &[(&str, bool)] = &[("ls /home/guest", false), ("touch /home/guest/x", false)];
const HOMES: &[(&str, bool)] = &[("touch /home/guest/rights", true), ("rm /home/guest/rights", true)];
const NO_ROOT_JOBS: &[(&str, bool)] =
    &[("batch --uid=0", false), ("pretend batch --uid=0", false), ("run true", true)];
const NO_JOBS_OF_ROOT: &[(&str, bool)] =
    &[("run true", false), ("batch --uid=0", false), ("run --partition=rebuild true", false)];
const NO_OTHERS_JOBS: &[(&str, bool)] =
    &[("batch --uid=2002", false), ("pretend batch --uid=2002", false), ("batch", true)];
const OTHERS_JOBS: &[(&str, bool)] = &[("as demo 'run true'", true), ("batch --uid=2002", true)];
/// It may not ask for it, and owns what slurmctld believes.
const SLURMCTLD: &[(&str, bool)] = &[
    ("batch --uid=0", false),
    ("batch --uid=2002", false),
    ("kill -0 $(pidof slurmctld)", true),
    ("test -w /var/lib/state/slurmctld/job_state", true),
];
const NO_TRIGGER: &[(&str, bool)] = &[("set_trigger", false), ("scontrol ping", true)];
const NO_SUDO: &[(&str, bool)] = &[("sudo --non-interactive true", false)];
const IS_ROOT: &[(&str, bool)] = &[("test $(id -u) = 0", true)];
const NO_LOGIN: &[(&str, bool)] = &[("enters login-0", true), ("enters control", false)];
const ROOT_NO_LOGIN: &[(&str, bool)] = &[
    ("as demo 'enters login-0'", true),
    ("as demo 'enters control'", false),
    ("enters root@control", false),
];

pub const ROWS: &[Row] = &[
    Row {
        thing: "keys of other nodes, in files",
        cells: [
            cell("no", NO_KEYS),
            cell("no", NO_KEYS),
            cell("no", NO_KEYS),
            cell("no", NO_KEYS),
            cell("no", NO_KEYS),
        ],
    },
    Row {
        thing: "the cloud's secret, in files",
        cells: [
            cell("no", NO_CLOUD),
            cell("no", NO_CLOUD),
            cell("no", NO_CLOUD),
            cell("no", NO_CLOUD),
            cell("no", NO_CLOUD),
        ],
    },
    Row {
        thing: "kilnd's store",
        cells: [
            cell("no", STORE),
            cell("no", STORE),
            cell("no", STORE),
            cell("no", STORE),
            cell("no", STORE),
        ],
    },
    Row {
        thing: "kilnd's spool",
        cells: [
            cell("no", SPOOL),
            cell("no", SPOOL),
            cell(
                "leave requests, not read",
                &[
                    ("ls /var/lib/state/kiln-spool", false),
                    ("ls /var/spool/kiln", false),
                    ("touch /var/lib/state/kiln-spool/x.tmp && rm /var/lib/state/kiln-spool/x.tmp", true),
                    ("touch /var/spool/kiln/x.tmp && rm /var/spool/kiln/x.tmp", true),
                    // Another's, which the test has put there.
                    ("rm /var/lib/state/kiln-spool/rights.tmp", false),
                    ("mv /var/lib/state/kiln-spool/rights.tmp /var/lib/state/kiln-spool/x.tmp", false),
                ],
            ),
            cell("no", SPOOL),
            cell("no", SPOOL),
        ],
    },
    Row {
        thing: "the database's password, in files",
        cells: [
            cell("no", NO_PASSWORD),
            cell("no", NO_PASSWORD),
            cell("yes", &[("finds database", true)]),
            cell("no", NO_PASSWORD),
            cell("no", NO_PASSWORD),
        ],
    },
    Row {
        thing: "the database",
        cells: [
            cell("no", NO_DATABASE),
            cell("no", NO_DATABASE),
            cell("yes", &[("database", true)]),
            cell("no", NO_DATABASE),
            cell("no", NO_DATABASE),
        ],
    },
    Row {
        thing: "the MUNGE key",
        cells: [
            cell("no", NO_MUNGE_KEY),
            cell("no", NO_MUNGE_KEY),
            cell("no", NO_MUNGE_KEY),
            cell("yes", MUNGE_KEY),
            cell("yes", MUNGE_KEY),
        ],
    },
    Row {
        thing: "credentials from MUNGE's socket",
        cells: [
            cell("as oneself", AS_ONESELF),
            cell("as oneself", AS_ONESELF),
            cell("as oneself", AS_ONESELF),
            cell("as anybody", AS_ANYBODY),
            cell("as anybody", AS_ANYBODY),
        ],
    },
    Row {
        thing: "metadata, at every address",
        cells: [
            cell("no", NO_METADATA),
            cell("no", NO_METADATA),
            cell("no", NO_METADATA),
            cell("of its node", METADATA),
            cell("of its node", METADATA),
        ],
    },
    Row {
        thing: "the share",
        cells: [
            cell("not there", NO_SHARE),
            cell("read, sealed", SHARE),
            cell("read, sealed", SHARE),
            cell(
                "read; its own bundle opens",
                &[
                    ("touch /srv/kiln/share/x", false),
                    ("kiln node unseal /srv/kiln/share/bundles/standard-0.age", true),
                    ("kiln node unseal /srv/kiln/share/bundles/standard-1.age", false),
                ],
            ),
            cell("not there", NO_SHARE),
        ],
    },
    Row {
        thing: "set-user-id programs and devices in home directories",
        cells: [
            cell("no", NO_DEVICES),
            cell("no", NO_DEVICES),
            cell("no", NO_DEVICES),
            cell("without effect", DEVICES),
            cell("without effect", DEVICES),
        ],
    },
    Row {
        thing: "other users' home directories",
        cells: [
            cell("no", NO_HOMES),
            cell("no", NO_HOMES),
            cell("no", NO_HOMES),
            cell("yes", HOMES),
            cell("yes", HOMES),
        ],
    },
    Row {
        thing: "`srun` as root",
        cells: [
            cell("no", NO_ROOT_JOBS),
            cell("no", NO_ROOT_JOBS),
            cell("through slurmctld", SLURMCTLD),
            cell("refused", NO_JOBS_OF_ROOT),
            cell("refused", NO_JOBS_OF_ROOT),
        ],
    },
    Row {
        thing: "`srun` as another user",
        cells: [
            cell("no", NO_OTHERS_JOBS),
            cell("no", NO_OTHERS_JOBS),
            cell("through slurmctld", SLURMCTLD),
            cell("yes", OTHERS_JOBS),
            cell("yes", OTHERS_JOBS),
        ],
    },
    Row {
        thing: "`strigger`: a program as `slurm` on control",
        cells: [
            cell("no", NO_TRIGGER),
            cell("no", NO_TRIGGER),
            cell("yes", &[("trigger", true)]),
            cell("as `slurm`", &[("as slurm trigger", true)]),
            cell("as `slurm`", &[("as slurm trigger", true)]),
        ],
    },
    Row {
        thing: "`sudo`",
        cells: [
            cell("with `sudo = true`", NO_SUDO),
            cell("with `sudo = true`", NO_SUDO),
            cell(
                "no",
                &[
                    ("sudo --non-interactive true", false),
                    ("sudo --non-interactive --user=demo sbatch --version", false),
                ],
            ),
            cell("is root", IS_ROOT),
            cell("is root", IS_ROOT),
        ],
    },
    Row {
        thing: "login to control",
        cells: [
            cell("with `sudo = true`", NO_LOGIN),
            cell("with `sudo = true`", NO_LOGIN),
            cell("is there", &[("test $(hostname --short) = control", true)]),
            cell("no", ROOT_NO_LOGIN),
            cell("no", ROOT_NO_LOGIN),
        ],
    },
];

/// As the page has it.
#[allow(dead_code, reason = "the scenario has no use for it")]
pub fn markdown() -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let titles = Person::ALL.map(Person::title);
    let mut text = line([""].into_iter().chain(titles).collect()).replacen("|  |", "| |", 1);
    text.push_str(&line(vec!["---"; titles.len() + 1]));
    for row in ROWS {
        text.push_str(&line([row.thing].into_iter().chain(row.cells.iter().map(|cell| cell.word)).collect()));
    }
    text
}
