//! A cloud in memory, with the local cloud's API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use kiln_cloud::{Instance, InstanceStatus, Rebuild, label};

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
}

impl PretendCloud {
    pub async fn start(nodes: &[&str], image: &str) -> PretendCloud {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let instances = nodes.iter().map(|name| ((*name).to_string(), instance(name, image))).collect();
        let inner =
            Inner { instances, calls: vec![], build_time: Duration::from_millis(300), refuses: false };
        let cloud = PretendCloud { inner: Arc::new(Mutex::new(inner)), url };
        let router = Router::new()
            .route("/v1/instances", get(list))
            .route("/v1/instances/{id}", get(show))
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

    pub fn refuse(&self) {
        self.lock().refuses = true;
    }

    pub fn build_slowly(&self, time: Duration) {
        self.lock().build_time = time;
    }
}

fn instance(name: &str, image: &str) -> Instance {
    let labels = [(label::CLUSTER, "c"), (label::NODE, name), ("mine", "kept")];
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

async fn list(State(cloud): State<PretendCloud>) -> Json<Vec<Instance>> {
    Json(cloud.lock().instances.values().cloned().collect())
}

async fn show(State(cloud): State<PretendCloud>, Path(id): Path<String>) -> Json<Instance> {
    Json(cloud.instance(&id))
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
