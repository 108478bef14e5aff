//! With services that are made up: real ones cannot be told to lose a cell.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, http::StatusCode};
use kiln_wire::labels;
use serde_json::{Value, json};

use super::super::Settings;
use super::super::login::Login;
use super::super::session::Caller;
use super::*;

/// What the services were asked, in order.
type Asked = Arc<Mutex<Vec<String>>>;

/// What becomes of the server when it is deleted.
#[derive(Clone, Copy)]
enum Fate {
    /// Its cell does not answer until somebody has asked for the server itself.
    OutOfReach,
    /// The cloud keeps it for a while.
    Kept,
}

async fn answer(State((asked, url, fate)): State<(Asked, String, Fate)>, request: Request) -> Response {
    let call = format!("{} {}", request.method(), request.uri().path());
    let before: Vec<String> = {
        let mut asked = asked.lock().unwrap();
        let before = asked.clone();
        asked.push(call.clone());
        before
    };
    let deleted_at = before.iter().position(|call| call == "DELETE /compute/servers/s1");
    let looks = before
        .iter()
        .skip(deleted_at.unwrap_or(before.len()))
        .filter(|call| *call == "GET /compute/servers/s1");
    let server = |status: &str, metadata: Value| {
        json!({"id": "s1", "name": "n-0", "status": status, "metadata": metadata, "created": "2026-11-15T06:00:00Z",
               "addresses": {"net": [{"addr": "10.0.0.7"}]}})
    };
    let whole = server("ACTIVE", json!({labels::CLUSTER: "c"}));
    let body = match call.as_str() {
        "POST /v3/auth/tokens" => {
            let service = |kind: &str, path: &str| json!({"type": kind, "endpoints": [{"interface": "public", "region": "r", "url": format!("{url}{path}")}]});
            let catalog = [service("compute", "/compute"), service("network", "/network")];
            let token = json!({"token": {"expires_at": "2999-01-01T00:00:00.000000Z", "user": {"id": "u"}, "project": {"id": "p", "name": "p"}, "catalog": catalog}});
            return (StatusCode::CREATED, [("x-subject-token", "t")], Json(token)).into_response();
        }
        "GET /compute/" => json!({"version": {"version": "2.90"}}),
        "GET /compute/servers/s1" => match (deleted_at, looks.count()) {
            (None, _) => json!({"server": whole}),
            (Some(_), _) if matches!(fate, Fate::Kept) => {
                if before.iter().any(|call| call == "POST /compute/servers/s1/action") {
                    return StatusCode::NOT_FOUND.into_response();
                }
                json!({"server": server("SOFT_DELETED", json!({labels::CLUSTER: "c"}))})
            }
            // All that Nova knows of it at the moment.
            (Some(_), 0) => json!({"server": server("UNKNOWN", json!({}))}),
            _ => return StatusCode::NOT_FOUND.into_response(),
        },
        "GET /compute/servers/detail" if deleted_at.is_none() => json!({"servers": [whole]}),
        "GET /compute/servers/detail" => json!({"servers": []}),
        "GET /network/v2.0/ports" => {
            json!({"ports": [{"id": "p1", "name": "n-0", "device_id": "s1", "description": "kiln_cluster=c"}]})
        }
        "GET /network/v2.0/floatingips" => json!({"floatingips": []}),
        _ => return StatusCode::NO_CONTENT.into_response(),
    };
    Json(body).into_response()
}

/// Deletes the server, and returns what the services were asked.
async fn deletion(fate: Fate) -> Vec<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let router = Router::new().fallback(answer).with_state((asked.clone(), url.clone(), fate));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let login = Login::test(&format!("{url}/v3"));
    let driver = Driver::with_login(login, Settings::default(), Caller::Person).unwrap();
    driver.delete("s1").await.unwrap();
    serving.abort();
    asked.lock().unwrap().clone()
}

fn last(asked: &[String], call: &str) -> usize {
    asked.iter().rposition(|other| other == call).unwrap_or_else(|| panic!("{call}: {asked:?}"))
}

/// It has its volumes and its port until then.
#[tokio::test]
async fn a_server_that_the_cloud_keeps_is_deleted_for_good() {
    let asked = deletion(Fate::Kept).await;
    let for_good = last(&asked, "POST /compute/servers/s1/action");
    assert!(last(&asked, "DELETE /compute/servers/s1") < for_good, "{asked:?}");
    assert!(for_good < last(&asked, "DELETE /network/v2.0/ports/p1"), "{asked:?}");
}

#[tokio::test]
async fn a_server_is_gone_when_the_cloud_says_so_of_it_and_not_before() {
    let asked = deletion(Fate::OutOfReach).await;
    let last = |call: &str| last(&asked, call);
    assert!(last("GET /compute/servers/s1") < last("DELETE /network/v2.0/ports/p1"), "{asked:?}");
    let looks =
        asked[last("DELETE /compute/servers/s1")..].iter().filter(|call| *call == "GET /compute/servers/s1");
    assert_eq!(looks.count(), 2, "an unreachable cell is no answer: {asked:?}");
}
