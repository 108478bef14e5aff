//! What makes a group elastic, and how patient kilnd is.

use std::time::Duration;

use super::names;
use crate::diagnostic::Findings;
use crate::merge::{self, Merged};
use crate::units::duration;
use crate::written::Text;
use crate::{Elastic, ImageUpdate, Reconcile};

/// Slurm looks for idle nodes every few seconds.
const SHORTEST_IDLE: Duration = Duration::from_secs(10);

pub(super) fn elastic(
    group: &merge::Group,
    nodes: &[String],
    findings: &mut Findings<'_>,
) -> Option<Elastic> {
    for zone in &group.zones {
        names::check_one_line("the zone", zone, findings);
    }
    let written = group.elastic.as_ref()?;
    for flavor in &written.flavors {
        super::nodes::check_flavor(flavor, findings);
    }
    if group.image_update == ImageUpdate::Apply {
        let message = format!("group `{}` is elastic, and `image_update` is \"apply\"", group.name.value);
        (findings.error("bad-elastic", group.name.span.clone(), message))
            .expected("no `image_update`")
            .hint("nodes of an elastic group come back on the new image when Slurm powers them up again");
    }
    let min = usize::try_from(written.min.value).ok().filter(|min| *min <= nodes.len());
    if min.is_none() {
        let message = format!("`min` of group `{}` cannot be {}", group.name.value, written.min.value);
        (findings.error("out-of-range", written.min.span.clone(), message))
            .expected(format!("0 to {}, the number of the group's nodes", nodes.len()));
    }
    Some(Elastic {
        idle: at_least("`idle`", &written.idle, SHORTEST_IDLE, findings),
        min: min.unwrap_or_default(),
        flavors: written.flavors.iter().map(|flavor| flavor.value.clone()).collect(),
    })
}

pub(super) fn reconcile(merged: &Merged, findings: &mut Findings<'_>) -> Reconcile {
    let written = &merged.reconcile;
    let second = Duration::from_secs(1);
    let failures = u32::try_from(written.failures.value).ok().filter(|n| (1..=100).contains(n));
    if failures.is_none() {
        let message = format!("`failures` cannot be {}", written.failures.value);
        findings.error("out-of-range", written.failures.span.clone(), message).expected("1 to 100");
    }
    Reconcile {
        every: at_least("`every`", &written.every, second, findings),
        grace: at_least("`grace`", &written.grace, second, findings),
        newcomer: at_least("`newcomer`", &written.newcomer, second, findings),
        pause: at_least("`pause`", &written.pause, second, findings),
        failures: failures.unwrap_or(1),
    }
}

fn at_least(what: &str, text: &Text, least: Duration, findings: &mut Findings<'_>) -> Duration {
    match duration(&text.value) {
        Some(duration) if duration >= least => duration,
        _ => {
            (findings.error("bad-time", text.span.clone(), format!("{what} cannot be `{}`", text.value)))
                .expected(format!("a duration of {} s or more, e.g. \"15m\" or \"90s\"", least.as_secs()));
            least
        }
    }
}
