//! The one list of all that can be asked. The router, who may ask what, and the description of the API are made from it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use kiln_wire::dashboard::Role;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::answers::{self, Refusal};
use crate::assets;
use crate::auth::{self, Attempts, Caller};
use crate::cluster::{Cluster, Problem};
use crate::describe::{Described, Schemas};
use crate::door::Door;
use crate::hub::Hub;
use crate::limits::Allowances;
use crate::login;
use crate::past::{History, JobDetail};
use crate::scheduler::Scheduler;
use crate::shares::NodeShares;
use crate::view::{
    Change, Elastic, Event, Failure, Health, Image, ImageDetail, Job, Login, Logins, Node, NodeDetail,
    Overview, Rollout, RolloutDetail, Session, Target, UsageReport,
};
use crate::{job_answers, metrics};

/// What every answer is made from.
pub struct App<C> {
    pub cluster: Arc<C>,
    pub hub: Hub,
    pub attempts: Attempts,
    /// Ends streams.
    pub stop: CancellationToken,
}

impl<C> App<C> {
    pub fn new(cluster: Arc<C>, stop: CancellationToken) -> Self {
        App { cluster, hub: Hub::default(), attempts: Attempts::default(), stop }
    }
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Everybody,
    Role(Role),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

/// What is sent back.
#[derive(Clone, Copy)]
pub enum Answer {
    Json(fn(&mut Schemas) -> Value),
    /// Server-sent events with this in each.
    Events(fn(&mut Schemas) -> Value),
    Text,
    Nothing,
}

/// One question, as it is described.
pub struct Question {
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub summary: &'static str,
    /// Parameters behind the question mark.
    pub query: &'static [(&'static str, &'static str)],
    pub body: Option<fn(&mut Schemas) -> Value>,
    pub answer: Answer,
}

const VIEWER: Access = Access::Role(Role::Viewer);
const OPERATOR: Access = Access::Role(Role::Operator);

/// Everything below `/api`, and the figures for Prometheus.
pub const QUESTIONS: &[Question] = &[
    Question {
        body: Some(Login::schema),
        ..ask(
            Method::Post,
            "/api/v1/login",
            Access::Everybody,
            "Begin a session, with a token or a one-time login",
        )
        .json(Session::schema)
    },
    ask(Method::Get, "/api/v1/logins", Access::Everybody, "Which other logins there are")
        .json(Logins::schema),
    ask(Method::Get, "/api/v1/session", VIEWER, "Who is logged in").json(Session::schema),
    ask(Method::Post, "/api/v1/logout", VIEWER, "End the session"),
    ask(Method::Get, "/api/v1/overview", VIEWER, "The cluster at a glance").json(Overview::schema),
    Question {
        query: &[
            ("group", "Only nodes of this group"),
            ("partition", "Only nodes of this partition"),
            ("kind", "Only nodes that do this"),
        ],
        ..ask(Method::Get, "/api/v1/nodes", VIEWER, "All compute nodes").json(Vec::<Node>::schema)
    },
    ask(Method::Get, "/api/v1/nodes/{name}", VIEWER, "One node, with its life and what Kiln does about it")
        .json(NodeDetail::schema),
    ask(
        Method::Get,
        "/api/v1/nodes/{name}/shares",
        VIEWER,
        "Which cores, memory and devices of a node are which job's",
    )
    .json(NodeShares::schema),
    Question {
        query: &[
            ("partition", "Only jobs of this partition"),
            ("user", "Only jobs of this user"),
            ("state", "Only jobs in this state, in Slurm's words"),
        ],
        ..ask(Method::Get, "/api/v1/jobs", VIEWER, "The queue, with why each job waits")
            .json(Vec::<Job>::schema)
    },
    ask(
        Method::Get,
        "/api/v1/jobs/{job}",
        VIEWER,
        "One job, such as `17` or `17_3`: what the queue and the accounting have of it, and what it used",
    )
    .json(JobDetail::schema),
    Question {
        query: &[
            ("user", "Only jobs of this user"),
            ("account", "Only jobs of this account"),
            ("partition", "Only jobs of this partition"),
            ("state", "Only jobs in this state, in Slurm's words"),
            (
                "since",
                "Only jobs that ended since then or are not over: a time, or a span such as `6h` or `7d`; a day if not given, a month at most",
            ),
            ("most", "At most so many; 200 if not given, 1000 at most"),
        ],
        ..ask(Method::Get, "/api/v1/history", VIEWER, "Jobs that the accounting has, newest first")
            .json(History::schema)
    },
    ask(
        Method::Get,
        "/api/v1/limits",
        VIEWER,
        "QOS, reservations and licences, and how much of them is in use",
    )
    .json(Allowances::schema),
    ask(
        Method::Get,
        "/api/v1/scheduler",
        VIEWER,
        "Slurm's figures about itself, with what they mean and whether they are fine",
    )
    .json(Scheduler::schema),
    ask(Method::Get, "/api/v1/rollouts", VIEWER, "Rollouts, newest first").json(Vec::<Rollout>::schema),
    ask(Method::Get, "/api/v1/rollouts/{id}", VIEWER, "One rollout, with its nodes")
        .json(RolloutDetail::schema),
    ask(Method::Post, "/api/v1/rollouts/{id}/pause", OPERATOR, "Start no further nodes")
        .json(RolloutDetail::schema),
    ask(Method::Post, "/api/v1/rollouts/{id}/resume", OPERATOR, "Continue after a pause")
        .json(RolloutDetail::schema),
    ask(
        Method::Post,
        "/api/v1/rollouts/{id}/abort",
        OPERATOR,
        "End a rollout; nodes that are being rebuilt are followed to their end",
    )
    .json(RolloutDetail::schema),
    ask(Method::Get, "/api/v1/images", VIEWER, "Images that nodes can have, newest first")
        .json(Vec::<Image>::schema),
    ask(Method::Get, "/api/v1/images/{name}", VIEWER, "One image, by its name or id, with its packages")
        .json(ImageDetail::schema),
    ask(Method::Get, "/api/v1/health", VIEWER, "Services, disks and certificates of control and login nodes")
        .json(Health::schema),
    ask(Method::Get, "/api/v1/elastic", VIEWER, "Nodes that come and go with the queue")
        .json(Elastic::schema),
    ask(
        Method::Get,
        "/api/v1/usage",
        VIEWER,
        "The queue of the last day, and the hours of instances by group",
    )
    .json(UsageReport::schema),
    Question {
        query: &[
            ("node", "Only events of this node"),
            ("since", "Only events since this time, such as 2026-01-31T09:00:00Z"),
            ("before", "Only events with a smaller id, for the next page"),
            ("most", "At most so many; 200 if not given, 1000 at most"),
        ],
        ..ask(Method::Get, "/api/v1/events", VIEWER, "What Kiln did, newest first").json(Vec::<Event>::schema)
    },
    Question {
        answer: Answer::Events(Change::schema),
        ..ask(
            Method::Get,
            "/api/v1/stream",
            VIEWER,
            "Server-sent events: `picture` with everything, then `change` with what differs, `problem` while nothing can be seen",
        )
    },
    ask(
        Method::Get,
        "/api/v1/targets",
        VIEWER,
        "Nodes of elastic groups that are there now, as Prometheus discovers them (`http_sd_configs`)",
    )
    .json(Vec::<Target>::schema),
    ask(Method::Get, "/api/v1/openapi.json", VIEWER, "This description, for programs").json(any),
    Question {
        answer: Answer::Text,
        ..ask(Method::Get, "/metrics", VIEWER, "Figures in Prometheus' text format")
    },
];

/// A question without parameters whose answer is empty.
const fn ask(method: Method, path: &'static str, access: Access, summary: &'static str) -> Question {
    Question { method, path, access, summary, query: &[], body: None, answer: Answer::Nothing }
}

impl Question {
    const fn json(mut self, schema: fn(&mut Schemas) -> Value) -> Question {
        self.answer = Answer::Json(schema);
        self
    }
}

fn any(_: &mut Schemas) -> Value {
    serde_json::json!({"type": "object"})
}

/// Of the errors that every question may be answered with.
pub fn failure(schemas: &mut Schemas) -> Value {
    Failure::schema(schemas)
}

type Handler<C> = MethodRouter<Arc<App<C>>>;

/// `None`: the list has a question that nobody answers. The tests ask them all.
fn handler<C: Cluster>(question: &Question) -> Option<Handler<C>> {
    Some(match question.path {
        "/api/v1/login" => post(login::log_in::<C>),
        "/api/v1/logins" => get(login::logins),
        "/api/v1/session" => get(login::session::<C>),
        "/api/v1/logout" => post(login::log_out::<C>),
        "/api/v1/overview" => get(answers::overview::<C>),
        "/api/v1/nodes" => get(answers::nodes::<C>),
        "/api/v1/nodes/{name}" => get(answers::node::<C>),
        "/api/v1/nodes/{name}/shares" => get(job_answers::shares::<C>),
        "/api/v1/jobs" => get(answers::jobs::<C>),
        "/api/v1/jobs/{job}" => get(job_answers::job::<C>),
        "/api/v1/history" => get(job_answers::history::<C>),
        "/api/v1/limits" => get(job_answers::limits::<C>),
        "/api/v1/scheduler" => get(job_answers::statistics::<C>),
        "/api/v1/rollouts" => get(answers::rollouts::<C>),
        "/api/v1/rollouts/{id}" => get(answers::rollout::<C>),
        "/api/v1/rollouts/{id}/pause" => post(answers::pause::<C>),
        "/api/v1/rollouts/{id}/resume" => post(answers::resume::<C>),
        "/api/v1/rollouts/{id}/abort" => post(answers::abort::<C>),
        "/api/v1/images" => get(answers::images::<C>),
        "/api/v1/images/{name}" => get(answers::image::<C>),
        "/api/v1/health" => get(answers::health::<C>),
        "/api/v1/elastic" => get(answers::elastic::<C>),
        "/api/v1/usage" => get(answers::usage::<C>),
        "/api/v1/events" => get(answers::events::<C>),
        "/api/v1/stream" => get(answers::stream::<C>),
        "/api/v1/openapi.json" => get(answers::openapi),
        "/api/v1/targets" => get(metrics::targets::<C>),
        "/metrics" => get(metrics::answer::<C>),
        _ => return None,
    })
}

/// Everything that kilnd answers.
pub fn router<C: Cluster>(app: Arc<App<C>>) -> Router {
    let mut router = Router::new();
    for question in QUESTIONS {
        let Some(handler) = handler::<C>(question) else { continue };
        let handler = match question.access {
            Access::Everybody => handler,
            Access::Role(role) => handler.route_layer(from_fn_with_state((app.clone(), role), gate::<C>)),
        };
        router = router.route(question.path, handler);
    }
    for asset in assets::ALL {
        let answer = get(move || async move { asset.answer() });
        let answer = if asset.is_public {
            answer
        } else {
            answer.route_layer(from_fn_with_state(app.clone(), page_gate::<C>))
        };
        router = router.route(asset.path, answer);
    }
    router
        .route(auth::OIDC_BEGIN, get(login::to_provider::<C>))
        .route(auth::OIDC_BACK, get(login::from_provider::<C>))
        .fallback(answers::nothing)
        .method_not_allowed_fallback(answers::wrong_method)
        .layer(from_fn(guard))
        .with_state(app)
}

/// Lets through who may ask. A change by a browser's session has to come from our own page.
async fn gate<C: Cluster>(
    State((app, role)): State<(Arc<App<C>>, Role)>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let caller = Caller::of(app.cluster.as_ref(), &Door::of(request.extensions()), request.headers())?
        .ok_or_else(Refusal::nobody)?;
    if caller.key.role < role {
        return Err(Refusal::role(role));
    }
    let is_change = !request.method().is_safe();
    if let Some(csrf) = caller.csrf.as_ref().filter(|_| is_change) {
        let sent = request.headers().get(&CSRF).and_then(|value| value.to_str().ok());
        if sent != Some(csrf) {
            return Err(Refusal::csrf());
        }
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// As [`gate`], for pages: whoever is not logged in is led to where that can be done.
async fn page_gate<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    match Caller::of(app.cluster.as_ref(), &Door::of(request.extensions()), request.headers())? {
        Some(_) => Ok(next.run(request).await),
        None if request.uri().path() == "/" => Ok(Redirect::to("/login").into_response()),
        None => Err(Refusal::nobody()),
    }
}

pub static CSRF: HeaderName = HeaderName::from_static("x-kiln-csrf");

/// What every answer has, and no request may lack.
async fn guard(door: Door, request: Request, next: Next) -> Response {
    let is_ours = host(&request).is_some_and(|host| door.is_own(host));
    let mut response = if is_ours {
        next.run(request).await
    } else {
        let words = "this address is not one of this host's own".to_string();
        Refusal(StatusCode::MISDIRECTED_REQUEST, words, None).into_response()
    };
    let secure = door.is_secure().then_some((header::STRICT_TRANSPORT_SECURITY, "max-age=31536000"));
    for (name, value) in HEADERS.into_iter().chain(secure) {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn host(request: &Request) -> Option<&str> {
    let header = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| request.uri().authority().map(axum::http::uri::Authority::as_str))
}

const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        let status = match &problem {
            Problem::Unknown(_) => StatusCode::NOT_FOUND,
            Problem::Refused(_) => StatusCode::CONFLICT,
            Problem::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refusal(status, problem.words().into(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_an_answer_and_every_change_an_operator() {
        for question in QUESTIONS {
            assert!(handler::<crate::fake::Fake>(question).is_some(), "{}", question.path);
            let own = ["/api/v1/login", "/api/v1/logout"].contains(&question.path);
            let changes = question.method == Method::Post && !own;
            assert_eq!(question.access == OPERATOR, changes, "{}", question.path);
        }
    }
}
