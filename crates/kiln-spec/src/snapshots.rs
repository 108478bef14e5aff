//! `snapshots.toml`, beside the cluster file: the snapshot of each source that a Pulp server has snapshots of. Kiln writes it,
//! and a person reviews and commits it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use toml_edit::{DocumentMut, Key, Value};

/// Its name.
pub const SNAPSHOTS_FILE: &str = "snapshots.toml";

const TABLE: &str = "snapshots";
const HEAD: &str = "# The snapshot of each source that images are built from. `kiln image sync` writes this file; review it and\n\
                    # commit it with the cluster file.\n\n";

/// Stamps by the names of sources. Names that the cluster file does not have are kept: other cluster files in the same
/// directory may have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshots(pub BTreeMap<String, String>);

impl Snapshots {
    /// The error says what is wrong with the text.
    pub fn read(text: &str) -> Result<Snapshots, String> {
        let document: DocumentMut =
            text.parse().map_err(|error: toml_edit::TomlError| error.message().to_string())?;
        let mut stamps = BTreeMap::new();
        for (key, item) in document.iter() {
            let table = item.as_table_like().filter(|_| key == TABLE);
            let Some(table) = table else { return Err(format!("`{key}` does not belong there")) };
            for (name, stamp) in table.iter() {
                let stamp = stamp.as_str().filter(|stamp| is_stamp(stamp));
                let Some(stamp) = stamp else { return Err(format!("`{name}` has no name of a snapshot")) };
                stamps.insert(name.to_string(), stamp.to_string());
            }
        }
        Ok(Snapshots(stamps))
    }

    /// In the order of the names, so that a change of one is a change of one line.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}[{TABLE}]\n");
        for (name, stamp) in &self.0 {
            let _ = writeln!(text, "{} = {}", Key::new(name), Value::from(stamp.as_str()));
        }
        text
    }
}

/// What can be a part of an address: `20260101T000000Z`.
pub(crate) fn is_stamp(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let stamps = [("security", "20260102T000000Z"), ("debian", "20260101T000000Z"), ("of.others", "v7")];
        let stamps = Snapshots(stamps.map(|(name, stamp)| (name.to_string(), stamp.to_string())).into());
        let text = stamps.to_text();
        assert_eq!(Snapshots::read(&text).as_ref(), Ok(&stamps));
        let lines: Vec<&str> = text.lines().skip_while(|line| *line != "[snapshots]").skip(1).collect();
        assert_eq!(
            lines,
            ["debian = \"20260101T000000Z\"", "\"of.others\" = \"v7\"", "security = \"20260102T000000Z\""]
        );
        assert_eq!(Snapshots::read(&Snapshots::default().to_text()), Ok(Snapshots::default()));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let why = |text: &str| Snapshots::read(text).unwrap_err();
        assert_eq!(why("[snapshots]\ndebian = 7\n"), "`debian` has no name of a snapshot");
        assert_eq!(why("[snapshots]\ndebian = \"../x\"\n"), "`debian` has no name of a snapshot");
        assert_eq!(why("debian = \"x\"\n"), "`debian` does not belong there");
        assert!(!why("[snapshots\n").is_empty());
    }
}
