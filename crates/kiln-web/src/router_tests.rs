//! The whole router with a cluster that is not there: who may ask what, and that answers are as they are described.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method as HttpMethod, Request, Response, StatusCode, header};
use kiln_wire::dashboard::Role;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::auth::KeyKind;
use crate::cluster::{Cluster as _, EventQuery};
use crate::fake::Fake;
use crate::openapi::openapi;
use crate::routes::{Access, App, Method, QUESTIONS, router};

const LIFE: Duration = Duration::from_secs(60);

struct Lab {
    fake: Arc<Fake>,
    router: Router,
    stop: CancellationToken,
}

/// How somebody asks.
#[derive(Clone, Default)]
struct Who {
    token: Option<String>,
    cookie: Option<String>,
    csrf: Option<String>,
}

impl Lab {
    fn new() -> Lab {
        let (fake, stop) = (Arc::new(Fake::new(12)), CancellationToken::new());
        let app = Arc::new(App::new(fake.clone(), stop.clone()));
        let router = router(app.clone());
        let watched = fake.clone();
        let ended = stop.clone();
        tokio::spawn(async move { app.hub.watch(watched, ended).await });
        Lab { fake, router, stop }
    }

    fn token(&self, role: Role) -> Who {
        let token = self.fake.admit(KeyKind::Token, "scraper", role, LIFE);
        Who { token: Some(token), ..Who::default() }
    }

