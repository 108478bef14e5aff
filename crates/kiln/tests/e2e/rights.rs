//! What each person on a node can reach beyond it: the table of docs/security.md, tried by playing that person.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Output;

use serde_json::Value;

use crate::accounts::metadata_sources;
use crate::lab::{Lab, USER};
use crate::rights_table::{LIBRARY, Person, ROWS};

/// Runs a line for the shell on a node as one of its users.
fn try_as(lab: &Lab, node: &str, user: &str, line: &str) -> Output {
    lab.try_on(node, &["runuser", "-u", user, "--", "sh", "-c", line])
}

fn refused(output: &Output, what: &str) {
    assert!(!output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stdout));
}

impl Person {
    fn node(self) -> &'static str {
        match self {
            Person::UserOnLogin | Person::RootOnLogin => "login-0",
            Person::UserInJob | Person::RootOnCompute => "standard-0",
            Person::SlurmOnControl => "control",
        }
    }

    /// Runs a script as this person.
    fn run(self, lab: &Lab, script: &str) -> Output {
        match self {
            Person::RootOnCompute | Person::RootOnLogin => lab.try_on(self.node(), &["bash", "-c", script]),
            Person::SlurmOnControl => {
                lab.try_on(self.node(), &["runuser", "-u", "slurm", "--", "bash", "-c", script])
            }
            Person::UserOnLogin | Person::UserInJob => {
                let write = r#"printf %s "$1" >/home/demo/.rights/script"#;
                lab.on("login-0", &["sh", "-c", write, "sh", script]);
                let job = match self {
                    Person::UserInJob => "srun --partition=standard --nodelist=standard-0 --ntasks=1 ",
                    _ => "",
                };
                lab.try_as_user("login-0", &format!("{job}bash ~/.rights/script"))
            }
        }
    }
}

/// A file of the spool that is not Slurm's. It exists on control only.
const ANOTHERS: &str = "/var/lib/state/kiln-spool/rights.tmp";

const NODES: [&str; 3] = ["control", "login-0", "standard-0"];

/// Every person tries everything.
pub fn every_cell(lab: &mut Lab) {
    let file = lab.read_file();
    lab.write_file(&format!("{file}\n[user.guest]\nuid = 2002\n[user.boss]\nuid = 2003\nsudo = true\n"));
    lab.kiln(&["configure"]);
    prepare(lab);
    for node in ["login-0", "standard-0", "control"] {
        let root = try_as(lab, node, "boss", "test $(sudo --non-interactive id -u) = 0");
        assert!(root.status.success(), "an administrator of the file has no rights on {node}");
    }
    let mut wrong = String::new();
    for (column, person) in Person::ALL.into_iter().enumerate() {
        let sources = metadata_sources(lab, person.node());
        let sources: Vec<String> =
            sources.iter().map(|(address, port)| format!("{address}:{port}")).collect();
        // What is run inside a job would else become a part of that job.
        let mut script = format!("unset ${{!SLURM_@}}\ncd /\nMETADATA='{}'\n{LIBRARY}", sources.join(" "));
        let tries = ROWS.iter().flat_map(|row| row.cells[column].tries.iter().map(|one| (row.thing, one)));
        let tries: Vec<_> = tries.collect();
        for (number, (_, (line, _))) in tries.iter().enumerate() {
            let _ = writeln!(script, "( {line} ) </dev/null >/dev/null 2>&1; echo {number} $?");
        }
        let output = person.run(lab, &script);
        let text = String::from_utf8_lossy(&output.stdout);
        let codes: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(' ')).collect();
        for (number, (thing, (line, works))) in tries.iter().enumerate() {
            let code = codes.get(number.to_string().as_str()).copied();
            if code.map(|code| code == "0") != Some(*works) {
                let _ = writeln!(wrong, "{}: {thing}: {line}: {code:?}", person.title());
            }
        }
        if codes.len() != tries.len() {
            let _ = writeln!(wrong, "{}: {}", person.title(), String::from_utf8_lossy(&output.stderr));
        }
    }
    for node in NODES {
        lab.on(node, &["rm", "-rf", "/run/rights", ANOTHERS]);
    }
    lab.on("login-0", &["sh", "-c", "rm -rf /home/demo/.rights /home/demo/rights-* /home/demo/.ssh"]);
    lab.write_file(&file);
    lab.kiln(&["configure"]);
    assert!(wrong.is_empty(), "not as the table has it:\n{wrong}");
}

/// What scripts look for, and a key that opens what is open to the user.
fn prepare(lab: &mut Lab) {
    let fleet: Value =
        serde_json::from_str(&lab.on("control", &["cat", "/etc/kiln/fleet.json"])).expect("the fleet file");
    let user_data = fleet["nodes"]["standard-1"]["user_data"].as_str().expect("user data");
    let user_data: Value =
        serde_json::from_str(&user_data[user_data.find('{').expect("JSON")..]).expect("user data");
    let password = std::fs::read_to_string(lab.path(".kiln/secrets/database-password")).expect("a password");
    let secrets = [
        ("keys", user_data["kiln"]["seal_key"].as_str().expect("a key")),
        ("cloud", fleet["cloud"]["token"].as_str().expect("a token")),
        ("database", password.trim()),
    ];
    // What nobody can read must be there.
    lab.on("control", &["test", "-s", "/var/lib/state/kiln/store.db"]);
    lab.on("control", &["touch", ANOTHERS]);
    for node in NODES {
        for (name, secret) in secrets {
            let write = r#"mkdir -p /run/rights && printf '%s\n' "$2" >"/run/rights/$1""#;
            lab.on(node, &["sh", "-c", write, "sh", name, secret]);
        }
    }
    lab.as_user(
        "login-0",
        "mkdir -p -m 700 ~/.rights ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.rights/key && \
         cat ~/.rights/key.pub >>~/.ssh/authorized_keys",
    );
}

