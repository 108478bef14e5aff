//! The API's addresses. Each line of [`router`] is one operation; the work is elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequestParts, Path, Query, State};
use axum::http::{StatusCode, header, request::Parts};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use serde::Deserialize;

use super::access::Caller;
use super::records::GrantRecord;
use super::server::{Server, blocking};
use super::{Daemon, lock};
use crate::local::wire::{Fault, GrantRequest, Outcome, PowerRequest, Retired, SourceRequest, SourceStatus};
use crate::local::{flavor, names};
use crate::{
    Error, Flavor, Image, Instance, Labels, Network, NewImage, NewInstance, NewNetwork, NewSecurityGroup,
    NewVolume, Rebuild, Result, SecurityGroup, Volume,
};

type App = State<Arc<Server>>;
type Reply<T> = std::result::Result<Json<T>, Failure>;

pub fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/ping", get(ping))
        .route("/v1/instances", get(instances).post(create))
        .route("/v1/instances/{id}", get(instance).delete(delete_instance))
        .route("/v1/instances/{id}/rebuild", post(rebuild))
        .route("/v1/instances/{id}/reboot", post(reboot))
        .route("/v1/instances/{id}/stop", post(stop))
        .route("/v1/instances/{id}/start", post(start))
        .route("/v1/instances/{id}/labels", put(set_labels))
        .route("/v1/instances/{id}/console", get(console))
        .route("/v1/instances/{id}/image", post(create_image))
        .route("/v1/images", get(images))
        .route("/v1/images/{id}", get(image).delete(delete_image))
        .route("/v1/source-image", post(source_image))
        .route("/v1/volumes", get(volumes).post(create_volume))
        .route("/v1/volumes/{id}", delete(delete_volume))
        .route("/v1/networks", get(networks).post(create_network))
        .route("/v1/networks/{id}", delete(delete_network))
        .route("/v1/security-groups", get(groups).post(create_group))
        .route("/v1/security-groups/{id}", delete(delete_group))
        .route("/v1/flavors", get(flavors))
        .route("/v1/grants/{cluster}", put(grant).delete(revoke))
        .route("/v1/retire", post(retire))
        .fallback(get(metadata))
        .layer(DefaultBodyLimit::max(64 << 20))
        .with_state(server)
}

pub struct Failure(Error);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let fault = Fault::from(self.0);
        let status =
            StatusCode::from_u16(fault.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(fault)).into_response()
    }
}

impl FromRequestParts<Arc<Server>> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(
        parts: &mut Parts,
        server: &Arc<Server>,
    ) -> std::result::Result<Self, Failure> {
        let token = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or_else(|| Failure(Error::Unauthorized("a token is needed".into())))?;
        server.daemon.caller(token).map_err(Failure)
    }
}

impl Server {
    /// Does one operation off the runtime's threads; `operation` is its name for injected faults.
    async fn perform<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Daemon) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        let daemon = Arc::clone(&self.daemon);
        let result = blocking(move || {
            *lock(&daemon.last_request) = Instant::now();
            daemon.fault(operation)?;
            work(&daemon)
        });
        result.await.map(Json).map_err(Failure)
    }
}

#[derive(Deserialize)]
struct Of {
    cluster: String,
}

#[derive(Deserialize)]
struct Page {
    cluster: String,
    #[serde(default)]
    marker: String,
    limit: usize,
}

async fn ping(State(server): App, _: Caller) -> Reply<()> {
    server.perform("ping", |_| Ok(())).await
}

async fn instances(State(server): App, caller: Caller, Query(page): Query<Page>) -> Reply<Vec<Instance>> {
    server
        .perform("list", move |d| Ok(d.instances(&caller, &page.cluster, &page.marker, page.limit.min(1000))))
        .await
}

async fn create(
    State(server): App,
    caller: Caller,
    Json(new): Json<Vec<NewInstance>>,
) -> Reply<Vec<Outcome<Instance>>> {
    let reply = server
        .perform("create", move |d| {
            let accepted = new.into_iter().map(|n| d.accept(&caller, n).map(|record| d.show(&record)));
            Ok(accepted.map(Outcome::from).collect::<Vec<_>>())
        })
        .await?;
    for outcome in &reply.0 {
        if let Outcome::Ok(instance) = outcome {
            server.build(instance.id.clone());
        }
    }
    Ok(reply)
}