    async fn ask(&self, who: &Who, method: HttpMethod, path: &str, body: Option<Value>) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:6830");
        if let Some(token) = &who.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(cookie) = &who.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        if let Some(csrf) = &who.csrf {
            request = request.header("X-Kiln-Csrf", csrf);
        }
        let body = match body {
            None => Body::empty(),
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
        };
        self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap()
    }

    async fn status(&self, who: &Who, method: HttpMethod, path: &str) -> StatusCode {
        self.ask(who, method, path, None).await.status()
    }

    async fn get(&self, who: &Who, path: &str) -> Value {
        let response = self.ask(who, HttpMethod::GET, path, None).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        content(response).await
    }

    async fn log_in(&self, word: &str) -> Response<Body> {
        let body = json!({ "token": word });
        self.ask(&Who::default(), HttpMethod::POST, "/api/v1/login", Some(body)).await
    }

    /// A browser that has logged in.
    async fn browser(&self, name: &str, role: Role) -> Who {
        let word = self.fake.admit(KeyKind::Login, name, role, LIFE);
        let response = self.log_in(&word).await;
        assert_eq!(response.status(), StatusCode::OK);
        let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap().to_string();
        let cookie = cookie.split(';').next().unwrap().to_string();
        let session = content(response).await;
        Who { cookie: Some(cookie), csrf: session["csrf"].as_str().map(String::from), token: None }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn content(response: Response<Body>) -> Value {
    serde_json::from_slice(&to_bytes(response.into_body(), 10_000_000).await.unwrap()).unwrap()
}

fn asked(path: &str) -> String {
    path.replace("images/{name}", "images/compute-2026-11-01")
        .replace("{name}", "node-0001")
        .replace("{id}", "7")
        .replace("{job}", "4998")
}

fn method(method: Method) -> HttpMethod {
    match method {
        Method::Get => HttpMethod::GET,
        Method::Post => HttpMethod::POST,
    }
}

#[tokio::test]
async fn without_a_token_nothing_but_the_login_answers() {
    let lab = Lab::new();
    let (nobody, wrong) = (Who::default(), Who { token: Some("0".repeat(64)), ..Who::default() });
    for question in QUESTIONS.iter().filter(|question| question.access != Access::Everybody) {
        for who in [&nobody, &wrong] {
            let status = lab.status(who, method(question.method), &asked(question.path)).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{}", question.path);
        }
    }
    for asset in crate::assets::ALL {
        let expected = match (asset.is_public, asset.path) {
            (true, _) => StatusCode::OK,
            (false, "/") => StatusCode::SEE_OTHER,
            (false, _) => StatusCode::UNAUTHORIZED,
        };
        assert_eq!(lab.status(&nobody, HttpMethod::GET, asset.path).await, expected, "{}", asset.path);
    }
    assert_eq!(lab.fake.looks(), 0);
}

#[tokio::test]
async fn a_viewer_sees_everything_and_changes_nothing() {
    let lab = Lab::new();
    for viewer in [lab.token(Role::Viewer), lab.browser("vera", Role::Viewer).await] {
        for question in QUESTIONS.iter().filter(|question| question.path != "/api/v1/logout") {
            let status = lab.status(&viewer, method(question.method), &asked(question.path)).await;
            match question.access {
                Access::Everybody if question.method == Method::Post => {
                    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
                }
                Access::Everybody | Access::Role(Role::Viewer) => {
                    assert_eq!(status, StatusCode::OK, "{}", question.path);
                }
                Access::Role(Role::Operator) => {
                    assert_eq!(status, StatusCode::FORBIDDEN, "{}", question.path);
                }
            }
        }
    }
    assert_eq!(lab.fake.rollout(7).unwrap().rollout.state, "running");
}

#[tokio::test]
async fn a_change_takes_an_operator_on_our_own_page_and_leaves_an_event() {
    let lab = Lab::new();
    let olga = lab.browser("olga", Role::Operator).await;
    let pause = "/api/v1/rollouts/7/pause";
    for csrf in [None, Some("0".repeat(64))] {
        let elsewhere = Who { csrf, ..olga.clone() };
        assert_eq!(lab.status(&elsewhere, HttpMethod::POST, pause).await, StatusCode::FORBIDDEN);
    }
    assert_eq!(lab.fake.rollout(7).unwrap().rollout.state, "running");
    assert_eq!(lab.status(&olga, HttpMethod::POST, pause).await, StatusCode::OK);
    assert_eq!(lab.fake.rollout(7).unwrap().rollout.state, "paused");
    let last = lab.fake.events(&EventQuery { most: 1, ..EventQuery::default() }).unwrap().remove(0);
    assert_eq!((last.why.as_str(), last.outcome.as_str()), ("asked by olga", "paused"));
    // What cannot be done is told, and nothing is done.
    assert_eq!(lab.status(&olga, HttpMethod::POST, pause).await, StatusCode::CONFLICT);
    assert_eq!(lab.status(&olga, HttpMethod::POST, "/api/v1/rollouts/8/pause").await, StatusCode::NOT_FOUND);
    // A program has nothing that another site's page could make use of.
    let program = lab.token(Role::Operator);
    assert_eq!(lab.status(&program, HttpMethod::POST, "/api/v1/rollouts/7/resume").await, StatusCode::OK);
    assert_eq!(lab.status(&program, HttpMethod::GET, pause).await, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_login_is_good_for_one_session_which_ends() {
    let lab = Lab::new();
    let word = lab.fake.admit(KeyKind::Login, "ann", Role::Viewer, LIFE);
    // It is no token.
    let as_token = Who { token: Some(word.clone()), ..Who::default() };
    assert_eq!(lab.status(&as_token, HttpMethod::GET, "/api/v1/overview").await, StatusCode::UNAUTHORIZED);
    let first = lab.log_in(&word).await;
    assert_eq!(first.status(), StatusCode::OK);
    let cookie = first.headers()[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert_eq!(lab.log_in(&word).await.status(), StatusCode::UNAUTHORIZED);
    let late = lab.fake.admit(KeyKind::Login, "ann", Role::Viewer, Duration::ZERO);
    assert_eq!(lab.log_in(&late).await.status(), StatusCode::UNAUTHORIZED);

    let ann = lab.browser("ann", Role::Viewer).await;
    assert_eq!(lab.get(&ann, "/api/v1/session").await["name"], "ann");
    assert_eq!(lab.status(&ann, HttpMethod::POST, "/api/v1/logout").await, StatusCode::NO_CONTENT);
    assert_eq!(lab.status(&ann, HttpMethod::GET, "/api/v1/session").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_session_does_not_outlast_the_token_that_began_it() {
    let lab = Lab::new();
    let token = lab.fake.admit(KeyKind::Token, "ann", Role::Viewer, LIFE);
    let session = content(lab.log_in(&token).await).await;
    let expires: jiff::Timestamp = session["expires"].as_str().unwrap().parse().unwrap();
    assert!(expires <= jiff::Timestamp::now() + LIFE, "{expires}");
}

#[tokio::test]
async fn attempts_to_log_in_are_limited() {
    let lab = Lab::new();
    let (mut attempts, mut refused) = (1, lab.log_in("wrong").await);
    // One comes back every six seconds.
    while refused.status() == StatusCode::UNAUTHORIZED && attempts < 100 {
        (attempts, refused) = (attempts + 1, lab.log_in("wrong").await);
    }
    assert!(attempts > 10, "{attempts}");
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
}

#[tokio::test]
async fn every_answer_is_guarded() {
    let lab = Lab::new();
    for path in ["/login", "/api/v1/overview", "/nowhere"] {
        let response = lab.ask(&Who::default(), HttpMethod::GET, path, None).await;
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    }
    let request =
        Request::builder().uri("/login").header(header::HOST, "evil.example").body(Body::empty()).unwrap();
    let response = lab.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn nodes_and_jobs_can_be_chosen() {
    let lab = Lab::new();
    let viewer = lab.token(Role::Viewer);
    let count = |value: &Value| value.as_array().unwrap().len();
    assert_eq!(count(&lab.get(&viewer, "/api/v1/nodes").await), 12);
    assert_eq!(count(&lab.get(&viewer, "/api/v1/nodes?group=burst").await), 2);
    assert_eq!(count(&lab.get(&viewer, "/api/v1/nodes?kind=nothing").await), 0);
    let waiting = lab.get(&viewer, "/api/v1/jobs?state=pending&user=ann").await;
    assert!(count(&waiting) > 0);
    for job in waiting.as_array().unwrap() {
        assert!(job["user"] == "ann" && job["waiting"]["text"].is_string(), "{job}");
    }
    assert_eq!(lab.status(&viewer, HttpMethod::GET, "/api/v1/nodes/nothing").await, StatusCode::NOT_FOUND);
    let events = lab.get(&viewer, "/api/v1/events?most=1&node=node-0000").await;
    assert_eq!((count(&events), &events[0]["what"]), (1, &json!("reboot")));
}

#[tokio::test]
async fn jobs_of_the_past_can_be_chosen() {
    let lab = Lab::new();
    let viewer = lab.token(Role::Viewer);
    let history = lab.get(&viewer, "/api/v1/history?user=eve&state=failed&since=31d&most=5").await;
    let jobs = history["jobs"].as_array().unwrap();
    assert_eq!((jobs.len(), &history["is_whole"]), (5, &json!(false)));
    for job in jobs {
        assert!(job["user"] == "eve" && job["exit"] == "127:0", "{job}");
        assert!(job["outcome"].as_str().unwrap().contains("was not found"), "{job}");
    }
    let job = lab.get(&viewer, "/api/v1/jobs/4998").await;
    assert_eq!(job["steps"].as_array().unwrap().len(), 2);
    assert!(job["efficiency"]["cpu_percent"].as_u64().is_some_and(|percent| percent <= 100), "{job}");
    let members = lab.get(&viewer, "/api/v1/jobs/4993").await;
    assert_eq!((&members["record"], &members["members"][0]["id"]), (&Value::Null, &json!("4993_1")));
}

#[tokio::test]
async fn without_accounting_there_is_the_queue() {
    let lab = Lab::new();
    let viewer = lab.token(Role::Viewer);
    lab.fake.lose_accounting();
    let history = lab.get(&viewer, "/api/v1/history?user=ann").await;
    assert!(history["problem"].as_str().unwrap().contains("Connection refused"), "{history}");
    let jobs = history["jobs"].as_array().unwrap();
    assert!(!jobs.is_empty() && jobs.iter().all(|job| job["user"] == "ann"), "{history}");
    let id = jobs[0]["id"].as_str().unwrap();
    let job = lab.get(&viewer, &format!("/api/v1/jobs/{id}")).await;
    assert_eq!((&job["record"], &job["queue"][0]["id"]), (&Value::Null, &json!(id)));
    assert!(job["problem"].is_string());
}

/// The description is made from the types, and the answers from the types; still, what is sent is compared with it.
#[tokio::test]
async fn answers_are_as_they_are_described() {
    let lab = Lab::new();
    let (viewer, description) = (lab.token(Role::Viewer), openapi());
    let schemas = &description["components"]["schemas"];
    let mut compared = 0;
    for (path, operations) in description["paths"].as_object().unwrap() {
        let Some(schema) = operations.pointer("/get/responses/200/content/application~1json/schema") else {
            continue;
        };
        let answer = lab.get(&viewer, &asked(path)).await;
        assert_eq!(differs(&answer, schema, schemas), None, "{path}");
        compared += 1;
    }
    assert!(compared >= 8, "{compared}");
    assert_eq!(description["paths"].as_object().unwrap().len(), QUESTIONS.len());
    // The comparison sees what is wrong.
    let overview = json!({"$ref": "#/components/schemas/Failure"});
    assert!(differs(&json!({"error": 1}), &overview, schemas).is_some());
    assert!(differs(&json!({}), &overview, schemas).is_some());
    assert!(differs(&json!({"error": "", "more": 1}), &overview, schemas).is_some());
}

/// Where a value is not what a schema says.
fn differs(value: &Value, schema: &Value, schemas: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return differs(value, &schemas[reference.rsplit('/').next().unwrap()], schemas);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices.iter().any(|choice| differs(value, choice, schemas).is_none());
        return (!fits).then(|| format!("{value} is none of {choices:?}"));
    }
    if let Some(words) = schema["enum"].as_array() {
        return (!words.contains(value)).then(|| format!("{value} is not one of {words:?}"));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !kinds.contains(&kind) {
        return Some(format!("{value} is not {kinds:?}"));
    }
    match value {
        Value::Array(items) => items.iter().find_map(|item| differs(item, &schema["items"], schemas)),
        Value::Object(fields) => {
            let missing = schema["required"].as_array().into_iter().flatten();
            if let Some(name) = missing.filter_map(Value::as_str).find(|name| !fields.contains_key(*name)) {
                return Some(format!("{name} is missing"));
            }
            fields.iter().find_map(|(name, value)| {
                match (&schema["properties"][name], &schema["additionalProperties"]) {
                    (Value::Null, Value::Bool(false)) => Some(format!("{name} is not described")),
                    (Value::Null, Value::Null) => None,
                    (Value::Null, other) => differs(value, other, schemas),
                    (property, _) => differs(value, property, schemas),
                }
            })
        }
        _ => None,
    }
}

#[tokio::test]
async fn a_stream_begins_with_everything_and_ends_with_its_session() {
    use futures_util::StreamExt as _;
    let lab = Lab::new();
    let olga = lab.browser("olga", Role::Operator).await;
    let response = lab.ask(&olga, HttpMethod::GET, "/api/v1/stream", None).await;
    let mut parts = response.into_body().into_data_stream();
    let first = String::from_utf8(parts.next().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(first.starts_with("event: picture\n"), "{first}");
    assert_eq!(lab.status(&olga, HttpMethod::POST, "/api/v1/rollouts/7/pause").await, StatusCode::OK);
    let second = String::from_utf8(parts.next().await.unwrap().unwrap().to_vec()).unwrap();
    let (_, data) = second.split_once("data: ").unwrap();
    let change: Value = serde_json::from_str(data.trim()).unwrap();
    assert!(second.starts_with("event: change\n"), "{second}");
    assert_eq!(change["rollouts"][0]["state"], "paused");
    assert_eq!((&change["nodes"], change["events"].as_array().unwrap().len()), (&json!([]), 1));
    assert_eq!(lab.status(&olga, HttpMethod::POST, "/api/v1/logout").await, StatusCode::NO_CONTENT);
    assert!(parts.next().await.is_none());
}

/// Hashes, words of logins and the access to the cloud are nowhere in what is sent.
#[tokio::test]
async fn no_answer_has_a_secret() {
    let lab = Lab::new();
    let viewer = lab.token(Role::Viewer);
    let token = viewer.token.clone().unwrap();
    for question in QUESTIONS.iter().filter(|q| q.method == Method::Get && q.path != "/api/v1/stream") {
        let response = lab.ask(&viewer, HttpMethod::GET, &asked(question.path), None).await;
        let text = to_bytes(response.into_body(), 10_000_000).await.unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains(&token) && !text.contains(&crate::auth::hash(&token)), "{}", question.path);
    }
}

#[tokio::test]
async fn what_cannot_be_understood_is_refused_in_the_same_form() {
    let lab = Lab::new();
    let operator = lab.token(Role::Operator);
    for (how, path, status) in [
        (HttpMethod::GET, "/api/v1/rollouts/seven", StatusCode::BAD_REQUEST),
        (HttpMethod::GET, "/api/v1/events?most=many", StatusCode::BAD_REQUEST),
        (HttpMethod::GET, "/api/v1/events?since=yesterday", StatusCode::BAD_REQUEST),
        (HttpMethod::POST, "/api/v1/login", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (HttpMethod::DELETE, "/api/v1/nodes", StatusCode::METHOD_NOT_ALLOWED),
        (HttpMethod::GET, "/api/v1/images/none", StatusCode::NOT_FOUND),
        (HttpMethod::GET, "/api/v1/history?since=yesterday", StatusCode::BAD_REQUEST),
        (HttpMethod::GET, "/api/v1/history?user=a,b", StatusCode::BAD_REQUEST),
        (HttpMethod::GET, "/api/v1/jobs/--all", StatusCode::BAD_REQUEST),
        (HttpMethod::GET, "/api/v1/jobs/1", StatusCode::NOT_FOUND),
        (HttpMethod::GET, "/api/v1/nodes/none/shares", StatusCode::NOT_FOUND),
        (HttpMethod::GET, "/api/v1/nothing", StatusCode::NOT_FOUND),
    ] {
        let response = lab.ask(&operator, how, path, None).await;
        assert_eq!(response.status(), status, "{path}");
        assert!(content(response).await["error"].as_str().is_some_and(|words| !words.is_empty()), "{path}");
    }
    let response = lab.ask(&operator, HttpMethod::POST, "/api/v1/login", Some(json!({ "word": 1 }))).await;
    assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(content(response).await["error"].is_string());
}
