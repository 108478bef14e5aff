//! A step that was begun, as the label of the state's volume tells it: it outlives the control node, and `plan` sees it
//! before it can ask the node.

use kiln_cloud::Labels;
use kiln_slurm::Release;
use kiln_spec::Spec;
use kiln_wire::labels;

use crate::observe::Observed;
use crate::upgrade::seen::release_of;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The new Slurm is to take over.
    Going,
    /// It could not: the old one is put back.
    Back,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub phase: Phase,
    /// On the state volume: what was noted before the step.
    pub directory: String,
    /// Id of the image of the old Slurm.
    pub image: String,
}

impl Open {
    pub fn of(spec: &Spec, observed: &Observed) -> Option<Open> {
        Open::parse(observed.state_volume(spec)?.labels.get(labels::UPGRADE)?)
    }

    /// Nothing is open. A label of a volume can be changed, not taken away.
    pub fn none() -> Labels {
        Labels::from([(labels::UPGRADE.to_string(), "none".to_string())])
    }

    fn parse(value: &str) -> Option<Open> {
        let [phase, directory, image] = value.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let phase = match phase {
            "going" => Phase::Going,
            "back" => Phase::Back,
            _ => return None,
        };
        Some(Open { phase, directory: directory.to_string(), image: image.to_string() })
    }

    pub fn label(&self) -> Labels {
        let phase = match self.phase {
            Phase::Going => "going",
            Phase::Back => "back",
        };
        let value = format!("{phase} {} {}", self.directory, self.image);
        Labels::from([(labels::UPGRADE.to_string(), value)])
    }

    /// The old one.
    pub fn release(&self) -> Option<Release> {
        release_of(&self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_label_says_is_understood() {
        let directory = "/var/lib/state/upgrades/20261116-050606-slurm-24.11.5".to_string();
        let open = Open { phase: Phase::Back, directory, image: "6d3f".into() };
        let label = open.label();
        assert_eq!(Open::parse(&label[labels::UPGRADE]), Some(open.clone()));
        assert_eq!(open.release(), Some(Release::new(24, 11, 5)));
        for other in ["", &Open::none()[labels::UPGRADE], "going", "going a", "sideways a b", "going a b c"] {
            assert_eq!(Open::parse(other), None, "{other}");
        }
    }
}
