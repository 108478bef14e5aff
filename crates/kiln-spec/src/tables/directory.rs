//! `[directory]`: where users and groups come from that are not in the file.

use std::collections::BTreeMap;

use crate::diagnostic::Findings;
use crate::nearest::did_you_mean;
use crate::parse::Files;
use crate::words::or_list;
use crate::written::table::table;
use crate::written::{At, Choice, List, Named, Text};
use crate::{Directory, LdapDirectory, LdapSchema};

table! {
    /// Users and groups from a directory server, besides those of the file.
    DirectoryTable {
        /// `server`: Kiln runs a 389 Directory Server on the control node, and `kiln user` adds and removes its users. `ldap`: the site has a server.
        "kind" => kind: At<Kind>, required;
        /// The entry that everything is below, such as `dc=example,dc=org`.
        "base" => base: Text, otherwise "made from the cluster's domain with `kind = \"server\"`; required with `ldap`";
        /// With `ldap`: `ldaps://HOST[:PORT]`, or `ldap://HOST[:PORT]`, which is encrypted by StartTLS. The first that answers is used.
        "uri" => uri: List<Text>, empty;
        /// With `ldap`: who the nodes are to the server. The password is the secret `directory-bind-password`.
        "bind_dn" => bind_dn: Text, otherwise "the server answers everybody";
        /// With `ldap`: file with the certificates of the authorities that the server's is checked with, in PEM, relative to the cluster file.
        "ca" => ca: Text, otherwise "those that the nodes' system trusts";
        /// With `ldap`: how groups name their members: `rfc2307` (`memberUid`), `rfc2307bis` (`member`) or `ad` (Active Directory).
        "schema" => schema: At<LdapSchema>, default LdapSchema::Rfc2307;
        /// With `ldap`: the entry that sudo's rules are below.
        "sudo_base" => sudo_base: Text, otherwise "no rules come from the directory";
        /// With `ldap`: make the numbers of users and groups from their SIDs, for an Active Directory without them.
        "id_mapping" => id_mapping: At<bool>, default false;
        /// With `ldap`: only members of these groups may log in.
        "allowed_groups" => allowed_groups: List<Text>, otherwise "every user of the directory may";
        /// With `ldap`: where homes are, with `%u` for the user's name, such as `/home/%u`.
        "home" => home: Text, otherwise "where the directory says";
        /// With `ldap`: attributes with other names than in `schema`, such as `{ user_ssh_public_key = "sshPublicKey" }`: sssd's options without `ldap_`.
        "attributes" => attributes: Named<Text>, empty;
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Server,
    Ldap,
}

impl Choice for Kind {
    const WORDS: &'static [(&'static str, Self)] = &[("server", Kind::Server), ("ldap", Kind::Ldap)];
}

impl Choice for LdapSchema {
    const WORDS: &'static [(&'static str, Self)] =
        &[("rfc2307", LdapSchema::Rfc2307), ("rfc2307bis", LdapSchema::Rfc2307bis), ("ad", LdapSchema::Ad)];
}

/// Attributes that a site may call otherwise: sssd's options of these names, behind `ldap_`.
const LDAP_ATTRIBUTES: [&str; 12] = [
    "group_gid_number",
    "group_member",
    "group_name",
    "group_object_class",
    "user_gecos",
    "user_gid_number",
    "user_home_directory",
    "user_name",
    "user_object_class",
    "user_shell",
    "user_ssh_public_key",
    "user_uid_number",
];

pub(crate) fn validate(
    written: Option<&DirectoryTable>,
    domain: Option<&Text>,
    files: Files<'_>,
    findings: &mut Findings<'_>,
) -> Option<Directory> {
    let written = written?;
    if let Some(base) = &written.base {
        check_dn("base", base, findings);
    }
    match written.kind.as_ref()?.value {
        Kind::Server => {
            refuse_keys_of_ldap(written, findings);
            let base = written.base.as_ref().map(|base| base.value.clone());
            Some(Directory::Server { base: base.or_else(|| domain.map(|domain| base_of(&domain.value)))? })
        }
        Kind::Ldap => ldap(written, files, findings).map(Directory::Ldap),
    }
}

/// `demo.internal`: `dc=demo,dc=internal`.
fn base_of(domain: &str) -> String {
    domain.split('.').map(|part| format!("dc={part}")).collect::<Vec<_>>().join(",")
}

/// What only says something of a server of the site.
fn refuse_keys_of_ldap(written: &DirectoryTable, findings: &mut Findings<'_>) {
    let texts = [
        ("bind_dn", &written.bind_dn),
        ("ca", &written.ca),
        ("sudo_base", &written.sudo_base),
        ("home", &written.home),
    ];
    let mut found: Vec<_> =
        texts.iter().filter_map(|(key, text)| Some((*key, text.as_ref()?.span.clone()))).collect();
    found.extend(written.uri.value.first().map(|_| ("uri", written.uri.span.clone())));
    found.extend(written.allowed_groups.as_ref().map(|list| ("allowed_groups", list.span.clone())));
    found.extend(written.attributes.first().map(|(name, _)| ("attributes", name.span.clone())));
    found.extend(written.id_mapping.value.then(|| ("id_mapping", written.id_mapping.span.clone())));
    let other = written.schema.value != LdapSchema::default();
    found.extend(other.then(|| ("schema", written.schema.span.clone())));
    for (key, span) in found {
        let message = format!("`{key}` is for a directory of the site, and this one is Kiln's own");
        findings.error("unused-key", span, message).expected("`kind = \"ldap\"`, or none of this");
    }
}

