//! Instances that were there, and that a list of the cloud lacks. A list may leave out what is there: Nova, for one, drops the
//! servers of a cell that does not answer. So each of them is asked for by its id, and is gone only if the cloud says so.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use kiln_cloud::Instance;

use super::is_ours;
use crate::error::chain;
use crate::fleet::Fleet;
use crate::store::{KnownInstance, Store};

/// In one look. The others count as missing without an answer, until one of the next looks has asked for them.
const MOST: usize = 64;
const AT_A_TIME: usize = 16;
/// For one answer.
const SOON: Duration = Duration::from_secs(20);

/// What the cloud says of an instance that is not in its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlisted {
    /// It shows the instance, asked for by its id.
    There,
    NoAnswer(String),
}

#[derive(Default)]
pub struct Missing {
    /// The cloud said of these ids that there is no such instance.
    pub gone: Vec<String>,
    /// Nodes of instances that may well be there, as far as the cloud has said.
    pub unlisted: BTreeMap<String, Unlisted>,
    /// Those that it showed.
    pub found: Vec<Instance>,
}

pub async fn ask_for(
    store: &Store,
    fleet: &Fleet,
    known: &BTreeMap<String, KnownInstance>,
    listed: &[Instance],
) -> Missing {
    let listed: HashSet<&str> = listed.iter().map(|i| i.id.as_str()).collect();
    let missing = known.iter().filter(|(id, _)| !listed.contains(id.as_str()));
    let missing = missing.map(|(id, known)| (id.clone(), known.node.clone())).collect();
    let (to_ask, not_asked) = store.asked_last(|last| {
        let (to_ask, not_asked) = turn(missing, last.as_deref());
        *last = to_ask.last().map(|(id, _)| id.clone());
        (to_ask, not_asked)
    });
    let ask = |(id, node): (String, String)| async move {
        let answer = tokio::time::timeout(SOON, fleet.cloud.instance(&id)).await;
        (id, node, answer)
    };
    let questions: Vec<_> = to_ask.into_iter().map(ask).collect();
    let answers = futures_util::stream::iter(questions).buffer_unordered(AT_A_TIME);
    let mut missing = Missing::default();
    for (id, node, answer) in answers.collect::<Vec<_>>().await {
        let unlisted = match answer {
            Ok(Ok(instance)) if is_ours(&instance, &fleet.file) => {
                let is_going = instance.status == kiln_cloud::InstanceStatus::Deleting;
                missing.found.push(instance);
                (!is_going).then_some(Unlisted::There)
            }
            // Every instance of Kiln has some: the cloud does not know all that it should.
            Ok(Ok(instance)) if instance.labels.is_empty() => {
                Some(Unlisted::NoAnswer("the cloud shows it without its labels".into()))
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

/// Ids with their nodes.
type Ids = Vec<(String, String)>;

/// Those that are asked for in this look, and the others. It begins behind the `last` that was asked for, so that every one has
/// its turn, whether or not the cloud answers for those before it.
fn turn(mut missing: Ids, last: Option<&str>) -> (Ids, Ids) {
    let behind = last.map_or(0, |last| missing.partition_point(|(id, _)| id.as_str() <= last));
    missing.rotate_left(behind);
    let not_asked = missing.split_off(missing.len().min(MOST));
    (missing, not_asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_instance_has_its_turn() {
        let all: Ids = (0..150).map(|n| (format!("{n:03}"), format!("n-{n}"))).collect();
        let mut asked = HashSet::new();
        let mut last: Option<String> = None;
        for _ in 0..3 {
            let (now, others) = turn(all.clone(), last.as_deref());
            assert_eq!((now.len(), others.len()), (MOST, 150 - MOST));
            last = now.last().map(|(id, _)| id.clone());
            asked.extend(now);
        }
        assert_eq!(asked.len(), 150);
        let few = all[..3].to_vec();
        assert_eq!(turn(few, last.as_deref()).0.len(), 3);
    }
}
