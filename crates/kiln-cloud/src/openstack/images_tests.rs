//! With services that are made up: real ones cannot be told to send half of an image.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, http::StatusCode};

use super::super::Settings;
use super::super::login::Login;
use super::super::session::Caller;
use super::*;

const CONTENT: &[u8] = b"a disk";

/// One image, whose content comes whole when it is asked for a third time, and one without content.
async fn answer(State((downloads, url)): State<(Arc<AtomicUsize>, String)>, request: Request) -> Response {
    let image = |size: usize| json!({"id": "i1", "name": "x", "status": "active", "size": size, "created_at": "2026-11-15T06:00:00Z"});
    match format!("{} {}", request.method(), request.uri().path()).as_str() {
        "POST /v3/auth/tokens" => {
            let endpoint = json!({"interface": "public", "region": "r", "url": format!("{url}/image")});
            let token = json!({"token": {"expires_at": "2999-01-01T00:00:00.000000Z", "user": {"id": "u"},
                                         "catalog": [{"type": "image", "endpoints": [endpoint]}]}});
            (StatusCode::CREATED, [("x-subject-token", "t")], Json(token)).into_response()
        }
        "GET /image/v2/images/i1" => Json(image(CONTENT.len())).into_response(),
        "GET /image/v2/images/i2" => Json(image(0)).into_response(),
        "GET /image/v2/images/i1/file" => match downloads.fetch_add(1, Ordering::Relaxed) {
            0 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            1 => CONTENT[..3].into_response(),
            _ => CONTENT.into_response(),
        },
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_image_is_downloaded_whole() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let downloads = Arc::new(AtomicUsize::new(0));
    let router = Router::new().fallback(answer).with_state((downloads.clone(), url.clone()));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let login = Login::test(&format!("{url}/v3"));
    let driver = Driver::with_login(login, Settings::default(), Caller::Person).unwrap();
    let mut to = tempfile::tempfile().unwrap();
    to.write_all(b"what was there before").unwrap();
    driver.download_image("i1", &to).await.unwrap();
    let mut content = Vec::new();
    std::io::Seek::rewind(&mut to).unwrap();
    to.read_to_end(&mut content).unwrap();
    assert_eq!(content, CONTENT);
    assert_eq!(downloads.load(Ordering::Relaxed), 3);
    let none = driver.download_image("i2", &to).await.unwrap_err();
    assert_eq!(none.to_string(), "image x has no disk of its own");
    serving.abort();
}
