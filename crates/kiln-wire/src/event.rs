//! What kilnd did by itself, for people to read.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::format::{Format, Version};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub time: Timestamp,
    pub node: String,
    pub what: String,
    pub why: String,
    pub outcome: String,
}

/// Oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventList {
    #[serde(default)]
    pub format: Version<1>,
    pub events: Vec<Event>,
}

impl Format for EventList {
    const NAME: &'static str = "list of events";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let event = Event {
            time: Timestamp::UNIX_EPOCH,
            node: "n-0".into(),
            what: "reboot".into(),
            why: "asked by Slurm".into(),
            outcome: "done".into(),
        };
        let list = EventList { format: Version, events: vec![event] };
        assert_eq!(EventList::from_json(&list.to_json().unwrap()), Ok(list));
    }
}
