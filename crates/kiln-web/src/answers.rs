//! The answers to all questions but that for figures.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::{Extension, Json};
use kiln_wire::dashboard::Role;
use serde::Deserialize;
use serde_json::Value;

use crate::auth::Caller;
use crate::cluster::{Cluster, EventQuery, Order};
use crate::parameters::{Path, Query};
use crate::reading::node_detail;
use crate::routes::App;
use crate::view::{
    Elastic, Event, Failure, Health, Image, ImageDetail, Job, Node, NodeDetail, Overview, Rollout,
    RolloutDetail, UsageReport,
};

/// Why there is no answer: its status, in words, and when to try again.
#[derive(Debug)]
pub struct Refusal(pub StatusCode, pub String, pub Option<Duration>);

impl Refusal {
    pub fn nobody() -> Refusal {
        let words = "log in first: run `kiln dashboard` on the deploy host, or send a token";
        Refusal(StatusCode::UNAUTHORIZED, words.into(), None)
    }

    pub fn role(role: Role) -> Refusal {
        Refusal(StatusCode::FORBIDDEN, format!("this takes the role {role}"), None)
    }

    pub fn csrf() -> Refusal {
        let words = "a session has to send the header X-Kiln-Csrf with what /api/v1/session says";
        Refusal(StatusCode::FORBIDDEN, words.into(), None)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal(status, error, wait) = self;
        let seconds = wait.map(|wait| (header::RETRY_AFTER, (wait.as_secs() + 1).to_string()));
        (status, AppendHeaders(seconds), Json(Failure { error })).into_response()
    }
}

type Reply<T> = Result<Json<T>, Refusal>;

/// Questions that are on no list.
pub async fn nothing() -> Refusal {
    Refusal(
        StatusCode::NOT_FOUND,
        "there is nothing here; /api/v1/openapi.json says what there is".into(),
        None,
    )
}

/// A question that is asked otherwise.
pub async fn wrong_method() -> Refusal {
    let words = "this is not asked like that; /api/v1/openapi.json says how".into();
    Refusal(StatusCode::METHOD_NOT_ALLOWED, words, None)
}

pub async fn overview<C: Cluster>(State(app): State<Arc<App<C>>>) -> Reply<Overview> {
    Ok(Json(app.hub.picture().await?.overview.clone()))
}

#[derive(Deserialize)]
pub struct NodeFilter {
    group: Option<String>,
    partition: Option<String>,
    kind: Option<String>,
}

impl NodeFilter {
    fn takes(&self, node: &Node) -> bool {
        self.group.as_ref().is_none_or(|group| *group == node.group)
            && self.partition.as_ref().is_none_or(|partition| node.partitions.contains(partition))
            && self.kind.as_ref().is_none_or(|kind| kind == node.kind.word())
    }
}

pub async fn nodes<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Query(filter): Query<NodeFilter>,
) -> Reply<Vec<Node>> {
    let picture = app.hub.picture().await?;
    Ok(Json(picture.nodes.values().filter(|node| filter.takes(node)).cloned().collect()))
}

/// Events on one node's page.
const TIMELINE: u32 = 200;

pub async fn node<C: Cluster>(State(app): State<Arc<App<C>>>, Path(name): Path<String>) -> Reply<NodeDetail> {
    let picture = app.hub.picture().await?;
    let node = picture.nodes.get(&name).cloned();
    let node = node.ok_or_else(|| {
        Refusal(StatusCode::NOT_FOUND, format!("{name} is not a compute node of this cluster"), None)
    })?;
    let dossier = app.cluster.dossier(&name).await?;
    let query = EventQuery { node: Some(name), most: TIMELINE, ..EventQuery::default() };
    Ok(Json(node_detail(node, dossier, app.cluster.events(&query)?)))
}

#[derive(Deserialize)]
pub struct JobFilter {
    partition: Option<String>,
    user: Option<String>,
    state: Option<String>,
}

