//! Slurm's REST API, by curl and by a generated client.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cluster_dir::printed;
use crate::lab::{Lab, USER, wait};
use crate::monitoring::value;

fn token(lab: &Lab) -> String {
    let said = lab.as_user("login-0", "scontrol token lifespan=600");
    said.strip_prefix("SLURM_JWT=").expect("a token").to_string()
}

/// Whether Slurm's REST API answers a user with a token.
pub fn answers(lab: &Lab) -> bool {
    let token = token(lab);
    rest(lab, &token, &[], "/slurm/v0.0.38/ping").0 == 200
}

fn certificate(lab: &Lab) -> String {
    let path = lab.path("slurm-rest.crt");
    std::fs::write(&path, lab.on("login-0", &["cat", "/etc/kiln/slurm-rest.crt"])).expect("a file");
    path.display().to_string()
}

fn address(lab: &Lab) -> String {
    lab.host("control")["address"].as_str().expect("an address").to_string()
}

/// Asks Slurm's REST API as the user does; the answer and its status.
fn rest(lab: &Lab, token: &str, arguments: &[&str], path: &str) -> (u16, Value) {
    let certificate = certificate(lab);
    let address = address(lab);
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--write-out", "\n%{http_code}", "--cacert", &certificate])
        .args(["--resolve", &format!("control:6843:{address}")])
        .args(["--header", &format!("X-SLURM-USER-NAME: {USER}")])
        .args(["--header", &format!("X-SLURM-USER-TOKEN: {token}")])
        .args(arguments)
        .arg(format!("https://control:6843{path}"))
        .output()
        .expect("curl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let (body, status) = text.rsplit_once('\n').expect("a status");
    (status.parse().expect("a status"), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// A user's token is good for what the user may do, over TLS alone.
pub fn over_tls(lab: &mut Lab) {
    let token = token(lab);
    let (status, ping) = rest(lab, &token, &[], "/slurm/v0.0.38/ping");
    assert_eq!((status, &ping["pings"][0]["ping"]), (200, &Value::from("UP")), "{ping}");
    let job = r##"{"script": "#!/bin/sh\nid -un\n", "job": {"name": "by-rest", "tasks": 1, "memory_per_node": 10,
        "partition": "standard", "standard_output": "/home/demo/by-rest", "current_working_directory": "/home/demo",
        "environment": {"PATH": "/usr/bin:/bin"}}}"##;
    let post = ["--header", "Content-Type: application/json", "--data", job];
    let (status, answer) = rest(lab, &token, &post, "/slurm/v0.0.38/job/submit");
    assert_eq!(status, 200, "{answer}");
    let id = answer["job_id"].to_string();
    lab.wait_job(&id, "COMPLETED");
    assert_eq!(lab.as_user("login-0", "cat by-rest"), USER);
    // The accounts, too.
    let (status, answer) = rest(lab, &token, &[], "/slurmdb/v0.0.38/clusters");
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = rest(lab, "x.y.z", &[], "/slurm/v0.0.38/ping");
    assert!(status >= 400, "{status} {answer}");
    let who = lab.on("control", &["ps -o user= -C slurmrestd,nginx | sort -u"]);
    assert_eq!(who, "slurmrestd", "neither root nor Slurm's user");
    let key = lab.on("control", &["stat", "-c", "%U %a", "/etc/slurm/jwt.key"]);
    assert_eq!(key, "slurm 400");
    for node in ["login-0", "standard-0"] {
        assert!(
            !lab.try_on(node, &["ls", "/etc/slurm/jwt.key", "/etc/kiln/slurm-rest.pem"]).status.success()
        );
    }
    wait("the end of the certificate is known", || {
        value(lab, "kiln_certificate_end_timestamp_seconds{certificate=\"slurm-rest\"} - time() > 86400")
            .is_some()
    });
}

/// A client that is generated from what the API says of itself can be used.
pub fn by_generated_client(lab: &mut Lab) {
    let tools = std::env::var("KILN_REST_TOOLS").expect("KILN_REST_TOOLS names the generator's environment");
    let programs = Path::new(&tools).join("bin");
    let token = token(lab);
    let (status, description) = rest(lab, &token, &[], "/openapi/v3");
    assert_eq!(status, 200, "{description}");
    let document = lab.path("openapi.json");
    std::fs::write(&document, description.to_string()).expect("a file");
    let folder = lab.path("slurm_rest_client");
    let generated = Command::new(programs.join("openapi-python-client"))
        .args(["generate", "--overwrite", "--meta", "none", "--path"])
        .arg(&document)
        .arg("--output-path")
        .arg(&folder)
        .output()
        .expect("the generator runs");
    assert!(generated.status.success(), "{}", printed(&generated));
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/rest/client.py");
    let mut client = Command::new(programs.join("python"))
        .arg(program)
        .arg(&folder)
        .args([&format!("https://{}:6843", address(lab)), &certificate(lab), USER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    client.stdin.take().expect("a pipe").write_all(token.as_bytes()).expect("it reads");
    let said = client.wait_with_output().expect("it ends");
    assert!(said.status.success(), "{}", printed(&said));
    lab.wait_job(String::from_utf8_lossy(&said.stdout).trim(), "COMPLETED");
    assert_eq!(lab.as_user("login-0", "cat by-client"), USER);
}