fn ldap(written: &DirectoryTable, files: Files<'_>, findings: &mut Findings<'_>) -> Option<LdapDirectory> {
    let at = &written.at;
    if written.uri.value.is_empty() {
        (findings.error("missing-key", at.clone(), "[directory] does not say where the server is"))
            .expected("`uri = [\"ldaps://ldap.example.org\"]`");
    }
    for uri in &written.uri.value {
        check_uri(uri, findings);
    }
    let begins_with_tls = |uri: &Text| uri.value.starts_with("ldaps://");
    if let [first, others @ ..] = written.uri.value.as_slice()
        && let Some(other) = others.iter().find(|uri| begins_with_tls(uri) != begins_with_tls(first))
    {
        (findings.error(
            "bad-url",
            other.span.clone(),
            "one server is asked with TLS, another with StartTLS",
        ))
        .expected("`ldaps://` for all of them, or `ldap://` for all")
        .related(first.span.clone(), "the other");
    }
    if written.base.is_none() {
        (findings.error("missing-key", at.clone(), "[directory] has no `base`"))
            .expected("`base = \"dc=example,dc=org\"`");
    }
    for (key, dn) in [("bind_dn", &written.bind_dn), ("sudo_base", &written.sudo_base)] {
        if let Some(dn) = dn {
            check_dn(key, dn, findings);
        }
    }
    let allowed = written.allowed_groups.as_ref().map(|list| list.value.as_slice()).unwrap_or_default();
    for group in allowed.iter().filter(|group| !is_plain(&group.value) || group.value.contains(',')) {
        let message = format!("`{}` cannot be the name of a group", group.value);
        findings.error("bad-name", group.span.clone(), message).expected("a name without commas");
    }
    if let Some(home) = &written.home {
        check_home(home, findings);
    }
    let ca = written.ca.as_ref().map(|path| certificates(path, files, findings));
    let attributes = attributes(&written.attributes, findings);
    Some(LdapDirectory {
        uris: written.uri.value.iter().map(|uri| uri.value.clone()).collect(),
        base: written.base.as_ref()?.value.clone(),
        bind_dn: written.bind_dn.as_ref().map(|dn| dn.value.clone()),
        ca: ca.map(Option::unwrap_or_default),
        schema: written.schema.value,
        sudo_base: written.sudo_base.as_ref().map(|dn| dn.value.clone()),
        id_mapping: written.id_mapping.value,
        allowed_groups: allowed.iter().map(|group| group.value.clone()).collect(),
        home: written.home.as_ref().map(|home| home.value.clone()),
        attributes,
    })
}

/// It stands in a line of a configuration file.
fn is_plain(text: &str) -> bool {
    !text.trim().is_empty() && text.trim() == text && !text.contains(char::is_control)
}

fn check_dn(key: &str, dn: &Text, findings: &mut Findings<'_>) {
    let is_part =
        |part: &str| part.split_once('=').is_some_and(|(name, value)| is_plain(name) && is_plain(value));
    // A comma inside of a value is written with a backslash before it.
    let parts = dn.value.replace("\\,", "");
    if !is_plain(&dn.value) || !parts.split(',').all(|part| is_part(part.trim())) {
        let message = format!("`{key}` is not the name of an entry: `{}`", dn.value);
        findings.error("bad-dn", dn.span.clone(), message).expected("such as \"dc=example,dc=org\"");
    }
}

fn check_uri(uri: &Text, findings: &mut Findings<'_>) {
    let rest = uri.value.strip_prefix("ldaps://").or_else(|| uri.value.strip_prefix("ldap://"));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    let right = rest.is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[') && rest.bytes().all(plain)
    });
    if !right {
        let message = format!("`{}` is not the URI of an LDAP server", uri.value);
        (findings.error("bad-url", uri.span.clone(), message))
            .expected("\"ldaps://HOST[:PORT]\" or \"ldap://HOST[:PORT]\"");
    }
}

fn check_home(home: &Text, findings: &mut Findings<'_>) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
    if !home.value.starts_with('/')
        || !home.value.contains("%u")
        || !home.value.replace("%u", "").chars().all(plain)
    {
        let message = format!("`{}` does not say where homes are", home.value);
        (findings.error("bad-path", home.span.clone(), message))
            .expected("an absolute path with `%u` for the user's name, such as \"/home/%u\"");
    }
}

