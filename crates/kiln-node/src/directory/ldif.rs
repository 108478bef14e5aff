//! LDIF, in which `ldapsearch` answers and `ldapmodify` is told.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// An entry of the directory. Names of attributes are in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    pub dn: String,
    attributes: BTreeMap<String, Vec<String>>,
}

impl Entry {
    pub fn values(&self, attribute: &str) -> &[String] {
        self.attributes.get(attribute).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn value(&self, attribute: &str) -> &str {
        self.values(attribute).first().map(String::as_str).unwrap_or_default()
    }

    pub fn number(&self, attribute: &str) -> Option<u32> {
        self.value(attribute).parse().ok()
    }
}

/// Reads what `ldapsearch -LLL -o ldif-wrap=no` prints.
pub fn parse(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = match value.strip_prefix(':') {
            Some(encoded) => decode(encoded.trim()),
            None => value.trim_start().to_string(),
        };
        if name.eq_ignore_ascii_case("dn") {
            entries.push(Entry { dn: value, ..Entry::default() });
        } else if let Some(entry) = entries.last_mut() {
            entry.attributes.entry(name.to_ascii_lowercase()).or_default().push(value);
        }
    }
    entries
}

fn decode(encoded: &str) -> String {
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Changes, in their order.
#[derive(Debug, Default)]
pub struct Changes(String);

impl Changes {
    pub fn add(&mut self, dn: &str, attributes: &[(&str, &str)]) {
        self.begin(dn, "add");
        for (name, value) in attributes {
            self.line(name, value);
        }
        self.0.push('\n');
    }

    pub fn delete(&mut self, dn: &str) {
        self.begin(dn, "delete");
        self.0.push('\n');
    }

    /// `how`: `add`, `delete` or `replace`.
    pub fn modify(&mut self, dn: &str, how: &str, attribute: &str, values: &[&str]) {
        self.begin(dn, "modify");
        self.line(how, attribute);
        for value in values {
            self.line(attribute, value);
        }
        self.0.push('\n');
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    fn begin(&mut self, dn: &str, how: &str) {
        self.line("dn", dn);
        self.line("changetype", how);
    }

    /// In base64, where a value could be read as something else.
    fn line(&mut self, name: &str, value: &str) {
        let plain = value.bytes().all(|byte| (b' '..0x7f).contains(&byte))
            && !value.starts_with([' ', ':', '<'])
            && !value.ends_with(' ');
        // Writing to a string does not fail.
        let _ = if plain {
            writeln!(self.0, "{name}: {value}")
        } else {
            writeln!(self.0, "{name}:: {}", STANDARD.encode(value))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_with_values_in_base64() {
        let text = "dn: uid=ada,ou=people,dc=demo\nuid: ada\ndisplayName:: QWTDoQ==\nnsSshPublicKey: ssh-ed25519 A ada\nnsSshPublicKey: ssh-rsa B\n\n\
                    dn: cn=ada,ou=groups,dc=demo\ngidNumber: 70000\n";
        let entries = parse(text);
        assert_eq!(entries.len(), 2);
        assert_eq!((entries[0].value("uid"), entries[0].value("displayname")), ("ada", "Adá"));
        assert_eq!(entries[0].values("nssshpublickey"), ["ssh-ed25519 A ada", "ssh-rsa B"]);
        assert_eq!((entries[1].number("gidnumber"), entries[1].number("uidnumber")), (Some(70_000), None));
    }

    /// A name with a line break must not become a second change.
    #[test]
    fn no_value_can_say_more_than_itself() {
        let mut changes = Changes::default();
        changes.add("uid=a,dc=x", &[("uid", "a"), ("cn", "A\ndn: uid=b"), ("gecos", ": <"), ("sn", "Adá")]);
        changes.modify("cn=g,dc=x", "delete", "member", &["uid=a,dc=x"]);
        changes.delete("uid=a,dc=x");
        assert_eq!(
            changes.text(),
            "dn: uid=a,dc=x\nchangetype: add\nuid: a\ncn:: QQpkbjogdWlkPWI=\ngecos:: OiA8\nsn:: QWTDoQ==\n\n\
             dn: cn=g,dc=x\nchangetype: modify\ndelete: member\nmember: uid=a,dc=x\n\n\
             dn: uid=a,dc=x\nchangetype: delete\n\n"
        );
        let read = parse(changes.text());
        assert_eq!(read[0].value("cn"), "A\ndn: uid=b");
    }
}
