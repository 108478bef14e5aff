//! The HTTP side: reads a request whole, verifies it, lets a fault happen, answers, and notes it all.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, Response, Uri};
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::answer::{Answer, Content};
use super::faults::Kind;
use super::route::{Request, route};
use super::world::World;
use super::{lock, metadata};

/// One request and its answer.
#[derive(Debug, Clone, Serialize)]
pub struct Exchange {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub request: Option<Value>,
    pub status: u16,
    pub reply: Option<Value>,
    pub retry_token: Option<String>,
    pub agent: String,
}

impl Exchange {
    /// `GET instances`, `POST instances/*`
    pub fn name(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default();
        let parts = path.split('/').filter(|part| !part.is_empty() && !part.starts_with("20"));
        let parts: Vec<&str> =
            parts.map(|part| if part.starts_with("ocid1.") { "*" } else { part }).collect();
        format!("{} {}", self.method, parts.join("/"))
    }
}

type Shared = Arc<Mutex<World>>;

/// What a listener is for. Whoever reaches the services must not reach an instance's secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    Everything,
    Services,
    Metadata,
}

pub fn serve(listener: TcpListener, world: &Shared, serves: Serves) -> JoinHandle<()> {
    // Parts of disks are large.
    let router = Router::new().fallback(answer).layer(DefaultBodyLimit::disable());
    let router = router.with_state((Arc::clone(world), serves));
    tokio::spawn(async move {
        // It ends with the test.
        let _ = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await;
    })
}

async fn answer(
    State((world, serves)): State<(Shared, Serves)>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let target = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let distance = lock(&world).distance;
    if !distance.is_zero() {
        tokio::time::sleep(distance).await;
    }
    let mut world = lock(&world);
    world.advance();
    let fault = world.fault(&method, &target);
    if let Some(Kind::Cut) = fault {
        return cut();
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(String::from);
    let is_metadata = match serves {
        Serves::Everything => target.starts_with("/opc/"),
        Serves::Services => false,
        Serves::Metadata => true,
    };
    if is_metadata {
        return respond(metadata::answer(&world, from.ip(), &target, text("authorization").as_deref()));
    }
    let outcome = match (&fault, world.keys.verify(&method, &target, &headers, &body)) {
        (_, Err(refusal)) => refusal,
        (Some(Kind::Answer(answer)), Ok(_)) => answer.clone(),
        (_, Ok(caller)) => {
            let request = Request::new(&method, &uri, &headers, &body, caller);
            match route(&mut world, &request) {
                Ok(answer) | Err(answer) => answer,
            }
        }
    };
    let (status, reply) = (outcome.status, outcome.body.clone());
    world.exchanges.push(Exchange {
        method: method.to_string(),
        target,
        request: serde_json::from_slice(&body).ok(),
        status,
        reply: match reply {
            Some(Content::Json(value)) => Some(value),
            _ => None,
        },
        retry_token: text("opc-retry-token"),
        agent: text("user-agent").unwrap_or_default(),
    });
    if let Some(Kind::LoseAnswer) = fault {
        return cut();
    }
    respond(outcome)
}

fn respond(answer: Answer) -> Response<Body> {
    let date = crate::oci::sign::http_date(jiff::Timestamp::now());
    let id = format!("{:032X}", rand::random::<u128>());
    let mut response =
        Response::builder().status(answer.status).header("date", date).header("opc-request-id", id);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    let (kind, body) = match answer.body {
        Some(Content::Json(value)) => ("application/json", value.to_string().into_bytes()),
        Some(Content::Bytes(bytes)) => ("application/octet-stream", bytes),
        None => ("application/json", Vec::new()),
    };
    response.header("content-type", kind).body(Body::from(body)).unwrap_or_default()
}

/// The body ends before it has begun: the connection breaks.
fn cut() -> Response<Body> {
    let broken = futures_util::stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
    Response::builder().header("content-length", "7").body(Body::from_stream(broken)).unwrap_or_default()
}
