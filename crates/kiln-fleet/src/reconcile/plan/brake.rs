//! When nothing at all is done: a list of the cloud that lacks many instances is wrong in ways that nobody has thought of. Pure.

use kiln_spec::hostlist;

use super::super::observe::Observation;

/// A list may lack this many, or a tenth, and the other nodes are still looked after.
const FEW: usize = 3;

/// Why nothing is to be done, if so. An instance counts as missing until the cloud lists it again or says of its id that there is
/// none.
pub fn brake(observation: &Observation) -> Option<String> {
    let nodes = || observation.nodes.iter().filter(|o| o.request.is_none() && o.should_have_instance());
    let missing: Vec<&str> = nodes().filter(|o| o.unlisted.is_some()).map(|o| o.node.as_str()).collect();
    let all = nodes().filter(|o| o.unlisted.is_some() || !o.instances.is_empty()).count();
    (missing.len() > FEW.max(all / 10)).then(|| {
        format!(
            "its list lacks the instances of {} of {all} nodes ({}), and it does not say that they are gone: \
             nothing is done about any node until it does, or lists them again",
            missing.len(),
            hostlist::fold(&missing)
        )
    })
}