impl JobFilter {
    fn takes(&self, job: &Job) -> bool {
        // A job may wait for several partitions: `a,b`.
        self.partition.as_ref().is_none_or(|name| job.partition.split(',').any(|one| one == name))
            && self.user.as_ref().is_none_or(|user| *user == job.user)
            && self.state.as_ref().is_none_or(|state| state.eq_ignore_ascii_case(&job.state))
    }
}

pub async fn jobs<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Query(filter): Query<JobFilter>,
) -> Reply<Vec<Job>> {
    let picture = app.hub.picture().await?;
    Ok(Json(picture.jobs.values().filter(|job| filter.takes(job)).cloned().collect()))
}

pub async fn rollouts<C: Cluster>(State(app): State<Arc<App<C>>>) -> Reply<Vec<Rollout>> {
    let mut rollouts = app.cluster.records()?.rollouts;
    rollouts.sort_by_key(|rollout| std::cmp::Reverse(rollout.id));
    Ok(Json(rollouts))
}

pub async fn rollout<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Path(id): Path<i64>,
) -> Reply<RolloutDetail> {
    Ok(Json(app.cluster.rollout(id)?))
}

fn steer<C: Cluster>(app: &App<C>, caller: &Caller, id: i64, order: Order) -> Reply<RolloutDetail> {
    app.cluster.steer(id, order, &caller.key.name)?;
    Ok(Json(app.cluster.rollout(id)?))
}

pub async fn pause<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<i64>,
) -> Reply<RolloutDetail> {
    steer(&app, &caller, id, Order::Pause)
}

pub async fn resume<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<i64>,
) -> Reply<RolloutDetail> {
    steer(&app, &caller, id, Order::Resume)
}

pub async fn abort<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<i64>,
) -> Reply<RolloutDetail> {
    steer(&app, &caller, id, Order::Abort)
}

pub async fn images<C: Cluster>(State(app): State<Arc<App<C>>>) -> Reply<Vec<Image>> {
    let mut images: Vec<Image> = app.cluster.images().await?.into_iter().map(|detail| detail.image).collect();
    images.sort_by(|a, b| b.built.cmp(&a.built).then_with(|| a.name.cmp(&b.name)));
    Ok(Json(images))
}

pub async fn image<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Path(name): Path<String>,
) -> Reply<ImageDetail> {
    let mut images = app.cluster.images().await?.into_iter();
    let found = images.find(|detail| detail.image.name == name || detail.image.id == name);
    let none = || Refusal(StatusCode::NOT_FOUND, format!("there is no image {name}"), None);
    Ok(Json(found.ok_or_else(none)?))
}

pub async fn health<C: Cluster>(State(app): State<Arc<App<C>>>) -> Reply<Health> {
    Ok(Json(app.cluster.health()?))
}

pub async fn elastic<C: Cluster>(State(app): State<Arc<App<C>>>) -> Reply<Elastic> {
    Ok(Json(app.cluster.elastic()?))
}

pub async fn usage<C: Cluster>(State(app): State<Arc<App<C>>>) -> Reply<UsageReport> {
    Ok(Json(app.cluster.usage()?))
}

#[derive(Deserialize)]
pub struct EventFilter {
    node: Option<String>,
    since: Option<jiff::Timestamp>,
    before: Option<i64>,
    most: Option<u32>,
}

pub async fn events<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Query(filter): Query<EventFilter>,
) -> Reply<Vec<Event>> {
    let EventFilter { node, since, before, most } = filter;
    let query = EventQuery { node, since, before, most: most.unwrap_or(200).min(1000) };
    Ok(Json(app.cluster.events(&query)?))
}

pub async fn stream<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Extension(caller): Extension<Caller>,
) -> Response {
    crate::stream::stream(app, caller).into_response()
}

pub async fn openapi() -> Json<Value> {
    Json(crate::openapi::openapi())
}
