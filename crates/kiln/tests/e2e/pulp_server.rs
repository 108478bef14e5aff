//! The real Pulp server of `tests/pulp-server`, for as long as the value lives.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::lab::wait;

pub struct PulpServer {
    scripts: PathBuf,
}

/// `USER:PASSWORD`, as `up` says.
pub const LOGIN: &str = "admin:loopback";
const API: &str = "http://127.0.0.1:24817";
/// Where instances get content from.
pub const CONTENT: &str = "198.51.100.1:24816";

impl PulpServer {
    /// Empty.
    pub fn start() -> PulpServer {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pulp-server");
        // Made first, so that what a failed start leaves is stopped too.
        let server = PulpServer { scripts };
        let status = Command::new(server.scripts.join("up")).status().expect("up runs");
        assert!(status.success(), "the Pulp server did not start");
        server
    }

    /// The table `[pulp]`.
    pub fn table() -> String {
        format!(
            "[pulp]\naddress = \"{API}\"\ncontent = \"http://{CONTENT}/pulp/content/\"\n\
             credentials = \"env:KILN_E2E_PULP\"\n"
        )
    }

    /// What its API answers, asked without Kiln.
    pub fn ask(&self, path: &str) -> Value {
        self.curl(path, &[])
    }

    /// All that a sync could change. None of these lists is empty once there was one.
    pub fn content(&self) -> Vec<Value> {
        let lists = [
            "remotes/deb/apt/",
            "repositories/deb/apt/",
            "repository_versions/",
            "content/deb/packages/",
            "publications/deb/verbatim/",
            "distributions/deb/apt/",
        ];
        let all = |list: &str| {
            let answer = self.ask(&format!("{list}?limit=1000&ordering=pulp_created"));
            let results = answer["results"].as_array().unwrap_or_else(|| panic!("{list}: {answer}")).clone();
            assert!(!results.is_empty() && answer["next"].is_null(), "{list}: {answer}");
            Value::from(results)
        };
        lists.into_iter().map(all).collect()
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.curl(path, &["--header", "Content-Type: application/json", "--data", &body.to_string()])
    }

    /// Only a user has what it serves at this place from now on; `USER:PASSWORD`.
    pub fn guard(&self, distribution: &str) -> String {
        let user = format!("builder-of-{}", distribution.replace('/', "-"));
        let password = "kiln-e2e-Pa55word-of-the-builder";
        let made = self.post("users/", &json!({"username": user, "password": password}));
        assert_eq!(made["username"], json!(user), "{made}");
        let guard = self.post("contentguards/core/rbac/", &json!({"name": distribution}));
        let guard = guard["pulp_href"].as_str().expect("a guard").to_string();
        let role = json!({"role": "core.rbaccontentguard_downloader", "users": [user]});
        self.post(&format!("{guard}add_role/"), &role);
        let found = self.ask(&format!("distributions/deb/apt/?name={distribution}"));
        let place = found["results"][0]["pulp_href"].as_str().expect("a distribution").to_string();
        let change = json!({"content_guard": guard}).to_string();
        self.curl(
            &place,
            &["--request", "PATCH", "--header", "Content-Type: application/json", "--data", &change],
        );
        wait("it is guarded", || self.ask(&place)["content_guard"] == json!(guard));
        format!("{user}:{password}")
    }

    /// `path` is below the API's root, or a whole path of an answer.
    #[allow(clippy::unused_self, reason = "it must live")]
    fn curl(&self, path: &str, more: &[&str]) -> Value {
        let root = if path.starts_with('/') { "" } else { "/pulp/api/v3/" };
        let url = format!("{API}{root}{path}");
        let always = ["--silent", "--noproxy", "*", "--user", LOGIN, &url];
        let output = Command::new("curl").args(always).args(more).output().expect("curl runs");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{path}: {e}\n{}", String::from_utf8_lossy(&output.stdout)))
    }
}

impl Drop for PulpServer {
    fn drop(&mut self) {
        let _ = Command::new(self.scripts.join("down")).status();
    }
}
