//! Instances.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;

use super::super::access::Caller;
use super::{App, Reply};
use crate::local::wire::{Outcome, PowerRequest};
use crate::{Image, Instance, Labels, NewImage, NewInstance, Rebuild};

#[derive(Deserialize)]
pub struct Page {
    cluster: String,
    #[serde(default)]
    marker: String,
    limit: Option<usize>,
}

/// Of one page.
const MOST: usize = 1000;
/// Of the console, for who does not say.
const LINES: usize = 100;

pub async fn instances(State(server): App, caller: Caller, Query(page): Query<Page>) -> Reply<Vec<Instance>> {
    let limit = page.limit.unwrap_or(MOST).min(MOST);
    server.perform("list", move |d| Ok(d.instances(&caller, &page.cluster, &page.marker, limit))).await
}

pub async fn create(
    State(server): App,
    caller: Caller,
    Json(new): Json<Vec<NewInstance>>,
) -> Reply<Vec<Outcome<Instance>>> {
    let reply = server
        .perform("create", move |d| {
            let accept = |new: NewInstance| {
                // Zones have no other meaning here.
                new.zone.as_ref().map_or(Ok(()), |zone| d.fault(&format!("zone {zone}")))?;
                d.fault(&format!("create {}", new.name))?;
                d.accept(&caller, new).map(|record| d.show(&record))
            };
            Ok(new.into_iter().map(|n| Outcome::from(accept(n))).collect::<Vec<_>>())
        })
        .await?;
    for outcome in &reply.0 {
        if let Outcome::Ok(instance) = outcome {
            server.build(instance.id.clone());
        }
    }
    Ok(reply)
}

pub async fn instance(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<Instance> {
    server.perform("get", move |d| d.record(&caller, &id).map(|record| d.show(&record))).await
}

pub async fn delete_instance(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    server.perform("delete", move |d| d.delete(&caller, &id)).await
}

pub async fn rebuild(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(new): Json<Rebuild>,
) -> Reply<Instance> {
    let reply = server
        .perform("rebuild", move |d| d.accept_rebuild(&caller, &id, new).map(|record| d.show(&record)))
        .await?;
    server.build(reply.id.clone());
    Ok(reply)
}

pub async fn reboot(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(how): Json<PowerRequest>,
) -> Reply<Instance> {
    server.perform("reboot", move |d| d.reboot(&caller, &id, how.hard).map(|record| d.show(&record))).await
}

pub async fn stop(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(how): Json<PowerRequest>,
) -> Reply<Instance> {
    server.perform("stop", move |d| d.stop(&caller, &id, how.hard).map(|record| d.show(&record))).await
}

pub async fn start(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<Instance> {
    server.perform("start", move |d| d.start(&caller, &id).map(|record| d.show(&record))).await
}

pub async fn set_labels(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(labels): Json<Labels>,
) -> Reply<Instance> {
    server
        .perform("set_labels", move |d| d.set_labels(&caller, &id, labels).map(|record| d.show(&record)))
        .await
}

#[derive(Deserialize)]
pub struct Lines {
    lines: Option<usize>,
}

pub async fn console(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Query(how): Query<Lines>,
) -> Reply<String> {
    server.perform("console", move |d| d.console(&caller, &id, how.lines.unwrap_or(LINES))).await
}

pub async fn create_image(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(new): Json<NewImage>,
) -> Reply<Image> {
    server.perform("create_image", move |d| d.create_image(&caller, &id, new)).await
}
