//! sssd.conf.

use std::fmt::Write as _;

use kiln_spec::{Directory, LdapDirectory, LdapSchema, Spec};

use super::uris;

/// How long, in seconds, what a node knows is good where nothing tells it otherwise. `kiln user` does tell it.
const GOOD_FOR: u32 = 300;

/// `password`: of the nodes, for a directory of the site.
pub(super) fn sssd_conf(spec: &Spec, ca_file: &str, password: Option<&str>) -> String {
    let Some(directory) = &spec.directory else { return String::new() };
    // Users of one are not known as users of the other, whatever a node has kept.
    let domain = if directory.is_server() { "cluster" } else { "site" };
    let mut text = format!(
        "# Written by Kiln.\n[sssd]\ndomains = {domain}\nservices = nss, pam, ssh, sudo\n\n\
         # A user who is added is there a second later, even if somebody has asked before.\n\
         [nss]\nentry_negative_timeout = 1\nfallback_homedir = /home/%u\ndefault_shell = /bin/bash\n\n\
         # Logins ask the directory again.\n[pam]\npam_id_timeout = 1\n\n\
         [domain/{domain}]\nid_provider = ldap\nauth_provider = none\nchpass_provider = none\nautofs_provider = none\n\
         # Numbers below are the system's.\nmin_id = 1000\n",
    );
    let mut set = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} = {value}");
    };
    set("entry_cache_timeout", &GOOD_FOR.to_string());
    // A directory that is back is used again soon.
    set("offline_timeout", "5");
    set("offline_timeout_max", "30");
    set("offline_timeout_random_offset", "1");
    set("ldap_network_timeout", "3");
    set("ldap_opt_timeout", "6");
    set("ldap_uri", &uris(spec).join(", "));
    set("ldap_search_base", directory.base());
    set("ldap_tls_reqcert", "demand");
    match directory {
        Directory::Server { base } => {
            set("ldap_tls_cacert", ca_file);
            set("ldap_schema", LdapSchema::Rfc2307bis.name());
            set("ldap_user_search_base", &format!("ou=people,{base}"));
            set("ldap_group_search_base", &format!("ou=groups,{base}"));
            set("ldap_user_ssh_public_key", "nsSshPublicKey");
            set("sudo_provider", "ldap");
            set("ldap_sudo_search_base", &format!("ou=sudoers,{base}"));
            set("access_provider", "permit");
        }
        Directory::Ldap(ldap) => of_site(ldap, ca_file, password, &mut set),
    }
    text
}

fn of_site(ldap: &LdapDirectory, ca_file: &str, password: Option<&str>, set: &mut impl FnMut(&str, &str)) {
    if ldap.ca.is_some() {
        set("ldap_tls_cacert", ca_file);
    }
    // Where the address is that of a connection without TLS, it must become one with.
    set(
        "ldap_id_use_start_tls",
        if ldap.uris.iter().any(|uri| uri.starts_with("ldap://")) { "true" } else { "false" },
    );
    set("ldap_schema", ldap.schema.name());
    set("ldap_id_mapping", if ldap.id_mapping { "true" } else { "false" });
    if let (Some(dn), Some(password)) = (&ldap.bind_dn, password) {
        set("ldap_default_bind_dn", dn);
        set("ldap_default_authtok_type", "password");
        set("ldap_default_authtok", password);
    }
    for (name, attribute) in &ldap.attributes {
        set(&format!("ldap_{name}"), attribute);
    }
    if let Some(home) = &ldap.home {
        set("override_homedir", home);
    }
    match &ldap.sudo_base {
        Some(base) => {
            set("sudo_provider", "ldap");
            set("ldap_sudo_search_base", base);
        }
        None => set("sudo_provider", "none"),
    }
    if ldap.allowed_groups.is_empty() {
        set("access_provider", "permit");
    } else {
        set("access_provider", "simple");
        set("simple_allow_groups", &ldap.allowed_groups.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(directory: &str, password: Option<&str>) -> String {
        let text = format!(
            "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[image.default]\n[compute.a]\nnodes = \"a1\"\n[directory]\n{directory}"
        );
        let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let conf = sssd_conf(&spec, "/ca.pem", password);
        conf.lines().skip_while(|line| !line.starts_with("ldap_uri")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn of_kilns_own_server() {
        insta::assert_snapshot!(conf("kind = \"server\"\n", None), @r"
        ldap_uri = ldaps://control.demo.internal
        ldap_search_base = dc=demo,dc=internal
        ldap_tls_reqcert = demand
        ldap_tls_cacert = /ca.pem
        ldap_schema = rfc2307bis
        ldap_user_search_base = ou=people,dc=demo,dc=internal
        ldap_group_search_base = ou=groups,dc=demo,dc=internal
        ldap_user_ssh_public_key = nsSshPublicKey
        sudo_provider = ldap
        ldap_sudo_search_base = ou=sudoers,dc=demo,dc=internal
        access_provider = permit
        ");
    }

    #[test]
    fn of_a_server_of_the_site() {
        let table = "kind = \"ldap\"\nuri = [\"ldap://a.example.org\", \"ldap://b.example.org\"]\nbase = \"dc=example,dc=org\"\n\
                     bind_dn = \"cn=kiln,dc=example,dc=org\"\nallowed_groups = [\"hpc\", \"staff\"]\nhome = \"/home/%u\"\n\
                     sudo_base = \"ou=sudoers,dc=example,dc=org\"\nattributes = { user_ssh_public_key = \"sshPublicKey\" }\n";
        insta::assert_snapshot!(conf(table, Some("s3cret")), @r"
        ldap_uri = ldap://a.example.org, ldap://b.example.org
        ldap_search_base = dc=example,dc=org
        ldap_tls_reqcert = demand
        ldap_id_use_start_tls = true
        ldap_schema = rfc2307
        ldap_id_mapping = false
        ldap_default_bind_dn = cn=kiln,dc=example,dc=org
        ldap_default_authtok_type = password
        ldap_default_authtok = s3cret
        ldap_user_ssh_public_key = sshPublicKey
        override_homedir = /home/%u
        sudo_provider = ldap
        ldap_sudo_search_base = ou=sudoers,dc=example,dc=org
        access_provider = simple
        simple_allow_groups = hpc, staff
        ");
    }
}
