//! The local cloud's daemon and its API.

use serde_json::Value;

use crate::lab::{Lab, cloud_root, read};

pub fn killed(lab: &mut Lab) {
    let before = lab.json(&["inventory"]);
    let id = lab.submit("--nodes=2", "sleep 600");
    lab.wait_job(&id, "RUNNING");
    let record: Value = serde_json::from_str(&read(&cloud_root().join("daemon.json"))).expect("the daemon's record");
    let pid = record["pid"].as_i64().expect("the daemon's pid").to_string();
    let cmdline = read(std::path::Path::new(&format!("/proc/{pid}/cmdline")));
    assert!(cmdline.contains("daemon"), "{pid} is {cmdline}");
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().expect("kill runs").success());

    assert_eq!(before, lab.json(&["inventory"]), "the same instances are found again");
    assert_eq!(lab.job(&id, "JobState"), "RUNNING");
    let status = lab.json(&["status"]);
    assert!(status["nodes"].as_array().expect("nodes").iter().all(|n| n["verdict"] == "ok"), "{status}");
    lab.as_user("login-0", &format!("scancel {id}"));
}

pub fn token(lab: &mut Lab) {
    // From the control node, with what Kiln put there.
    let credentials: Value = serde_json::from_str(&lab.on("control", &["cat", "/etc/kiln/cloud.json"])).expect("credentials");
    let owner = lab.on("control", &["stat", "-c", "%U %a", "/etc/kiln/cloud.json"]);
    assert_eq!(owner, "slurm 600");
    let url = credentials["url"].as_str().expect("a url");
    let token = credentials["token"].as_str().expect("a token");
    let address = url.trim_start_matches("http://");
    let (host, port) = address.split_once(':').expect("host and port");
    let get = |token: &str, path: &str| {
        format!(
            "exec 3<>/dev/tcp/{host}/{port} && printf 'GET {path} HTTP/1.0\\r\\nAuthorization: Bearer {token}\\r\\n\\r\\n' >&3 && cat <&3"
        )
    };
    let own = lab.on("control", &["bash", "-c", &get(token, "/v1/instances?cluster=e2e")]);
    assert!(own.contains("200 OK") && own.contains("standard-0"), "{own}");
    let other = lab.on("control", &["bash", "-c", &get(token, "/v1/instances?cluster=another")]);
    assert!(!other.contains("200 OK"), "{other}");
    let none = lab.on("control", &["bash", "-c", &get("wrong", "/v1/instances?cluster=e2e")]);
    assert!(none.contains("401"), "{none}");
}
