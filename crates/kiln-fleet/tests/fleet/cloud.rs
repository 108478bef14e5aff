//! A cloud in memory, with the local cloud's API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use kiln_cloud::{Instance, InstanceStatus, NewInstance, Rebuild, label};
use serde_json::{Value, json};

#[derive(Clone)]
pub struct PretendCloud {
    inner: Arc<Mutex<Inner>>,
    pub url: String,
}

struct Inner {
    instances: BTreeMap<String, Instance>,
    /// What was asked for, in order: `rebuild n-0 new`.
    calls: Vec<String>,
    build_time: Duration,
    /// Every rebuild is refused.
    refuses: bool,
    /// Every listing fails.
    blind: bool,
    /// How often all instances were listed.
    listings: usize,
    /// Creations are refused with this answer.
    full: Option<&'static str>,
    /// Who asks for this has to wait.
    stuck: Option<&'static str>,
    /// What is created ends in its error state.
    breaks: bool,
}

impl PretendCloud {
    pub async fn start(nodes: &[&str], image: &str) -> PretendCloud {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut instances: BTreeMap<String, Instance> =
            nodes.iter().map(|name| ((*name).to_string(), instance(name, image))).collect();
        let mut control = instance("control", image);
        control.labels.insert(label::ROLE.into(), "control".into());
        instances.insert("control".into(), control);
        let inner = Inner {
            instances,
            calls: vec![],
            build_time: Duration::from_millis(300),
            refuses: false,
            blind: false,
            listings: 0,
            full: None,
            breaks: false,
            stuck: None,
        };
        let cloud = PretendCloud { inner: Arc::new(Mutex::new(inner)), url };
        let router = Router::new()
            .route("/v1/instances", get(list).post(create))
            .route("/v1/instances/{id}", get(show).delete(delete))
            .route("/v1/instances/{id}/start", post(start))
            .route("/v1/instances/{id}/rebuild", post(rebuild))
            .route("/v1/instances/{id}/reboot", post(reboot))
            .with_state(cloud.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        cloud
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    pub fn instance(&self, node: &str) -> Instance {
        self.lock().instances[node].clone()
    }

    /// Puts an instance there, or in another's place.
    pub fn put(&self, id: &str, change: impl FnOnce(&mut Instance)) {
        let mut inner = self.lock();
        let mut new = inner.instances.remove(id).unwrap_or_else(|| instance(id, "old"));
        change(&mut new);
        inner.instances.insert(id.into(), new);
    }

    pub fn lose(&self, id: &str) {
        self.lock().instances.remove(id);
    }

    pub fn has(&self, id: &str) -> bool {
        self.lock().instances.contains_key(id)
    }

    /// Whether listings fail.
    pub fn blind(&self, blind: bool) {
        self.lock().blind = blind;
    }

    pub fn listings(&self) -> usize {
        self.lock().listings
    }

    /// Refuses creations with this error of the API, or takes them again.
    pub fn fill(&self, answer: Option<&'static str>) {
        self.lock().full = answer;
    }

    /// Keeps those waiting who delete this one, or who create, for `create`.
    pub fn hold(&self, id: Option<&'static str>) {
        self.lock().stuck = id;
    }

    async fn stuck(&self, what: &str) {
        while self.lock().stuck == Some(what) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Takes orders, and fails to build.
    pub fn break_builds(&self) {
        self.lock().breaks = true;
    }

    pub fn refuse(&self) {
        self.lock().refuses = true;
    }

    pub fn build_slowly(&self, time: Duration) {
        self.lock().build_time = time;
    }
}

fn instance(name: &str, image: &str) -> Instance {
    let labels = [(label::CLUSTER, "c"), (label::ROLE, "compute"), (label::NODE, name), ("mine", "kept")];
    Instance {
        id: name.into(),
        name: name.into(),
        status: InstanceStatus::Active,
        image: Some(image.into()),
        flavor: "f".into(),
        address: None,
        public_address: None,
        labels: labels.map(|(k, v)| (k.to_string(), v.to_string())).into(),
        volumes: vec![],
        created: jiff::Timestamp::UNIX_EPOCH,
        built: Some(jiff::Timestamp::UNIX_EPOCH),
    }
}

async fn list(State(cloud): State<PretendCloud>) -> Response {
    let mut inner = cloud.lock();
    inner.listings += 1;
    if inner.blind {
        let fault = r#"{"code":"failed","message":"the database is away"}"#;
        return (StatusCode::INTERNAL_SERVER_ERROR, fault).into_response();
    }
    Json(inner.instances.values().cloned().collect::<Vec<_>>()).into_response()
}

/// All of one call; each is active a moment later.
async fn create(State(cloud): State<PretendCloud>, Json(new): Json<Vec<NewInstance>>) -> Json<Vec<Value>> {
    cloud.lock().calls.push(format!("create {}", new.len()));
    cloud.stuck("create").await;
    let mut inner = cloud.lock();
    if let Some(answer) = inner.full {
        let refused: Value = serde_json::from_str(answer).unwrap();
        return Json(new.iter().map(|_| json!({"error": refused})).collect());
    }
    let mut made = Vec::new();
    for new in new {
        let mut instance = instance(&new.name, &new.image);
        instance.labels = new.labels;
        instance.address = new.address;
        instance.flavor = new.flavor;
        instance.status = InstanceStatus::Building;
        instance.created = jiff::Timestamp::now();
        made.push(json!({"ok": instance}));
        inner.instances.insert(new.name.clone(), instance);
        let (later, time) = (cloud.clone(), inner.build_time);
        let broken = InstanceStatus::Error { reason: "no host".into() };
        let status = if inner.breaks { broken } else { InstanceStatus::Active };
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            // Unless it was deleted meanwhile.
            if let Some(instance) = later.lock().instances.get_mut(&new.name) {
                instance.status = status;
            }
        });
    }
    Json(made)
}

async fn show(State(cloud): State<PretendCloud>, Path(id): Path<String>) -> Response {
    match cloud.lock().instances.get(&id) {
        Some(instance) => Json(instance.clone()).into_response(),
        None => (StatusCode::NOT_FOUND, r#"{"code":"not_found","message":"instance"}"#).into_response(),
    }
}

async fn delete(State(cloud): State<PretendCloud>, Path(id): Path<String>) -> Json<()> {
    cloud.lock().calls.push(format!("delete {id}"));
    cloud.stuck(&id).await;
    let mut inner = cloud.lock();
    inner.instances.remove(&id);
    Json(())
}

async fn start(State(cloud): State<PretendCloud>, Path(id): Path<String>) -> Json<Instance> {
    let mut inner = cloud.lock();
    inner.calls.push(format!("start {id}"));
    let instance = inner.instances.get_mut(&id).unwrap();
    instance.status = InstanceStatus::Active;
    Json(instance.clone())
}

async fn rebuild(
    State(cloud): State<PretendCloud>,
    Path(id): Path<String>,
    Json(new): Json<Rebuild>,
) -> Response {
    let mut inner = cloud.lock();
    inner.calls.push(format!("rebuild {id} {}", new.image));
    if inner.refuses {
        let fault = r#"{"code":"invalid","message":"image new is gone"}"#;
        return (StatusCode::BAD_REQUEST, fault).into_response();
    }
    let build_time = inner.build_time;
    let instance = inner.instances.get_mut(&id).unwrap();
    instance.image = Some(new.image);
    instance.labels = new.labels;
    instance.status = InstanceStatus::Rebuilding;
    instance.built = None;
    let answer = Json(instance.clone());
    let later = cloud.clone();
    tokio::spawn(async move {
        tokio::time::sleep(build_time).await;
        let mut inner = later.lock();
        let instance = inner.instances.get_mut(&id).unwrap();
        instance.status = InstanceStatus::Active;
        instance.built = Some(jiff::Timestamp::now());
    });
    answer.into_response()
}

async fn reboot(State(cloud): State<PretendCloud>, Path(id): Path<String>) -> Json<Instance> {
    cloud.lock().calls.push(format!("reboot {id}"));
    Json(cloud.instance(&id))
}
