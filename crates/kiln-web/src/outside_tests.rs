//! The whole router for those who come from elsewhere, over TLS: names, cookies, limits by address, and logins of the site.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use kiln_wire::dashboard::Role;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::auth::KeyKind;
use crate::cluster::{Cluster as _, EventQuery};
use crate::door::{Door, Outside};
use crate::fake::Fake;
use crate::provider::FakeProvider;
use crate::routes::{App, router};

struct Lab {
    fake: Arc<Fake>,
    router: Router,
    provider: Arc<FakeProvider>,
    outside: Arc<Outside>,
}

const ANN: &str = "192.0.2.7";

impl Lab {
    async fn new() -> Lab {
        let provider = FakeProvider::start().await;
        let mut settings = crate::lab::settings(6831);
        settings.oidc = Some(crate::lab::oidc(&provider.issuer));
        let outside = Arc::new(Outside::new(&settings).unwrap());
        let fake = Arc::new(Fake::new(12));
        let router = router(Arc::new(App::new(fake.clone(), CancellationToken::new())));
        Lab { fake, router, provider, outside }
    }

    async fn send(&self, client: &str, request: Request<Body>) -> Response<Body> {
        let mut request = request;
        let client: IpAddr = client.parse().unwrap();
        request.extensions_mut().insert(Door { client, outside: Some(self.outside.clone()) });
        request.headers_mut().entry(header::HOST).or_insert("control:6831".parse().unwrap());
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn get(&self, path: &str, cookie: Option<&str>) -> Response<Body> {
        let mut request = Request::get(path);
        if let Some(cookie) = cookie {
            request = request.header(header::COOKIE, cookie);
        }
        self.send(ANN, request.body(Body::empty()).unwrap()).await
    }

    async fn log_in(&self, client: &str, word: &str) -> Response<Body> {
        let request = Request::post("/api/v1/login").header(header::CONTENT_TYPE, "application/json");
        self.send(client, request.body(json!({ "token": word }).to_string().into()).unwrap()).await
    }

    /// Goes to the provider and comes back: the answer to that.
    async fn at_the_provider(&self) -> Response<Body> {
        let begun = self.get("/login/oidc", None).await;
        assert_eq!(begun.status(), StatusCode::SEE_OTHER);
        let state = set_cookie(begun.headers(), "__Host-kiln-login");
        assert!(state.1.contains("HttpOnly; SameSite=Lax; Secure"), "{}", state.1);
        let asked = reqwest::Url::parse(location(&begun)).unwrap();
        let asked: HashMap<String, String> = asked.query_pairs().into_owned().collect();
        let back = self.provider.comes_back(&asked);
        let (_, path) = back.split_once("127.0.0.1:6831").unwrap();
        self.get(path, Some(&format!("__Host-kiln-login={}", state.0))).await
    }
}

fn location(response: &Response<Body>) -> &str {
    response.headers()[header::LOCATION].to_str().unwrap()
}

/// A cookie's value, and its line.
fn set_cookie(headers: &HeaderMap, name: &str) -> (String, String) {
    let lines = headers.get_all(header::SET_COOKIE).iter().map(|line| line.to_str().unwrap());
    let line = lines.filter(|line| line.starts_with(&format!("{name}="))).collect::<Vec<_>>().concat();
    let value = line.split(['=', ';']).nth(1).unwrap_or_else(|| panic!("no {name}: {headers:?}"));
    (value.into(), line.clone())
}

async fn content(response: Response<Body>) -> Value {
    serde_json::from_slice(&to_bytes(response.into_body(), 1_000_000).await.unwrap()).unwrap()
}

#[tokio::test]
async fn answers_over_tls_stay_there_and_are_for_names_of_the_dashboard() {
    let lab = Lab::new().await;
    let page = lab.get("/login", None).await;
    assert_eq!(page.status(), StatusCode::OK);
    assert_eq!(page.headers()[header::STRICT_TRANSPORT_SECURITY], "max-age=31536000");
    for host in ["localhost:6831", "127.0.0.2", "evil.example"] {
        let request = Request::get("/login").header(header::HOST, host).body(Body::empty()).unwrap();
        assert_eq!(lab.send(ANN, request).await.status(), StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    // On the loopback address there is neither, nor a login of the site: it would come back elsewhere.
    let inside =
        |path: &str| Request::get(path).header(header::HOST, "localhost").body(Body::empty()).unwrap();
    let page = lab.router.clone().oneshot(inside("/login")).await.unwrap();
    assert!(!page.headers().contains_key(header::STRICT_TRANSPORT_SECURITY));
    for path in ["/login/oidc", "/login/oidc/back"] {
        let answer = lab.router.clone().oneshot(inside(path)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(content(lab.get("/api/v1/logins", None).await).await, json!({"provider": "127.0.0.1"}));
    let logins = lab.router.clone().oneshot(inside("/api/v1/logins")).await.unwrap();
    assert_eq!(content(logins).await, json!({"provider": null}));
}

#[tokio::test]
async fn a_session_over_tls_is_none_without() {
    let lab = Lab::new().await;
    let word = lab.fake.admit(KeyKind::Login, "olga", Role::Operator, Duration::from_secs(60));
    let begun = lab.log_in(ANN, &word).await;
    assert_eq!(begun.status(), StatusCode::OK);
    let (secret, line) = set_cookie(begun.headers(), "__Host-kiln-demo");
    assert!(line.ends_with("SameSite=Strict; Secure"), "{line}");
    let session = |name: &str| format!("{name}={secret}");
    assert_eq!(lab.get("/api/v1/session", Some(&session("__Host-kiln-demo"))).await.status(), StatusCode::OK);
    let without = lab.get("/api/v1/session", Some(&session("kiln-demo"))).await;
    assert_eq!(without.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn failures_of_one_address_are_not_anothers() {
    let lab = Lab::new().await;
    let mut attempts = 1;
    // One comes back every six seconds.
    while lab.log_in(ANN, "wrong").await.status() == StatusCode::UNAUTHORIZED {
        attempts += 1;
        assert!(attempts < 100);
    }
    assert!(attempts > 10, "{attempts}");
    assert_eq!(location(&lab.get("/login/oidc", None).await), "/login?problem=busy");
    // What a client says of where it comes from counts for nothing.
    let mut request = Request::post("/api/v1/login")
        .header(header::CONTENT_TYPE, "application/json")
        .header("X-Forwarded-For", "192.0.2.99")
        .header(header::FORWARDED, "for=192.0.2.99");
    request = request.header("X-Real-IP", "192.0.2.99");
    let request = request.body(json!({"token": "wrong"}).to_string().into()).unwrap();
    assert_eq!(lab.send(ANN, request).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(lab.log_in("192.0.2.8", "wrong").await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_login_of_the_site_begins_a_session_with_the_persons_name() {
    let lab = Lab::new().await;
    let done = lab.at_the_provider().await;
    assert_eq!((done.status(), location(&done)), (StatusCode::SEE_OTHER, "/login"));
    let (secret, line) = set_cookie(done.headers(), "__Host-kiln-demo");
    assert!(line.contains("HttpOnly; SameSite=Strict; Secure"), "{line}");
    let cookie = format!("__Host-kiln-demo={secret}");
    let session = content(lab.get("/api/v1/session", Some(&cookie)).await).await;
    assert_eq!((&session["name"], &session["role"]), (&json!("ann"), &json!("operator")));
    let last = lab.fake.events(&EventQuery { most: 1, ..EventQuery::default() }).unwrap().remove(0);
    assert_eq!(last.outcome, "ann has logged in");
    assert_eq!(last.why, "as operator, known to 127.0.0.1");

    for (change, problem) in [(json!(["others"]), "role"), (json!(["admins"]), "unknown")] {
        lab.provider.conducts(|conduct| conduct.claims["groups"] = change);
        let path = "/login/oidc/back?code=x&state=y";
        let done = if problem == "role" { lab.at_the_provider().await } else { lab.get(path, None).await };
        assert_eq!(location(&done), format!("/login?problem={problem}"));
        let begun = done.headers().get_all(header::SET_COOKIE).iter().count();
        assert_eq!(begun, 0, "{problem}");
    }
    // While the provider is down, whoever is in stays in.
    lab.provider.conducts(|conduct| conduct.is_down = true);
    assert_eq!(lab.get("/api/v1/session", Some(&cookie)).await.status(), StatusCode::OK);
}

/// Every word that leads back to the login page has its sentence there.
#[test]
fn the_login_page_knows_every_problem() {
    use crate::auth::Fault;

    let script = include_str!("../assets/login.js");
    let said = String::new;
    let faults = [
        Fault::Unreachable(said()),
        Fault::Unknown,
        Fault::Refused(said()),
        Fault::Untrusted(said()),
        Fault::NoRole(said()),
        Fault::NoName(said()),
    ];
    for word in faults.iter().map(Fault::word).chain(["busy"]) {
        assert!(script.contains(&format!("  {word}: ")), "{word}");
    }
}
