//! The API's addresses. Each line of [`api`] is one operation; the work is elsewhere.

mod instances;
mod resources;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Request, State};
use axum::http::{Method, StatusCode, header, request::Parts};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json, Router};

use super::access::Caller;
use super::connections::Origin;
use super::faults::SLOW;
use super::records::GrantRecord;
use super::server::{Server, blocking};
use super::{Daemon, lock};
use crate::local::names;
use crate::local::wire::{Fault, GrantRequest, Pong, Retired};
use crate::{Error, Result};

type App = State<Arc<Server>>;
type Reply<T> = std::result::Result<Json<T>, Failure>;

/// What an instance may ask about itself. It is known by its address.
pub fn metadata(server: Arc<Server>) -> Router {
    Router::new().fallback(get(answer_metadata)).with_state(server)
}

pub fn api(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/ping", get(ping))
        .route("/v1/instances", get(instances::instances).post(instances::create))
        .route("/v1/instances/{id}", get(instances::instance).delete(instances::delete_instance))
        .route("/v1/instances/{id}/rebuild", post(instances::rebuild))
        .route("/v1/instances/{id}/reboot", post(instances::reboot))
        .route("/v1/instances/{id}/stop", post(instances::stop))
        .route("/v1/instances/{id}/start", post(instances::start))
        .route("/v1/instances/{id}/labels", put(instances::set_labels))
        .route("/v1/instances/{id}/console", get(instances::console))
        .route("/v1/instances/{id}/image", post(instances::create_image))
        .route("/v1/images", get(resources::images))
        .route("/v1/images/{id}/layers", get(resources::layers))
        .route("/v1/images/{id}", get(resources::image).delete(resources::delete_image))
        .route("/v1/used-images", get(resources::used_images))
        .route("/v1/source-image", post(resources::source_image))
        .route("/v1/volumes", get(resources::volumes).post(resources::create_volume))
        .route("/v1/volumes/{id}", delete(resources::delete_volume))
        .route("/v1/volumes/{id}/size", put(resources::grow_volume))
        .route("/v1/networks", get(resources::networks).post(resources::create_network))
        .route("/v1/networks/{id}", delete(resources::delete_network))
        .route("/v1/networks/{id}/automatic", put(resources::set_automatic))
        .route("/v1/security-groups", get(resources::groups).post(resources::create_group))
        .route("/v1/security-groups/{id}", delete(resources::delete_group))
        .route("/v1/labels/{id}", post(resources::label))
        .route("/v1/flavors", get(resources::flavors))
        .route("/v1/grants/{cluster}", put(grant).delete(revoke))
        .route("/v1/retire", post(retire))
        .route("/v1/hand-over", post(hand_over))
        .layer(DefaultBodyLimit::max(64 << 20))
        .layer(middleware::from_fn_with_state(Arc::clone(&server), to_the_end))
        .with_state(server)
}

/// What was begun is finished, even if the client is killed meanwhile: dropping the connection would otherwise drop
/// the work at its next pause, such as between accepting an instance and building it.
async fn to_the_end(State(server): App, request: Request, next: Next) -> Response {
    let work = tokio::spawn(async move {
        let is_change = request.method() != Method::GET;
        let name = format!("{} {}", request.method(), request.uri().path());
        let response = next.run(request).await;
        if is_change {
            // The cloud's own record of who was touched and when: with the name of an instance's id in the line about
            // its building, all that is needed to judge what a client did.
            tracing::info!(request = name, status = response.status().as_u16(), "changed");
        }
        let is_cut = move || {
            server.daemon.fault(&name)?;
            Ok(server.daemon.fault(&format!("cut {name}")).is_err())
        };
        match blocking(is_cut).await {
            Ok(false) => response,
            Ok(true) => cut_off(),
            Err(lost) => Failure(lost).into_response(),
        }
    });
    work.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// An answer in whose middle the connection ends.
fn cut_off() -> Response {
    let end = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let part = futures_util::stream::iter([Ok("{"), Err(end)]);
    axum::body::Body::from_stream(part).into_response()
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
        if parts.extensions.get() == Some(&Origin::Host) {
            return Ok(Caller::Root);
        }
        let token = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or_else(|| Failure(Error::no_rights("a token is needed")))?;
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
        let _at_work = self.work.read().await;
        let daemon = Arc::clone(&self.daemon);
        let result = blocking(move || {
            *lock(&daemon.last_request) = Instant::now();
            if daemon.fault(&format!("slow {operation}")).is_err() {
                std::thread::sleep(SLOW);
            }
            daemon.fault(operation)?;
            work(&daemon)
        });
        result.await.map(Json).map_err(Failure)
    }
}

async fn ping(State(server): App, _: Caller) -> Reply<Pong> {
    server.perform("ping", |d| Ok(Pong { outdated: d.is_outdated() })).await
}

/// Makes way for a newer daemon, unless something is under way.
async fn hand_over(State(server): App, caller: Caller) -> Reply<Retired> {
    caller.check_root().map_err(Failure)?;
    let retired = server.work.try_write().is_ok();
    if retired {
        server.end_soon();
    }
    Ok(Json(Retired { retired }))
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
        server.end_soon();
    }
    Ok(reply)
}

async fn answer_metadata(
    State(server): App,
    Extension(origin): Extension<Origin>,
    uri: axum::http::Uri,
) -> std::result::Result<String, Failure> {
    let from = match origin {
        Origin::Instance(peer) if let IpAddr::V4(from) = peer.ip() => from,
        _ => return Err(Failure(Error::not_found("metadata", uri.path()))),
    };
    let path = uri.path().to_string();
    server.perform("metadata", move |d| d.metadata(from, &path)).await.map(|Json(text)| text)
}
