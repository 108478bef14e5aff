//! `[cloud]` as it is written: two keys that every kind of cloud has, and those of the kind that it is.

use std::ops::Range;

use toml_edit::Value;

use super::{CloudFacts, CloudKind, OwnTable};
use crate::words::and_list;
use crate::written::table::table;
use crate::written::{At, Choice as _, Key, Reader, Shape, Source, Text, Written};

table! {
    /// Where the cluster runs.
    CommonTable {
        /// The kind of cloud: `local` boots the nodes on this machine, `openstack` uses a project of an OpenStack cloud, `oci` a compartment of Oracle Cloud.
        "kind" => kind: At<CloudKind>, required;
        /// Private IPv4 network of the nodes, /16 to /28, e.g. `10.213.7.0/24`. It is read when the network is created.
        /// OpenStack: without `network`, Kiln creates a network with this subnet; with it, this chooses one of its subnets, and must do so if it has several IPv4 ones; it may then be public, and of any size up to /29.
        "subnet" => subnet: Text, otherwise "on `local` a free /24 of 10.213.0.0/16";
    }
}

#[derive(Debug, Default)]
pub(crate) struct CloudTable {
    /// Where the table begins in the file.
    pub at: Range<usize>,
    pub subnet: Option<Text>,
    pub kind: Option<At<CloudKind>>,
    /// `None`: the kind is missing or wrong, which was reported.
    pub(super) own: Option<OwnTable>,
}

impl CloudTable {
    /// `None`: its absence was reported.
    pub fn facts(&self) -> Option<&'static CloudFacts> {
        self.kind.as_ref().map(|kind| kind.value.facts())
    }

    /// Its `subnet` is one of a network that exists, and is as it is.
    pub fn chooses_subnet(&self) -> bool {
        matches!(&self.own, Some(OwnTable::OpenStack(table)) if table.network.is_some())
    }
}

impl Written for CloudTable {
    fn read(source: &Source<'_>, reader: &mut Reader<'_, '_>) -> Option<Self> {
        let entries = reader.entries(source)?;
        let kind = kind_of(&entries);
        let known = known(kind);
        let (mut common, mut own) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            let name = key.value.as_str();
            let mut owners = CloudKind::ALL.iter().filter(|kind| kind.names().contains(&name));
            match (kind, owners.clone().next()) {
                (Some(kind), Some(_)) if owners.any(|owner| *owner == kind) => own.push((key, value)),
                (Some(kind), Some(owner)) => wrong_cloud(&key, &value, kind, *owner, &known, reader),
                // Without a kind nobody can say what the value should be.
                (None, Some(_)) => {}
                (_, None) => common.push((key, value)),
            }
        }
        let CommonTable { at, kind: written, subnet } =
            CommonTable::of_entries(source, &common, &known, reader);
        let own = kind.map(|kind| kind.read(source, &own, reader));
        Some(CloudTable { at, kind: written, subnet, own })
    }

    fn schema() -> serde_json::Value {
        crate::schema::table(&Self::keys(), "Where the cluster runs.")
    }

    /// Those of all kinds. Where several have one, it is there once, with what each says about it.
    fn keys() -> Vec<Key> {
        let mut keys = CommonTable::keys();
        for key in CloudKind::ALL.iter().flat_map(|kind| kind.keys()) {
            match keys.iter_mut().find(|other| other.name == key.name) {
                Some(other) => other.doc = format!("{} {}", other.doc, key.doc),
                None => keys.push(key),
            }
        }
        keys
    }
}

/// The kind that the file names, if there is such a kind.
fn kind_of(entries: &[(Text, Source<'_>)]) -> Option<CloudKind> {
    let (_, value) = entries.iter().find(|(key, _)| key.value == "kind")?;
    let Shape::Value(Value::String(word)) = value.shape else { return None };
    CloudKind::WORDS.iter().find(|(known, _)| known == word.value()).map(|(_, kind)| *kind)
}

/// The keys that the user can choose from.
fn known(kind: Option<CloudKind>) -> Vec<&'static str> {
    let kinds = kind.as_ref().map_or(CloudKind::ALL, std::slice::from_ref);
    let own = kinds.iter().flat_map(|kind| kind.names());
    let mut known = Vec::new();
    for name in CommonTable::KEYS.iter().chain(own) {
        if !known.contains(name) {
            known.push(*name);
        }
    }
    known
}

/// A key that this kind of cloud has no use for.
fn wrong_cloud(
    key: &Text,
    value: &Source<'_>,
    kind: CloudKind,
    owner: CloudKind,
    known: &[&str],
    reader: &mut Reader<'_, '_>,
) {
    let name = &key.value;
    let message = format!("the {} cloud has no `{name}`", kind.facts().kind);
    (reader.findings.error("wrong-cloud", value.span.clone(), message))
        .expected(format!("keys of this cloud: {}", and_list(known)))
        .hint(format!("`{name}` belongs to kind = \"{}\"", owner.facts().kind));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of two kinds has one place in the schema.
    #[test]
    fn kinds_that_share_a_key_agree_on_its_type() {
        let all = || CloudKind::ALL.iter().flat_map(|kind| kind.keys()).chain(CommonTable::keys());
        for key in all() {
            for other in all().filter(|other| other.name == key.name) {
                assert_eq!(key.schema, other.schema, "{}", key.name);
            }
        }
    }
}
