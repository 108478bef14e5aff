//! The names of the fleet's nodes, in a list beside the fleet file: a hook has no time to read that one, which is a
//! hundred times as long.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::paths;

const ELASTIC: &str = "elastic";

/// A list that is out of date does no harm: kilnd checks again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeNames {
    /// Whether each belongs to an elastic group.
    nodes: HashMap<String, bool>,
}

impl NodeNames {
    /// One node per line, with the word `elastic` behind those of elastic groups. A later release may add words.
    pub fn to_text<'a>(nodes: impl Iterator<Item = (&'a str, bool)>) -> String {
        nodes.fold(String::new(), |mut text, (name, elastic)| {
            let _ = if elastic { writeln!(text, "{name} {ELASTIC}") } else { writeln!(text, "{name}") };
            text
        })
    }

    pub fn from_text(text: &str) -> Self {
        let nodes = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            Some((words.next()?.to_string(), words.next() == Some(ELASTIC)))
        });
        NodeNames { nodes: nodes.collect() }
    }

    pub fn beside(fleet_file: &Path) -> io::Result<Self> {
        let name = Path::new(paths::NODE_NAMES).file_name().unwrap_or_default();
        Ok(Self::from_text(&std::fs::read_to_string(fleet_file.with_file_name(name))?))
    }

    pub fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    pub fn is_elastic(&self, node: &str) -> bool {
        self.nodes.get(node).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = NodeNames::to_text([("a-0", false), ("e-0", true)].into_iter());
        assert_eq!(text, "a-0\ne-0 elastic\n");
        let names = NodeNames::from_text(&text);
        assert!(names.has("a-0") && !names.is_elastic("a-0"));
        assert!(names.has("e-0") && names.is_elastic("e-0"));
        assert!(!names.has("b-0") && !names.is_elastic("b-0"));
    }
}
