//! Users of a directory: the cluster's own, and one of the site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cluster_dir::printed;
use crate::instance::address_of;
use crate::lab::{Lab, cloud_root, read, wait};
use crate::secrecy::search_files;

pub const OWN: &str = "[directory]\nkind = \"server\"\n";
const SERVER: &str = "dirsrv@kiln.service";

pub fn well(lab: &Lab) {
    wait("all is well", || lab.try_kiln(&["status"]).status.code() == Some(0));
}

fn verdict(lab: &Lab, node: &str) -> String {
    let report = lab.json(&["status"]);
    let found = report["nodes"].as_array().into_iter().flatten().find(|n| n["node"] == node);
    found.and_then(|n| n["verdict"].as_str()).unwrap_or_default().to_string()
}

pub fn as_user(lab: &Lab, user: &str, command: &str) -> String {
    let output = lab.try_ssh(user, "login-0", command);
    assert!(output.status.success(), "{command:?} as {user}: {}", printed(&output));
    String::from_utf8_lossy(&output.stdout).trim_end().to_string()
}

fn gets_in(lab: &Lab, user: &str) -> bool {
    lab.try_ssh(user, "login-0", "true").status.success()
}

fn refused(lab: &Lab, arguments: &[&str], why: &str) {
    let output = lab.try_kiln(arguments);
    assert!(!output.status.success() && printed(&output).contains(why), "{why}: {}", printed(&output));
}

/// A user who is added, works on nodes that were not there then, and is removed.
pub fn comes_and_goes(lab: &mut Lab) {
    let key = lab.path("user_key.pub").display().to_string();
    // Somebody has asked for her before.
    assert!(!gets_in(lab, "ada"));
    refused(lab, &["user", "add", "ada", "--account", "nosuch"], "Slurm has no account nosuch");
    refused(lab, &["user", "add", "demo"], "demo is a user of the cluster file");
    let start = Instant::now();
    lab.kiln(&["user", "add", "ada", "--key", &key, "--group", "physics", "--account", "astro"]);
    let added = start.elapsed();
    // A login itself may take long here.
    let mut refused_after = Duration::ZERO;
    wait("ada gets in", || {
        let begun = start.elapsed().saturating_sub(added);
        let is_in = gets_in(lab, "ada");
        if !is_in {
            refused_after = begun;
        }
        is_in
    });
    println!("  added within {added:.1?}, refused for the last time {refused_after:.1?} later");
    assert!(refused_after < Duration::from_secs(10), "refused {refused_after:?} after she was added");
    assert_eq!(as_user(lab, "ada", "pwd; id -un; id -nG"), "/home/ada\nada\nada physics");
    refused(lab, &["user", "add", "ada"], "the directory has a user ada already");

    // Nodes that did not exist when she was added; and a limit of her account.
    let submit = "sbatch --parsable --partition=burst --output=job.%j --wrap 'id -un; sleep 600'";
    let (first, second) = (as_user(lab, "ada", submit), as_user(lab, "ada", submit));
    lab.wait_job(&first, "RUNNING");
    assert_eq!(lab.job(&first, "Account"), "astro");
    wait("her limit holds the second job", || lab.job(&second, "Reason") == "AssocMaxJobsLimit");
    wait("the job wrote", || as_user(lab, "ada", &format!("cat job.{first} || true")) == "ada");
    let node = lab.job(&first, "NodeList");
    assert!(lab.try_ssh("ada", &node, "true").status.success(), "her job lets her in to {node}");

    refused(lab, &["user", "remove", "ada"], "ada has 2 jobs");
    lab.kiln(&["user", "remove", "ada", "--cancel-jobs"]);
    // The node may have been idle for long enough by now.
    let closed = address_of(&node).is_none() || !lab.try_ssh("ada", &node, "true").status.success();
    assert!(!gets_in(lab, "ada") && closed);
    for node in ["control", "login-0", &node] {
        assert!(!lab.try_on(node, &["getent", "passwd", "ada"]).status.success(), "{node} knows her");
    }
    let accounts = lab.on("control", &["sacctmgr -nP show assoc where user=ada format=account"]);
    assert_eq!(accounts, "");
    lab.wait_job(&first, "CANCELLED");
    assert!(lab.try_on("login-0", &["test", "-e", &format!("/home/ada/job.{first}")]).status.success());
    refused(lab, &["user", "remove", "ada"], "the directory has no user ada");
    two_at_once(lab);
}

