//! Nodes that come and go with the queue, as the store has it.

use std::time::Duration;

use kiln_web::view::{Elastic, ElasticGroup, PowerRequest};
use kiln_wire::FleetFile;

use super::usage_report;
use crate::error::Result;
use crate::store::{Request, Store, now};

const DAY: Duration = Duration::from_secs(86_400);
const MOST: usize = 2000;

pub fn seen(store: &Store, file: &FleetFile) -> Result<Elastic> {
    let records = store.failure_records()?;
    let groups = file.elastic.keys().map(|name| {
        let record = records.get(name);
        ElasticGroup {
            name: name.clone(),
            nodes: file.nodes.values().filter(|node| node.group == *name).count(),
            failures: record.map_or(0, |record| record.failures),
            paused_until: record.filter(|record| record.is_paused()).and_then(|record| record.paused_until),
            problem: record.map(|record| record.problem.clone()),
            last_failure: record.map(|record| record.last_failure),
        }
    });
    let group = |node: &str| file.nodes.get(node).map(|node| node.group.clone()).unwrap_or_default();
    let request = |request: Request| PowerRequest {
        group: group(&request.node),
        kind: request.kind.word().into(),
        state: request.state.word().into(),
        node: request.node,
        jobs: request.jobs,
        received: request.received,
        began: request.began,
        finished: request.finished,
        error: request.error,
    };
    let requests = store.power_requests_since(now() - DAY)?.into_iter().rev().take(MOST);
    let queue = usage_report::whole_queue(store)?;
    Ok(Elastic { groups: groups.collect(), requests: requests.map(request).collect(), queue })
}
