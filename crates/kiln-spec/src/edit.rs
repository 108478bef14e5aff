//! The changes of a cluster file that Kiln makes itself, when it is told to. Comments, order and whatever else is in the
//! file stay as they are.

use std::collections::BTreeMap;

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

const LIMITS: &str = "limits";
const ZONES: &str = "zones";

/// Numbers of nodes, by flavor and availability zone.
pub type NodeCounts = BTreeMap<String, BTreeMap<String, u64>>;

/// Flavors that the file has a table `[limits.FLAVOR]` for, in its order.
pub fn limit_flavors(text: &str) -> Vec<String> {
    let document = text.parse::<DocumentMut>().unwrap_or_default();
    let limits = document.get(LIMITS).and_then(Item::as_table_like);
    limits.map(|limits| limits.iter().map(|(flavor, _)| flavor.to_string()).collect()).unwrap_or_default()
}

/// The file with these numbers in `[limits.FLAVOR]`. Where it names zones already, only those get new numbers; otherwise
/// all that have room are written. The error says what is in the way.
pub fn with_limits(text: &str, counts: &NodeCounts) -> Result<String, String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| error.message().to_string())?;
    let none = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let limits = document.entry(LIMITS).or_insert_with(none);
    let limits = limits.as_table_like_mut().ok_or_else(|| format!("`{LIMITS}` is not a table"))?;
    for (flavor, counts) in counts {
        let own = limits.entry(flavor).or_insert_with(|| Item::Table(Table::new()));
        let own = own.as_table_like_mut().ok_or_else(|| format!("`{LIMITS}.{flavor}` is not a table"))?;
        let zones = own.entry(ZONES).or_insert_with(|| Item::Value(InlineTable::new().into()));
        let zones = zones.as_table_like_mut();
        let zones = zones.ok_or_else(|| format!("`{ZONES}` of `{LIMITS}.{flavor}` is not a table"))?;
        set(zones, counts);
    }
    Ok(document.to_string())
}

fn set(zones: &mut dyn TableLike, counts: &BTreeMap<String, u64>) {
    if zones.is_empty() {
        for (zone, count) in counts.iter().filter(|(_, count)| **count > 0) {
            zones.insert(zone, Item::Value(number(*count)));
        }
        return;
    }
    for (written, item) in zones.iter_mut() {
        let count = counts.iter().find(|(zone, _)| is_same_zone(&written, zone));
        if let (Some((_, count)), Some(value)) = (count, item.as_value_mut()) {
            let decor = value.decor().clone();
            *value = number(*count);
            *value.decor_mut() = decor;
        }
    }
}

fn number(count: u64) -> Value {
    Value::from(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Whether a zone of the file is the one that a cloud calls so: `AD-1`, `Uocm:PHX-AD-1` and `1` are `ad1`.
pub fn is_same_zone(written: &str, zone: &str) -> bool {
    let plain = |text: &str| {
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let (written, zone) = (plain(written), plain(zone));
    written == zone || zone.strip_prefix("ad") == Some(&written) || {
        let numbered = zone.strip_prefix("ad").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        numbered && written.ends_with(&zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, &[(&str, u64)])]) -> NodeCounts {
        let zones = |zones: &[(&str, u64)]| zones.iter().map(|(zone, n)| ((*zone).to_string(), *n)).collect();
        all.iter().map(|(flavor, own)| ((*flavor).to_string(), zones(own))).collect()
    }

    #[test]
    fn only_numbers_change() {
        let text = "# ours\n[cluster]\nname = \"x\" # short\n\n[limits.\"VM.Standard2.1\"]\n\
                    zones = { AD-1 = 7, 2 = 5 } # as agreed\nidle = \"5m\"\n\n[slurm.config]\nKillWait = 30\n";
        let new = counts(&[("VM.Standard2.1", &[("ad1", 16), ("ad2", 0), ("ad3", 4)])]);
        let expected = text.replace("AD-1 = 7", "AD-1 = 16").replace("2 = 5", "2 = 0");
        assert_eq!(with_limits(text, &new).unwrap(), expected);
        assert_eq!(with_limits(&expected, &new).unwrap(), expected);
        assert_eq!(limit_flavors(text), ["VM.Standard2.1"]);
    }

    #[test]
    fn what_is_not_there_is_added() {
        let new = counts(&[("small", &[("ad1", 2), ("ad2", 0)]), ("BM.GPU4.8", &[("ad3", 1)])]);
        let text = "[cluster]\nname = \"x\"\n\n[limits.small]\nzones = {}\n";
        let written = with_limits(text, &new).unwrap();
        assert_eq!(
            written,
            "[cluster]\nname = \"x\"\n\n[limits.small]\nzones = { ad1 = 2 }\n\n\
             [limits.\"BM.GPU4.8\"]\nzones = { ad3 = 1 }\n"
        );
        let alone = with_limits("[cluster]\nname = \"x\"\n", &counts(&[("small", &[("ad1", 2)])])).unwrap();
        assert_eq!(alone, "[cluster]\nname = \"x\"\n\n[limits.small]\nzones = { ad1 = 2 }\n");
    }

    #[test]
    fn zones_have_several_names() {
        for written in ["ad1", "AD-1", "1", "Uocm:PHX-AD-1"] {
            assert!(is_same_zone(written, "ad1"), "{written}");
        }
        for other in ["ad11", "ad2", "2", "", "d1"] {
            assert!(!is_same_zone(other, "ad1"), "{other}");
        }
        assert!(is_same_zone("nova", "nova") && !is_same_zone("big-nova", "nova"));
    }
}
