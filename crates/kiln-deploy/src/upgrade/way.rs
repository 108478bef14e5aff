//! Which way leads from the Slurm that runs to the one that the file wants.

use kiln_slurm::Release;

use crate::error::{Error, Result};

/// What is known before anything is done.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The control node's name.
    pub control: String,
    pub present: Option<Release>,
    pub future: Option<Release>,
    /// The control node has its state volume. One that was rebuilt gets it when it is configured.
    pub mounted: bool,
    /// The directory of an upgrade that was begun and not ended.
    pub open: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// A maintenance upgrade from the beginning.
    Begin { from: Release, to: Release },
    /// One that was begun: Slurm's data is aside already. `None`: which one, its volume says.
    Continue { directory: Option<String> },
}

pub fn way(known: &Known) -> Result<Way> {
    let Some(future) = known.future else {
        return Err(Error::NoUpgrade("the image of the control node does not say which Slurm it has".into()));
    };
    if let Some(directory) = &known.open {
        return Ok(Way::Continue { directory: Some(directory.clone()) });
    }
    let Some(present) = known.present else {
        return Err(Error::NoSlurm(known.control.clone()));
    };
    if !known.mounted {
        // Rebuilt by an upgrade and then cut off; whatever it is, configuring comes first.
        return if present == future {
            Ok(Way::Continue { directory: None })
        } else {
            Err(Error::NotReady(format!("{} has no state volume mounted", known.control)))
        };
    }
    if present == future {
        return Err(Error::NoUpgrade(format!("{} runs Slurm {present} already", known.control)));
    }
    if future.can_convert(present) {
        let words = format!("Slurm {future} takes over the database and state of Slurm {present} by itself");
        return Err(Error::NoMaintenance(words));
    }
    if future < present {
        return Err(Error::SlurmConversion { node: known.control.clone(), present, future });
    }
    Ok(Way::Begin { from: present, to: future })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(present: &str, future: &str) -> Known {
        let control = "control".to_string();
        Known {
            control,
            present: present.parse().ok(),
            future: future.parse().ok(),
            mounted: true,
            open: None,
        }
    }

    #[test]
    fn only_a_jump_too_far_is_a_maintenance_upgrade() {
        let begin = Way::Begin { from: Release::new(22, 5, 8), to: Release::new(24, 11, 5) };
        assert_eq!(way(&known("22.05.8", "24.11.5")).ok(), Some(begin));
        assert!(matches!(way(&known("24.11.5", "26.05.5")), Err(Error::NoMaintenance(_))));
        assert!(matches!(way(&known("24.11.5", "24.11.5")), Err(Error::NoUpgrade(_))));
        assert!(matches!(way(&known("26.05.5", "22.05.8")), Err(Error::SlurmConversion { .. })));
        assert!(matches!(way(&known("24.11.5", "")), Err(Error::NoUpgrade(_))));
        assert!(matches!(way(&known("", "24.11.5")), Err(Error::NoSlurm(_))));
    }

    #[test]
    fn what_was_begun_is_continued() {
        let open = |known| Known { open: Some("/d".into()), ..known };
        let directory = Some("/d".to_string());
        for present in ["22.05.8", "24.11.5", ""] {
            let way = way(&open(known(present, "24.11.5"))).ok();
            assert_eq!(way, Some(Way::Continue { directory: directory.clone() }), "{present}");
        }
        let rebuilt = Known { mounted: false, ..known("24.11.5", "24.11.5") };
        assert_eq!(way(&rebuilt).ok(), Some(Way::Continue { directory: None }));
        assert!(way(&Known { mounted: false, ..known("22.05.8", "24.11.5") }).is_err());
    }
}