/// A user of the cluster, without rights of its own.
pub fn of_users(lab: &mut Lab) {
    // Control is for administrators, whatever keys lie in a home directory that all nodes share.
    lab.as_user("login-0", "mkdir -p ~/.ssh && touch ~/.ssh/authorized_keys");
    let key = std::fs::read_to_string(lab.path("user_key.pub")).expect("the key");
    lab.as_user("login-0", &format!("echo '{}' >~/.ssh/authorized_keys", key.trim()));
    refused(&lab.try_as_user("control", "true"), "a user logged in to control");
    assert_eq!(lab.on("control", &["id", "-u", USER]), "2001", "slurmctld knows the user by name");
    assert_eq!(lab.kiln(&["ssh", "control", "id", "-u"]).trim(), "0", "Kiln logs in to control");

    // A set-user-id program of root's, in a home directory that all nodes share.
    let program = format!("/home/{USER}/id-of-root");
    lab.on("standard-0", &["sh", "-c", &format!("cp /usr/bin/id {program} && chmod 4755 {program}")]);
    assert_eq!(
        lab.as_user("login-0", "~/id-of-root -u"),
        "2001",
        "a program of the home directory gave rights"
    );
    for node in ["control", "login-0", "standard-1"] {
        refused(&try_as(lab, node, USER, "ls /mnt/volumes"), "a user saw the volumes themselves");
        for path in ["/home", "/srv/kiln/share"] {
            let options = lab.try_on(node, &["findmnt", "--noheadings", "--output=OPTIONS", path]);
            let options = String::from_utf8_lossy(&options.stdout).into_owned();
            assert!(
                options.is_empty() || (options.contains("nosuid") && options.contains("nodev")),
                "{path} of {node}: {options}"
            );
        }
    }
    lab.on("standard-0", &["rm", &program]);
    refused(&try_as(lab, "standard-0", USER, "sudo --non-interactive true"), "a user became root");
    refused(&try_as(lab, "standard-0", USER, "cat /etc/munge/munge.key"), "a user read MUNGE's key");
    refused(&try_as(lab, "standard-0", USER, "cat /var/lib/kiln/seal-key"), "a user read the node's key");
    refused(&try_as(lab, "standard-0", USER, "touch /srv/kiln/share/x"), "a user wrote to the share");
}

/// Puts another program, with a checksum that is true of it, in place of the share's kiln.
const TAMPER: &str = r"
cd /srv/kiln/share/bin && cp -p kiln /root/kiln.true && cp -p kiln.sha256 /root/kiln.sha256.true
printf '#!/bin/sh\ntouch /run/tampered\n' >kiln.new && chmod 755 kiln.new && mv kiln.new kiln
sha256sum kiln | cut -d' ' -f1 >kiln.sha256";
const RESTORE: &str =
    "cd /srv/kiln/share/bin && mv /root/kiln.true kiln && mv /root/kiln.sha256.true kiln.sha256";
/// Gives a node a kiln that differs from the share's: else that would not be looked at.
const OTHER_KILN: &str = "cd /usr/local/bin && cp -p kiln kiln.true && cp -p kiln kiln.other && \
                          printf x >>kiln.other && mv kiln.other kiln";

/// Root of a compute node.
pub fn of_a_nodes_root(lab: &mut Lab) {
    let srun = ["srun", "--partition=standard", "--nodelist=standard-1", "--immediate=30", "id", "-u"];
    refused(&lab.try_on("standard-0", &srun), "root of one node ran a job as root on another");
    refused(&lab.try_on("standard-0", &["touch", "/srv/kiln/share/x"]), "a node's root wrote to the share");

    // A node runs no program of the share that its sealed bundle does not name, whatever the checksum says.
    lab.on("control", &["sh", "-c", TAMPER]);
    lab.on("standard-0", &["sh", "-c", OTHER_KILN]);
    let booted = lab.try_on("standard-0", &["systemctl", "restart", "kiln-node.service"]);
    let journal = lab.on(
        "standard-0",
        &["journalctl", "--no-pager", "--quiet", "-o", "cat", "--unit=kiln-node", "--lines=200"],
    );
    let ran = lab.try_on("standard-0", &["test", "-e", "/run/tampered"]).status.success();
    lab.on("standard-0", &["sh", "-c", "cd /usr/local/bin && mv kiln.true kiln"]);
    lab.on("control", &["sh", "-c", RESTORE]);
    assert!(booted.status.success(), "the node goes on with its own kiln");
    assert!(!ran, "the share's program was run");
    assert!(journal.contains("not the one that this node's bundle names"), "{journal}");
}
