//! Instances that were there, and that a list of the cloud lacks. A list may leave out what is there: Nova, for one, drops the
//! servers of a cell that does not answer. So each of them is asked for by its id, and is gone only if the cloud says so.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use kiln_cloud::Instance;

use super::node::Unlisted;
use crate::cloud_view::is_ours;
use crate::error::chain;
use crate::fleet::Fleet;
use crate::store::KnownInstance;

/// In one look. The others count as missing without an answer, until the cloud has answered for those before them.
const MOST: usize = 64;
const AT_A_TIME: usize = 16;
/// For one answer.
const SOON: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Missing {
    /// The cloud said of these ids that there is no such instance.
    pub gone: Vec<String>,
    /// Nodes of instances that may well be there, as far as the cloud has said.
    pub unlisted: BTreeMap<String, Unlisted>,
    /// Those that it showed.
    pub found: Vec<Instance>,
}

/// `known`: from before the list was asked for, so that what was created meanwhile is not among the missing.
pub async fn ask_for(fleet: &Fleet, known: &BTreeMap<String, KnownInstance>, listed: &[Instance]) -> Missing {
    let listed: HashSet<&str> = listed.iter().map(|i| i.id.as_str()).collect();
    let mut to_ask: Vec<(String, String)> = (known.iter())
        .filter(|(id, _)| !listed.contains(id.as_str()))
        .map(|(id, known)| (id.clone(), known.node.clone()))
        .collect();
    let not_asked = to_ask.split_off(to_ask.len().min(MOST));
    let ask = |(id, node): (String, String)| async move {
        let answer = tokio::time::timeout(SOON, fleet.cloud.instance(&id)).await;
        (id, node, answer)
    };
    let questions: Vec<_> = to_ask.into_iter().map(ask).collect();
    let answers = futures_util::stream::iter(questions).buffer_unordered(AT_A_TIME);
    let mut missing = Missing::default();
    for (id, node, answer) in answers.collect::<Vec<_>>().await {
        let unlisted = match answer {
            Ok(Ok(instance)) if is_ours(&instance, &fleet.file.cluster) => {
                let is_going = instance.status == kiln_cloud::InstanceStatus::Deleting;
                missing.found.push(instance);
                (!is_going).then_some(Unlisted::There)
            }
            Ok(Err(error)) if !error.is_not_found() => Some(Unlisted::NoAnswer(chain(&error))),
            Err(_) => Some(Unlisted::NoAnswer(format!("no answer within {} s", SOON.as_secs()))),
            // No such instance, or no longer one of this cluster.
            Ok(_) => {
                missing.gone.push(id);
                None
            }
        };
        missing.unlisted.extend(unlisted.map(|unlisted| (node, unlisted)));
    }
    let later = || Unlisted::NoAnswer("not asked yet: too many are missing".into());
    missing.unlisted.extend(not_asked.into_iter().map(|(_, node)| (node, later())));
    missing
}
