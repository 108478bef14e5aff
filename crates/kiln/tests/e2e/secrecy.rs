//! Secrets: where they may not be, and how they change.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::lab::{Lab, cloud_root, read, wait};

/// Every secret, and pieces of those that have several lines.
fn secrets(lab: &mut Lab) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for name in ["munge-key", "database-password", "cloud-token", "node-seed", "ssh-key"] {
        let text = read(&lab.path(".kiln/secrets").join(name));
        let piece = match text.lines().nth(2) {
            Some(line) if name == "ssh-key" => line.to_string(),
            _ => text.trim().to_string(),
        };
        assert!(piece.len() >= 32, "{name} is too short to search for");
        all.insert(name.to_string(), piece);
    }
    for node in ["control", "standard-0"] {
        let seal = lab.on(node, &["cat", "/var/lib/kiln/seal-key"]);
        assert!(seal.starts_with("KILN-SEAL-KEY-"));
        all.insert(format!("seal key of {node}"), seal);
    }
    all
}

pub fn nowhere(lab: &mut Lab) {
    let printed = lab.transcript();
    assert!(printed.len() > 1000, "the transcript of `up -v` is missing");
    let secrets = secrets(lab);
    let plan = lab.kiln(&["plan"]) + &lab.kiln(&["--json", "configure", "--dry-run"]);
    for (name, secret) in &secrets {
        assert!(!printed.contains(secret), "{name} was printed");
        assert!(!plan.contains(secret), "{name} is in the plan");
    }
    for node in ["control", "login-0", "standard-0"] {
        let journal = lab.on(node, &["journalctl", "--no-pager", "-o", "cat"]);
        for (name, secret) in &secrets {
            assert!(!journal.contains(secret), "{name} is in the journal of {node}");
        }
    }
    // What opens every node never leaves the deploy host, whatever the mode of a file.
    let search = r#"grep -rlsF -e "$1" /etc /var /home /srv /root /run /tmp /opt /mnt /usr/local || true"#;
    for node in ["control", "login-0", "standard-0"] {
        for name in ["node-seed", "ssh-key"] {
            let found = lab.on(node, &["sh", "-c", search, "sh", &secrets[name]]);
            assert_eq!(found, "", "{name} is on {node}");
        }
    }
    let arguments = &lab.arguments;
    assert!(
        arguments.iter().any(|a| a.contains("kiln --json node apply")),
        "the watch saw the nodes at work"
    );
    for (name, secret) in &secrets {
        assert!(!arguments.iter().any(|a| a.contains(secret)), "{name} was in the arguments of a process");
    }
    // The host's side of every instance, and everything else the local cloud wrote.
    search_files(&cloud_root().join("instances"), &secrets);
    search_files(&cloud_root().join("volumes"), &secrets);
    for name in ["daemon.log"] {
        let text = read(&cloud_root().join(name));
        for (secret_name, secret) in &secrets {
            assert!(!text.contains(secret), "{secret_name} is in {name}");
        }
    }
    for folder in [lab.path(".kiln"), lab.path(".kiln/secrets")] {
        let mode = std::fs::metadata(&folder).expect("the folder").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} is open to others", folder.display());
    }
}

/// World-readable files may not hold a secret. Symlinks are not followed: they lead into the host.
pub fn search_files(folder: &Path, secrets: &BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() {
            search_files(&entry.path(), secrets);
        } else if meta.is_file() && meta.permissions().mode() & 0o004 != 0 && meta.len() < 4 << 20 {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            for (name, secret) in secrets {
                assert!(
                    !text.contains(secret),
                    "{name} is in {}, which everybody may read",
                    entry.path().display()
                );
            }
        }
    }
}

pub fn sealed_share(lab: &mut Lab) {
    let bundle = lab.on("control", &["sha256sum", "/srv/kiln/share/bundles/standard-0.age"]);
    assert!(!bundle.is_empty());
    let head = lab.on("control", &["head", "-c", "13", "/srv/kiln/share/bundles/standard-0.age"]);
    assert_eq!(head, "kiln-sealed 1");
    let opens = |lab: &mut Lab, reader: &str, of: &str| {
        let path = format!("/srv/kiln/share/bundles/{of}.age");
        lab.try_kiln(&["ssh", reader, "kiln", "node", "unseal", &path]).status.success()
    };
    assert!(opens(lab, "standard-0", "standard-0"), "a node opens its own bundle");
    assert!(!opens(lab, "standard-1", "standard-0"), "a node opened another's bundle");
    let written = lab.try_kiln(&["ssh", "standard-0", "touch", "/srv/kiln/share/bundles/x"]);
    assert!(!written.status.success(), "a compute node wrote to the share");
}

pub fn rotation(lab: &mut Lab) {
    let before = secrets(lab);
    for name in ["munge-key", "database-password", "cloud-token", "node-seed", "ssh-key"] {
        lab.kiln(&["secrets", "rotate", name]);
    }
    lab.kiln(&["configure"]);
    let after = secrets(lab);
    for (name, old) in &before {
        assert_ne!(Some(old), after.get(name), "{name} is as before");
    }
    let listed = lab.json(&["secrets", "list"]);
    assert!(listed.as_array().expect("a list").iter().all(|s| s["rotation_pending"] == false), "{listed}");
    let id = lab.submit("--nodes=2 --output=rotated.%j", "srun hostname");
    lab.wait_job(&id, "COMPLETED");
    wait("the record went through the database", || {
        lab.as_user("login-0", &format!("sacct -nXP -j {id} -o state")) == "COMPLETED"
    });
    let again = lab.json(&["configure"]);
    for (node, report) in again["nodes"].as_object().expect("nodes") {
        for resource in report["resources"].as_array().expect("resources") {
            assert_eq!(resource["outcome"], "unchanged", "{node}: {resource}");
        }
    }
}