/// An administrator, whose keys change.
pub fn keys_and_rights(lab: &mut Lab) {
    let other = lab.path("other_key");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "desk", "-f"])
        .arg(&other)
        .status();
    assert!(made.expect("ssh-keygen runs").success());
    let (own, other) = (lab.path("user_key.pub").display().to_string(), format!("{}.pub", other.display()));
    lab.kiln(&[
        "user",
        "add",
        "ben",
        "--key",
        &other,
        "--sudo",
        "--full-name",
        "Ben Ámos",
        "--account",
        "astro",
    ]);
    assert!(!gets_in(lab, "ben"), "with a key that is not his");
    refused(
        lab,
        &["user", "key", "ben", "--add", &lab.path("user_key").display().to_string()],
        "private key",
    );
    lab.kiln(&["user", "key", "ben", "--add", &own]);
    wait("ben gets in", || gets_in(lab, "ben"));
    assert_eq!(as_user(lab, "ben", "sudo -n id -u"), "0");
    assert!(
        !lab.try_ssh("ben", "control", "true").status.success(),
        "users of the directory are not let in to control"
    );
    lab.kiln(&["user", "key", "ben", "--remove", "desk"]);
    let listed = lab.json(&["user", "list"]);
    let ben = &listed.as_array().expect("a list")[0];
    assert_eq!(
        (ben["name"].as_str(), ben["full_name"].as_str(), ben["sudo"].as_bool()),
        (Some("ben"), Some("Ben Ámos"), Some(true))
    );
    let ada_was: u64 = 70_000;
    assert!(ben["uid"].as_u64().is_some_and(|uid| uid > ada_was), "the number of a removed user: {ben}");
    assert!(ben["keys"].as_array().is_some_and(|keys| keys.len() == 1), "{ben}");
    lab.kiln(&["user", "key", "ben", "--remove", "demo"]);
    wait("his key is gone", || !gets_in(lab, "ben"));
    lab.kiln(&["user", "key", "ben", "--add", &own]);
    wait("his key is back", || gets_in(lab, "ben"));
}

/// Who is known on a node gets in without the directory; who is not, does not.
pub fn away(lab: &mut Lab) {
    lab.on("control", &["systemctl", "stop", SERVER]);
    assert_eq!(as_user(lab, "ben", "id -nG"), "ben admins");
    let id = as_user(lab, "demo", "sbatch --parsable --output=/dev/null --wrap true");
    let (control, login) = (verdict(lab, "control"), verdict(lab, "login-0"));
    assert!(control.contains("dirsrv@kiln.service is inactive"), "{control}");
    assert!(login.contains("the directory does not answer"), "{login}");
    refused(lab, &["user", "list"], "the directory does not answer");
    lab.wait_job(&id, "COMPLETED");
    lab.on("control", &["systemctl", "start", SERVER]);
    well(lab);
}

/// They see the same next number, and take turns.
fn two_at_once(lab: &Lab) {
    for (verb, words) in [("add", &["--group", "physics"][..]), ("remove", &[])] {
        let start = |name| {
            let arguments = [&["user", verb, name], words].concat();
            lab.kiln_command(&arguments).stdout(Stdio::null()).spawn().expect("kiln runs")
        };
        let both = [start("una"), start("duo")];
        for mut one in both {
            assert!(one.wait().expect("it ends").success(), "kiln user {verb}");
        }
        let listed = lab.json(&["user", "list"]);
        let uids: BTreeSet<u64> =
            listed.as_array().expect("a list").iter().filter_map(|u| u["uid"].as_u64()).collect();
        assert_eq!(uids.len(), if verb == "add" { 2 } else { 0 }, "{listed}");
    }
}