fn certificates(path: &Text, files: Files<'_>, findings: &mut Findings<'_>) -> Option<String> {
    let fault = match files(&path.value).map(String::from_utf8) {
        Ok(Ok(text)) if text.contains("PRIVATE KEY-----") => "it has a private key".to_string(),
        Ok(Ok(text)) if text.contains("-----BEGIN CERTIFICATE-----") => return Some(text),
        Ok(_) => "it has no certificate in PEM".to_string(),
        Err(error) => error.to_string(),
    };
    let message = format!("the file `{}` cannot be used: {fault}", path.value);
    (findings.error("bad-certificate", path.span.clone(), message))
        .expected("a file with certificates in PEM, relative to the cluster file");
    None
}

fn attributes(written: &Named<Text>, findings: &mut Findings<'_>) -> BTreeMap<String, String> {
    for (name, value) in written {
        if !LDAP_ATTRIBUTES.contains(&name.value.as_str()) {
            let message = format!("there is no attribute `{}` to map", name.value);
            (findings.error("unknown-key", name.span.clone(), message))
                .expected(or_list(&LDAP_ATTRIBUTES))
                .maybe_hint(did_you_mean(&name.value, LDAP_ATTRIBUTES));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-;._".contains(c);
        if value.value.is_empty() || !value.value.chars().all(plain) {
            let message = format!("`{}` cannot be the name of an attribute", value.value);
            findings.error("bad-name", value.span.clone(), message).expected("such as \"sshPublicKey\"");
        }
    }
    written.iter().map(|(name, value)| (name.value.clone(), value.value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[image.default]\n[compute.a]\nnodes = \"a1\"\n";
    const CA: &str = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";

    fn read(table: &str) -> Result<Directory, String> {
        let files = |name: &str| match name {
            "ca.pem" => Ok(CA.as_bytes().to_vec()),
            "key.pem" => Ok(b"-----BEGIN PRIVATE KEY-----\n".to_vec()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        let text = format!("{REST}[directory]\n{table}");
        let spec = crate::parse_with_files(&text, "cluster.toml", &files);
        spec.map(|(spec, _)| spec.directory.expect("a directory")).map_err(|found| found.to_string())
    }

    #[test]
    fn a_server_of_kilns_is_below_the_clusters_domain() {
        let own = |table: &str| read(table).unwrap().base().to_string();
        assert_eq!(own("kind = \"server\"\n"), "dc=demo,dc=internal");
        assert_eq!(own("kind = \"server\"\nbase = \"o=lab\"\n"), "o=lab");
        let refused = read("kind = \"server\"\nuri = [\"ldaps://a\"]\nhome = \"/home/%u\"\n").unwrap_err();
        assert!(refused.contains("`uri` is for a directory of the site"), "{refused}");
        assert!(refused.contains("`home` is for a directory of the site"), "{refused}");
    }

    #[test]
    fn a_directory_of_the_site_is_read_whole() {
        let table = "kind = \"ldap\"\nuri = [\"ldaps://ldap.example.org:636\", \"ldaps://[2001:db8::1]\"]\nbase = \"dc=example,dc=org\"\n\
                     bind_dn = \"cn=kiln,ou=services,dc=example,dc=org\"\nca = \"ca.pem\"\nschema = \"rfc2307bis\"\n\
                     allowed_groups = [\"hpc users\"]\nhome = \"/home/%u\"\nattributes = { user_name = \"sAMAccountName\" }\n";
        let Directory::Ldap(ldap) = read(table).unwrap() else { panic!("another kind") };
        assert_eq!((ldap.uris.len(), ldap.ca.as_deref()), (2, Some(CA)));
        assert_eq!(ldap.schema, LdapSchema::Rfc2307bis);
        assert_eq!(ldap.allowed_groups, ["hpc users"]);
        assert_eq!(ldap.attributes["user_name"], "sAMAccountName");
    }

    #[test]
    fn what_cannot_be_used_is_told_all_at_once() {
        let said = read(
            "kind = \"ldap\"\nuri = [\"http://a\"]\nbind_dn = \"kiln\"\nca = \"key.pem\"\nhome = \"/home\"\n\
                         attributes = { user_nam = \"a b\" }\n",
        )
        .unwrap_err();
        for part in [
            "`http://a` is not the URI of an LDAP server",
            "[directory] has no `base`",
            "`bind_dn` is not the name of an entry: `kiln`",
            "`/home` does not say where homes are",
            "there is no attribute `user_nam` to map",
            "`a b` cannot be the name of an attribute",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let mixed =
            read("kind = \"ldap\"\nuri = [\"ldaps://a\", \"ldap://b\"]\nbase = \"dc=a\"\n").unwrap_err();
        assert!(mixed.contains("another with StartTLS"), "{mixed}");
        let base = "kind = \"ldap\"\nuri = [\"ldaps://a\"]\nbase = \"dc=a\"\n";
        assert!(read(&format!("{base}ca = \"key.pem\"\n")).unwrap_err().contains("it has a private key"));
        assert!(read(&format!("{base}ca = \"none\"\n")).unwrap_err().contains("cannot be used"));
        assert!(
            read("kind = \"ldap\"\nbase = \"dc=a\"\n")
                .unwrap_err()
                .contains("does not say where the server is")
        );
    }
}