async fn instance(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<Instance> {
    server.perform("get", move |d| d.record(&caller, &id).map(|record| d.show(&record))).await
}

async fn delete_instance(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    server.perform("delete", move |d| d.delete(&caller, &id)).await
}

async fn rebuild(
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

async fn reboot(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(how): Json<PowerRequest>,
) -> Reply<Instance> {
    server.perform("reboot", move |d| d.reboot(&caller, &id, how.hard).map(|record| d.show(&record))).await
}

async fn stop(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(how): Json<PowerRequest>,
) -> Reply<Instance> {
    server.perform("stop", move |d| d.stop(&caller, &id, how.hard).map(|record| d.show(&record))).await
}

async fn start(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<Instance> {
    server.perform("start", move |d| d.start(&caller, &id).map(|record| d.show(&record))).await
}

async fn set_labels(
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
struct Lines {
    lines: usize,
}

async fn console(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Query(how): Query<Lines>,
) -> Reply<String> {
    server.perform("console", move |d| d.console(&caller, &id, how.lines)).await
}

async fn create_image(
    State(server): App,
    caller: Caller,
    Path(id): Path<String>,
    Json(new): Json<NewImage>,
) -> Reply<Image> {
    server.perform("create_image", move |d| d.create_image(&caller, &id, new)).await
}

async fn images(State(server): App, _: Caller) -> Reply<Vec<Image>> {
    server.perform("images", |d| Ok(d.images())).await
}

async fn image(State(server): App, _: Caller, Path(id): Path<String>) -> Reply<Image> {
    server.perform("image", move |d| d.image(&id)).await
}

async fn delete_image(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    server.perform("delete_image", move |d| d.delete_image(&caller, &id)).await
}

async fn source_image(
    State(server): App,
    caller: Caller,
    Json(request): Json<SourceRequest>,
) -> Reply<SourceStatus> {
    let again = request.clone();
    let Json((status, begin)) = server
        .perform("source_image", move |d| {
            caller.check_root()?;
            d.source_status(&request)
        })
        .await?;
    if begin {
        let daemon = Arc::clone(&server.daemon);
        tokio::task::spawn_blocking(move || daemon.make_source(&again));
    }
    Ok(Json(status))
}

#[derive(Deserialize)]
struct VolumeQuery {
    cluster: Option<String>,
    name: Option<String>,
}

async fn volumes(State(server): App, caller: Caller, Query(query): Query<VolumeQuery>) -> Reply<Vec<Volume>> {
    server
        .perform("volumes", move |d| match (query.cluster, query.name) {
            (_, Some(name)) => Ok(d.volume_by_name(&caller, &name).into_iter().collect()),
            (Some(cluster), None) => Ok(d.volumes(&caller, &cluster)),
            (None, None) => Err(Error::Invalid("a cluster or a name is needed".into())),
        })
        .await
}

async fn create_volume(State(server): App, caller: Caller, Json(new): Json<NewVolume>) -> Reply<Volume> {
    server.perform("create_volume", move |d| d.create_volume(&caller, new)).await
}

async fn delete_volume(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    server.perform("delete_volume", move |d| d.delete_volume(&caller, &id)).await
}

async fn networks(State(server): App, caller: Caller, Query(of): Query<Of>) -> Reply<Vec<Network>> {
    server.perform("networks", move |d| Ok(d.networks(&caller, &of.cluster))).await
}

async fn create_network(State(server): App, caller: Caller, Json(new): Json<NewNetwork>) -> Reply<Network> {
    let owner = caller.clone();
    let reply = server.perform("create_network", move |d| d.create_network(&caller, new)).await?;
    if let Err(error) = server.open_gateway(&reply).await {
        let id = reply.id.clone();
        let _ = blocking({
            let daemon = Arc::clone(&server.daemon);
            move || daemon.delete_network(&owner, &id)
        })
        .await;
        return Err(Failure(error));
    }
    Ok(reply)
}

async fn delete_network(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    let gateway = id.clone();
    let reply = server.perform("delete_network", move |d| d.delete_network(&caller, &id)).await?;
    server.close_gateway(&gateway);
    Ok(reply)
}

async fn groups(State(server): App, caller: Caller, Query(of): Query<Of>) -> Reply<Vec<SecurityGroup>> {
    server.perform("security_groups", move |d| Ok(d.security_groups(&caller, &of.cluster))).await
}

async fn create_group(
    State(server): App,
    caller: Caller,
    Json(new): Json<NewSecurityGroup>,
) -> Reply<SecurityGroup> {
    server.perform("create_security_group", move |d| d.create_security_group(&caller, new)).await
}

async fn delete_group(State(server): App, caller: Caller, Path(id): Path<String>) -> Reply<()> {
    server.perform("delete_security_group", move |d| d.delete_security_group(&caller, &id)).await
}

async fn flavors(State(server): App, _: Caller) -> Reply<Vec<Flavor>> {
    server.perform("flavors", |_| Ok(flavor::all())).await
}

async fn grant(
    State(server): App,
    caller: Caller,
    Path(cluster): Path<String>,
    Json(new): Json<GrantRequest>,
) -> Reply<()> {
    server
        .perform("grant", move |d| {
            caller.check_root()?;
            names::check_name(&cluster)?;
            d.world().grants.put(GrantRecord { cluster, token_sha256: new.token_sha256 })
        })
        .await
}

async fn revoke(State(server): App, caller: Caller, Path(cluster): Path<String>) -> Reply<()> {
    server
        .perform("revoke", move |d| {
            caller.check_root()?;
            names::check_name(&cluster)?;
            d.world().grants.remove(&cluster)
        })
        .await
}

async fn retire(State(server): App, caller: Caller) -> Reply<Retired> {
    let reply = server
        .perform("retire", move |d| {
            caller.check_root()?;
            Ok(Retired { retired: d.is_unused() })
        })
        .await?;
    if reply.retired {
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            // Long enough for the answer to leave.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            server.end.notify_one();
        });
    }
    Ok(reply)
}

/// Everything outside the API is a question of an instance about itself, known by its address.
async fn metadata(
    State(server): App,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: axum::http::Uri,
) -> std::result::Result<String, Failure> {
    let IpAddr::V4(from) = peer.ip() else {
        return Err(Failure(Error::NotFound { kind: "metadata", name: uri.path().into() }));
    };
    let path = uri.path().to_string();
    server.perform("metadata", move |d| d.metadata(from, &path)).await.map(|Json(text)| text)
}
