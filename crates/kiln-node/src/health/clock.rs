//! Whether chrony keeps the node's clock right: MUNGE refuses credentials of a node whose clock is minutes off.

use std::time::Duration;

use crate::{explain, process};

const LIMIT: Duration = Duration::from_secs(5);
/// In seconds. MUNGE takes credentials that are five minutes old.
const FARTHEST: f64 = 30.0;
/// In seconds of uptime: how long chrony may take to choose a server.
const START: f64 = 600.0;

pub(super) fn problem() -> Option<String> {
    let output =
        process::run(&["chronyc", "-n", "-c", "tracking"], None, LIMIT).and_then(process::Output::checked);
    match output {
        Ok(output) => judge(&output.stdout, uptime()),
        Err(error) => Some(format!("chrony does not answer ({})", explain(&error))),
    }
}

fn uptime() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split_whitespace().next().and_then(|seconds| seconds.parse().ok()).unwrap_or(START)
}

/// `tracking` is one line, whose fifth field is how far the clock is off, and whose last one is `Normal`.
fn judge(tracking: &str, uptime: f64) -> Option<String> {
    let fields: Vec<&str> = tracking.trim().split(',').collect();
    let offset: f64 = fields.get(4).and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
    if offset.abs() > FARTHEST {
        return Some(format!("the clock is {:.0} s off", offset.abs()));
    }
    let is_lost = fields.last().is_none_or(|leap| leap.starts_with("Not"));
    (is_lost && uptime > START).then(|| "no time server answers (`chronyc sources` lists them)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_right_or_said_to_be_off() {
        let line = |offset: &str, leap: &str| {
            format!(
                "C0000235,192.0.2.53,3,1763370000.1,{offset},0.0,0.1,1.5,0.0,0.2,0.01,0.002,64.4,{leap}\n"
            )
        };
        assert_eq!(judge(&line("0.000012", "Normal"), 9000.0), None);
        assert_eq!(judge(&line("-45.2", "Normal"), 9000.0).as_deref(), Some("the clock is 45 s off"));
        let lost = line("0.0", "Not synchronised");
        assert_eq!(judge(&lost, 20.0), None, "it has just booted");
        assert!(judge(&lost, 9000.0).is_some_and(|text| text.starts_with("no time server answers")));
    }
}
