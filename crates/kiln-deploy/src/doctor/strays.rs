//! What carries the cluster's label and belongs to nothing in the file.

use jiff::{SignedDuration, Timestamp};
use kiln_site::{Purpose, volume_name};
use kiln_spec::Spec;
use kiln_wire::health::FindingReport;

use super::finding::{Finding, Severity};
use crate::nodes::node_of;
use crate::observe::Observed;
use crate::plan::{cluster_group, login_group};

/// No image takes that long to build.
const BUILD_LIMIT: SignedDuration = SignedDuration::from_hours(3);

const BY_APPLY: &str = "`kiln plan` shows it and `kiln apply` deletes it";
const BY_HAND: &str = "delete it in the cloud if nobody needs it; `kiln destroy` deletes it with the cluster";

/// `told`: what kilnd says of instances that it knows no node for.
pub fn strays(spec: &Spec, observed: &Observed, told: &[FindingReport], now: Timestamp) -> Vec<Finding> {
    let stray = |name: &str, what: &str, advice: &str| {
        let text = format!("{what} that carries this cluster's label belongs to nothing in the file");
        Finding::new(Severity::Warning, name, text, advice)
    };
    let mut found = Vec::new();
    let is_told = |id: &str| told.iter().any(|finding| finding.subject.ends_with(&format!("({id})")));
    let instances = observed.instances.iter().filter(|i| spec.node(node_of(i)).is_none() && !is_told(&i.id));
    found.extend(instances.map(|i| stray(&i.name, "an instance", BY_APPLY)));
    let volumes = Purpose::ALL.map(|purpose| volume_name(spec, purpose));
    let others = observed.volumes.iter().filter(|volume| !volumes.contains(&volume.name));
    found.extend(others.map(|volume| stray(&volume.name, "a volume", BY_HAND)));
    // The first is the one that the cluster uses.
    found.extend(observed.networks.iter().skip(1).map(|network| stray(&network.name, "a network", BY_HAND)));
    let groups = [cluster_group(spec), login_group(spec)];
    let others = observed.security_groups.iter().filter(|group| !groups.contains(&group.name));
    found.extend(others.map(|group| stray(&group.name, "a security group", BY_HAND)));
    let build = observed.build.iter().filter(|build| now.duration_since(build.created) > BUILD_LIMIT);
    found.extend(build.map(|build| {
        let advice = "the next `kiln image build` deletes it, as does `kiln destroy`";
        Finding::new(Severity::Warning, &build.name, "an instance of an image build was left behind", advice)
    }));
    found
}
