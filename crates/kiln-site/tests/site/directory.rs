//! Nodes of a cluster with a directory.

use super::*;

const CERTIFICATE: &str = "names: control\n-----BEGIN PRIVATE KEY-----\nKEY-SECRET\n-----END PRIVATE KEY-----\n\
                           -----BEGIN CERTIFICATE-----\nSERVER\n-----END CERTIFICATE-----\n\
                           -----BEGIN CERTIFICATE-----\nAUTHORITY\n-----END CERTIFICATE-----\n";

const SITE: &str = "kind = \"ldap\"\nuri = [\"ldaps://a\"]\nbase = \"dc=a\"\nbind_dn = \"cn=nodes,dc=a\"\n";

fn bundle_with(table: &str, node: &str) -> Bundle {
    let text = format!("{FILE}\n[directory]\n{table}");
    let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let value = |secret: &Secret| match secret.name {
        "directory-certificate" => Ok(CERTIFICATE.into()),
        "directory-password" => Ok("MANAGER-SECRET".into()),
        "directory-bind-password" => Ok("BIND-SECRET\n".into()),
        name if secret.on_nodes => Ok(name.into()),
        other => Err(format!("{other} is not for nodes")),
    };
    let secrets = Secrets::read(&spec, value, "{}".into(), "ssh-ed25519 AAAA kiln".into()).unwrap();
    site(&spec, &inventory(&spec, Release::new(22, 5, 8)), &secrets).bundle(node, &keys(node)).unwrap()
}

fn content<'a>(bundle: &'a Bundle, path: &str) -> &'a str {
    let found = bundle.resources.iter().find_map(|resource| match resource {
        Resource::File(file) if file.path == path => Some(file.content.as_str()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("there is no {path}"))
}

#[test]
fn what_a_resource_waits_for_comes_before_it() {
    for table in ["kind = \"server\"\n", SITE] {
        for node in ["control", "login-0", "standard-0"] {
            order::assert_ordered(&bundle_with(table, node));
        }
    }
}

/// Cached users go on while the directory is away, so that only sssd itself counts.
#[test]
fn jobs_need_sssd_and_not_the_directory() {
    let bundle = bundle_with("kind = \"server\"\n", "standard-0");
    let check: serde_json::Value =
        serde_json::from_str(content(&bundle, kiln_wire::paths::HEALTH_CHECK)).unwrap();
    let services = check["services"].as_array().unwrap();
    let sssd = services.iter().find(|service| service["service"] == "directory").unwrap();
    assert_eq!(sssd["units"], serde_json::json!(["sssd.service"]));
    assert!(sssd["questions"].as_array().is_none_or(Vec::is_empty), "{sssd}");
    assert!(services.iter().any(|service| service["service"] == "munge"), "{check}");
}

#[test]
fn backups_have_the_clusters_own_directory_alone() {
    let base = |table: &str| {
        let bundle = bundle_with(table, "control");
        let settings: serde_json::Value =
            serde_json::from_str(content(&bundle, kiln_wire::paths::BACKUP_SETTINGS)).unwrap();
        settings["directory_base"].as_str().map(String::from)
    };
    assert_eq!(base("kind = \"server\"\n").as_deref(), Some("dc=demo,dc=internal"));
    assert_eq!(base(SITE), None);
}

#[test]
fn keys_of_the_directory_open_login_and_compute_nodes_to_all_but_root() {
    let config = |node: &str| {
        let bundle = bundle_with("kind = \"server\"\n", node);
        content(&bundle, "/etc/ssh/sshd_config.d/kiln.conf").to_string()
    };
    for node in ["login-0", "standard-0"] {
        let text = config(node);
        let (everybody, root) = text.split_once("Match User root\n").unwrap();
        assert!(everybody.contains("\nAuthorizedKeysCommand /usr/bin/sss_ssh_authorizedkeys %u\n"), "{text}");
        assert!(root.contains("AuthorizedKeysCommand none\n"), "{text}");
    }
    assert!(!config("control").contains("AuthorizedKeysCommand"));
}

#[test]
fn secrets_of_a_directory_are_marked_and_only_where_they_belong() {
    let secret_words = ["KEY-SECRET", "MANAGER-SECRET", "BIND-SECRET"];
    for table in ["kind = \"server\"\n", SITE] {
        for node in ["control", "login-0", "standard-0"] {
            let bundle = bundle_with(table, node);
            for resource in &bundle.resources {
                let holds = |text: &str| secret_words.iter().any(|word| text.contains(word));
                match resource {
                    Resource::File(file) if holds(&file.content) => {
                        assert_eq!((file.secret, file.mode), (true, 0o600), "{node}: {}", file.path);
                    }
                    Resource::Command(command) => {
                        assert!(!holds(&format!("{command:?}")), "{}", command.name);
                    }
                    _ => {}
                }
            }
            let text = serde_json::to_string(&bundle).unwrap();
            let of_server = text.contains("KEY-SECRET") || text.contains("MANAGER-SECRET");
            assert_eq!(of_server, node == "control" && table != SITE, "{node}");
            assert_eq!(text.contains("BIND-SECRET"), table == SITE, "{node}");
        }
    }
    // Without the line break that an editor leaves.
    let login = bundle_with(SITE, "login-0");
    assert_eq!(content(&login, "/etc/kiln/directory-password"), "BIND-SECRET");
    let compute = bundle_with("kind = \"server\"\n", "standard-0");
    assert!(content(&compute, "/etc/kiln/directory-ca.pem").contains("AUTHORITY"));
}