/// A backup has the directory: who was removed is back, who came later is not, and nobody gets that one's number.
pub fn restored(lab: &mut Lab) {
    let before = lab.json(&["user", "list"]);
    lab.kiln(&["backup", "now", "--reason", "with users"]);
    lab.kiln(&["user", "remove", "ben"]);
    assert!(!gets_in(lab, "ben"));
    let later = lab.json(&["user", "add", "later"]);
    lab.kiln(&["restore", "--yes"]);
    assert_eq!(before, lab.json(&["user", "list"]));
    wait("ben gets in again", || gets_in(lab, "ben"));
    assert_eq!(as_user(lab, "ben", "sudo -n id -u"), "0");
    let next = lab.json(&["user", "add", "next"]);
    let uid = |answer: &serde_json::Value| answer[0]["uid"].as_u64().expect("a number");
    assert!(uid(&next) > uid(&later), "{later} {next}");
    lab.kiln(&["user", "remove", "next"]);
    well(lab);
}

/// Rotated secrets are taken over, and none can be read by others.
pub fn secrets(lab: &mut Lab) {
    for name in ["cluster-ca", "directory-certificate", "directory-password"] {
        lab.kiln(&["secrets", "rotate", name]);
    }
    lab.kiln(&["configure"]);
    lab.on("control", &["sh", "-c", "ldapwhoami -x -D 'cn=Directory Manager' -y /etc/kiln/directory/password -H ldapi://%2frun%2fslapd-kiln.socket"]);
    well(lab);
    let mut secrets = BTreeMap::new();
    for name in ["cluster-ca", "directory-certificate", "directory-password"] {
        let text = read(&lab.path(".kiln/secrets").join(name));
        let of_key = text.split("-----BEGIN PRIVATE KEY-----\n").nth(1).and_then(|key| key.lines().next());
        secrets.insert(name.to_string(), of_key.unwrap_or(text.trim()).to_string());
    }
    nowhere(lab, &secrets);
    let authority =
        ["sh", "-c", r#"grep -rlsF -e "$1" /etc /var /root || true"#, "sh", &secrets["cluster-ca"]];
    assert_eq!(lab.on("control", &authority), "", "the authority's key left the deploy host");
    let compute = lab.on(
        "login-0",
        &[
            "sh",
            "-c",
            r#"grep -rlsF -e "$1" /etc /var /root || true"#,
            "sh",
            &secrets["directory-certificate"],
        ],
    );
    assert_eq!(compute, "", "the server's key is on another node");
}

fn nowhere(lab: &Lab, secrets: &BTreeMap<String, String>) {
    for (name, secret) in secrets {
        assert!(secret.len() > 20, "{name} is too short to search for");
        assert!(!lab.transcript().contains(secret), "{name} was printed");
        for node in ["control", "login-0"] {
            let journal = lab.on(node, &["journalctl", "--no-pager", "-o", "cat"]);
            assert!(!journal.contains(secret), "{name} is in the journal of {node}");
        }
    }
    search_files(&cloud_root().join("instances"), secrets);
    search_files(&cloud_root().join("volumes"), secrets);
}

/// A server of the site: here on the login node, with an authority and users of its own, for those who know its password.
const SITE: &str = r#"
set -eu
mkdir -p /root/site && cd /root/site
ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
openssl req -x509 $ec -keyout ca.key -out ca.pem -subj /CN=site -days 30 2>/dev/null
openssl req $ec -keyout key.pem -out request -subj /CN=login-0.e2e.internal 2>/dev/null
printf 'subjectAltName=DNS:login-0.e2e.internal\n' >names
openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile names -out certificate.pem 2>/dev/null
cat >site.inf <<END
[general]
config_version = 2
full_machine_name = login-0.e2e.internal
strict_host_checking = False
selinux = False
[slapd]
instance_name = site
root_password = $1-manager
port = 1389
secure_port = 1636
self_sign_cert = True
[backend-userroot]
suffix = dc=site
create_suffix_entry = True
sample_entries = no
END
dscreate from-file site.inf >/dev/null
dsctl site tls import-ca ca.pem site-ca
dsctl site tls import-server-key-cert certificate.pem key.pem
systemctl restart dirsrv@site
person() { printf 'dn: uid=%s,dc=site\nobjectClass: nsPerson\nobjectClass: nsOrgPerson\nobjectClass: nsAccount\nobjectClass: posixAccount\nuid: %s\ncn: %s\ndisplayName: %s\nuidNumber: %s\ngidNumber: 5100\nhomeDirectory: /nowhere\nnsSshPublicKey: %s\n\n' "$1" "$1" "$1" "$1" "$2" "$3"; }
{
    person eve 5001 "$2"
    person mallory 5002 "$2"
    printf 'dn: cn=hpc,dc=site\nobjectClass: groupOfNames\nobjectClass: posixGroup\ncn: hpc\ngidNumber: 5101\nmember: uid=eve,dc=site\n\n'
    printf 'dn: cn=nodes,dc=site\nobjectClass: applicationProcess\nobjectClass: simpleSecurityObject\ncn: nodes\nuserPassword: %s\n' "$1"
} | ldapadd -Q -Y EXTERNAL -H ldapi://%2frun%2fslapd-site.socket >/dev/null
printf 'dn: dc=site\nchangetype: modify\nadd: aci\naci: (targetattr="*")(version 3.0; acl "who is known reads"; allow (read, search, compare) userdn="ldap:///all";)\n' |
    ldapmodify -Q -Y EXTERNAL -H ldapi://%2frun%2fslapd-site.socket >/dev/null
cat ca.pem
"#;

/// The password of the nodes is a secret that the site gives.
pub fn of_the_site(lab: &mut Lab) {
    let password = "correct-horse-battery-staple-2026";
    let key = read(&lab.path("user_key.pub"));
    let ca = lab.on("login-0", &["sh", "-c", SITE, "sh", password, key.trim()]);
    fs::write(lab.path("site-ca.pem"), ca + "\n").expect("the certificate");
    lab.edit(
        OWN,
        "[directory]\nkind = \"ldap\"\nuri = [\"ldap://login-0.e2e.internal:1389\"]\nbase = \"dc=site\"\nbind_dn = \"cn=nodes,dc=site\"\n\
         ca = \"site-ca.pem\"\nschema = \"rfc2307bis\"\nallowed_groups = [\"hpc\"]\nhome = \"/home/%u\"\n\
         attributes = { user_ssh_public_key = \"nsSshPublicKey\" }\n",
    );
    refused(lab, &["configure"], "directory-bind-password");
    let secret = lab.path(".kiln/secrets/directory-bind-password");
    fs::write(&secret, "wrong-horse-battery-staple-2026\n").expect("the secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("its mode");
    lab.kiln(&["configure"]);
    assert!(verdict(lab, "login-0").contains("the directory does not answer"), "with a wrong password");
    assert!(!gets_in(lab, "eve"));
    fs::write(&secret, format!("{password}\n")).expect("the secret");
    lab.kiln(&["configure"]);
    wait("eve gets in", || gets_in(lab, "eve"));
    assert_eq!(as_user(lab, "eve", "pwd"), "/home/eve");
    assert!(lab.try_on("login-0", &["getent", "passwd", "mallory"]).status.success());
    assert!(!gets_in(lab, "mallory"), "who is in no group that may");
    assert!(!gets_in(lab, "ben"), "who is in the directory that was before");
    well(lab);
    refused(lab, &["user", "list"], "the directory is the site's own");
    nowhere(lab, &BTreeMap::from([("directory-bind-password".to_string(), password.to_string())]));
}
