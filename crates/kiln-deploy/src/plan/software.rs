//! What changes in the software of nodes: the packages of the image that they run against those of the one that they are to get.

use std::collections::BTreeMap;
use std::fmt;

use kiln_image::{Difference, Manifest};
use kiln_spec::{Spec, hostlist};
use serde::Serialize;

use crate::observe::Observed;
use crate::targets::Targets;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SoftwareChange {
    pub nodes: Vec<String>,
    /// Names of images.
    pub from: String,
    pub to: String,
    pub summary: String,
    #[serde(flatten)]
    pub difference: Difference,
}

impl fmt::Display for SoftwareChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = hostlist::fold(self.nodes.iter().map(String::as_str));
        write!(f, "software of {nodes}, {} -> {}: {}", self.from, self.to, self.summary)
    }
}

/// For the nodes of the file that are to get another image.
pub fn software(spec: &Spec, observed: &Observed, targets: &Targets) -> Vec<SoftwareChange> {
    let target = |image: &str| targets.get(image).and_then(Option::as_deref);
    changes(observed, spec.nodes().filter_map(|node| Some((node.name, target(node.image)?))))
}

/// For nodes with the id of the image that each is to get. Nothing is said of images that Kiln has not built.
pub fn changes<'a>(
    observed: &Observed,
    wanted: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<SoftwareChange> {
    let instances = observed.nodes();
    let mut gathered: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (node, target) in wanted {
        let current = instances.get(node).and_then(|instance| instance.image.as_deref());
        if let Some(current) = current.filter(|current| *current != target) {
            gathered.entry((current, target)).or_default().push(node);
        }
    }
    let image = |id: &str| observed.images.iter().find(|image| image.id == id);
    let change = |((from, to), nodes): (&(&str, &str), &Vec<&str>)| {
        let (from, to) = (image(from)?, image(to)?);
        let difference = Difference::between(&Manifest::of(from)?, &Manifest::of(to)?);
        Some(SoftwareChange {
            nodes: nodes.iter().map(|node| (*node).to_string()).collect(),
            from: from.name.clone(),
            to: to.name.clone(),
            summary: difference.summary(),
            difference,
        })
    };
    gathered.iter().filter_map(change).collect()
}
