//! Logging in and out, and who is in.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use axum::{Extension, Json};
use kiln_wire::SecretText;
use kiln_wire::dashboard::Role;

use crate::answers::Refusal;
use crate::auth::{self, Back, Caller, Fault, Key, KeyKind, Oidc, SESSION_LIFE};
use crate::cluster::{Cluster, Problem};
use crate::door::{Door, Outside};
use crate::parameters::{Body, Query};
use crate::routes::App;
use crate::view::{Login, Logins, Session};

pub async fn log_in<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    door: Door,
    Body(login): Body<Login>,
) -> Result<Response, Refusal> {
    app.attempts.begin(door.client).map_err(too_many)?;
    let cluster = app.cluster.as_ref();
    let hash = auth::hash(login.token.trim());
    let key = match cluster.take_key(KeyKind::Login, &hash)? {
        Some(key) => Some(key),
        None => cluster.key(KeyKind::Token, &hash)?,
    };
    let Some(key) = key else {
        let words = "this login is not known, was used already, or has expired: run `kiln dashboard` again";
        return Err(Refusal(StatusCode::UNAUTHORIZED, words.into(), None));
    };
    app.attempts.succeeded(door.client);
    let mut new = Key::new(KeyKind::Session, &key.name, key.role, SESSION_LIFE);
    if key.kind == KeyKind::Token {
        // It does not outlast what it was begun with.
        new.expires = new.expires.min(key.expires);
    }
    let secret = begin_session(cluster, &new, &format!("as {}", new.role))?;
    let secret = secret.expose_secret();
    let cookie = auth::session_cookie(&cluster.name(), &door, secret);
    let session = describe_session(&cluster.name(), &new, Some(auth::csrf(secret)));
    Ok((AppendHeaders([(header::SET_COOKIE, cookie)]), Json(session)).into_response())
}

fn too_many(wait: Duration) -> Refusal {
    Refusal(StatusCode::TOO_MANY_REQUESTS, "too many attempts: wait a little".into(), Some(wait))
}

fn begin_session(cluster: &impl Cluster, new: &Key, how: &str) -> Result<SecretText, Problem> {
    let secret = auth::mint();
    cluster.add_key(&auth::hash(secret.expose_secret()), new)?;
    cluster.log("dashboard", how, &format!("{} has logged in", new.name))?;
    Ok(secret)
}

pub async fn session<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    Extension(caller): Extension<Caller>,
) -> Json<Session> {
    Json(describe_session(&app.cluster.name(), &caller.key, caller.csrf))
}

fn describe_session(cluster: &str, key: &Key, csrf: Option<String>) -> Session {
    Session {
        cluster: cluster.into(),
        name: key.name.clone(),
        role: key.role.word().into(),
        expires: key.expires,
        csrf,
    }
}

pub async fn log_out<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    door: Door,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Refusal> {
    // A token is not somebody's to end by using it.
    app.cluster.take_key(KeyKind::Session, &caller.hash)?;
    let cookie = auth::end_cookie(&app.cluster.name(), &door);
    Ok((StatusCode::NO_CONTENT, AppendHeaders([(header::SET_COOKIE, cookie)])).into_response())
}

/// What the login page offers.
pub async fn logins(door: Door) -> Json<Logins> {
    Json(Logins { provider: oidc(door.outside.as_ref()).map(Oidc::host) })
}

/// The provider sends browsers back over TLS, so only there it is asked.
fn oidc(outside: Option<&Arc<Outside>>) -> Option<&Oidc> {
    outside.and_then(|outside| outside.oidc.as_ref())
}

/// Keeps a login with the browser that began it. Unlike the session's it is sent along when the provider leads back here.
const STATE_COOKIE: &str = "__Host-kiln-login";

/// Leads a browser to the site's provider.
pub async fn to_provider<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    door: Door,
) -> Result<Response, Refusal> {
    let Some(oidc) = oidc(door.outside.as_ref()) else { return Err(crate::answers::nothing().await) };
    if app.attempts.begin(door.client).is_err() {
        return Ok(back_to_login("busy"));
    }
    match oidc.begin().await {
        Ok((address, state)) => {
            let cookie = format!(
                "{STATE_COOKIE}={}; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure",
                state.expose_secret()
            );
            Ok((AppendHeaders([(header::SET_COOKIE, cookie)]), Redirect::to(&address)).into_response())
        }
        Err(fault) => Ok(refused(&door, &fault)),
    }
}

/// Whom the provider sends back.
pub async fn from_provider<C: Cluster>(
    State(app): State<Arc<App<C>>>,
    door: Door,
    headers: HeaderMap,
    Query(back): Query<Back>,
) -> Result<Response, Refusal> {
    let Some(oidc) = oidc(door.outside.as_ref()) else { return Err(crate::answers::nothing().await) };
    let person = match oidc.finish(&back, auth::cookie(STATE_COOKIE, &headers)).await {
        Ok(person) => person,
        Err(fault) => return Ok(refused(&door, &fault)),
    };
    app.attempts.succeeded(door.client);
    let cluster = app.cluster.as_ref();
    let new = Key::new(KeyKind::Session, &person.name, person.role, SESSION_LIFE);
    let secret = begin_session(cluster, &new, &by(person.role, oidc))?;
    let cookies = [
        (header::SET_COOKIE, auth::session_cookie(&cluster.name(), &door, secret.expose_secret())),
        (header::SET_COOKIE, format!("{STATE_COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure")),
    ];
    // The session's cookie is not sent along from the provider's page, so the way leads over ours.
    Ok((AppendHeaders(cookies), Redirect::to("/login")).into_response())
}

fn by(role: Role, oidc: &Oidc) -> String {
    format!("as {role}, known to {}", oidc.host())
}

/// The page has a sentence for each word; what is behind it is in the log.
fn refused(door: &Door, fault: &Fault) -> Response {
    tracing::warn!(client = %door.client, %fault, "nobody was let in through the site's provider");
    back_to_login(fault.word())
}

fn back_to_login(problem: &str) -> Response {
    Redirect::to(&format!("/login?problem={problem}")).into_response()
}
