//! The local cloud's daemon and its API.

use serde_json::Value;

use crate::lab::{Lab, cloud_root};

pub fn killed(lab: &mut Lab) {
    let before = lab.json(&["inventory"]);
    let id = lab.submit("--nodes=2", "sleep 600");
    lab.wait_job(&id, "RUNNING");
    let pid = daemon_pid().expect("the daemon runs");
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().expect("kill runs").success());

    assert_eq!(before, lab.json(&["inventory"]), "the same instances are found again");
    assert_eq!(lab.job(&id, "JobState"), "RUNNING");
    let status = lab.json(&["status"]);
    assert!(status["nodes"].as_array().expect("nodes").iter().all(|n| n["verdict"] == "ok"), "{status}");
    lab.as_user("login-0", &format!("scancel {id}"));
}

pub fn token(lab: &mut Lab) {
    // From the control node, with what Kiln put there.
    let credentials: Value =
        serde_json::from_str(&lab.on("control", &["cat", "/etc/kiln/fleet.json"])).expect("credentials");
    let owner = lab.on("control", &["stat", "-c", "%U %a", "/etc/kiln/fleet.json"]);
    assert_eq!(owner, "kilnd 600");
    let url = credentials["cloud"]["url"].as_str().expect("a url");
    let token = credentials["cloud"]["token"].as_str().expect("a token");
    let address = url.trim_start_matches("http://");
    let (host, port) = address.split_once(':').expect("host and port");
    let call = |method: &str, token: &str, path: &str| {
        format!(
            "exec 3<>/dev/tcp/{host}/{port} && printf '{method} {path} HTTP/1.0\\r\\nAuthorization: Bearer {token}\\r\\n\\r\\n' >&3 && cat <&3"
        )
    };
    let answer = |method: &str, token: &str, path: &str| {
        let whole = lab.on("control", &["bash", "-c", &call(method, token, path)]);
        let status = whole.split(' ').nth(1).unwrap_or_default().to_string();
        (status, whole)
    };
    let list = "/v1/instances?cluster=e2e&limit=100";
    let (status, own) = answer("GET", token, list);
    assert!(status == "200" && own.contains("standard-0"), "{own}");
    assert_eq!(answer("GET", "wrong", list).0, "401");
    // Nothing beyond the cluster: no token for another one, no end of the daemon.
    for (method, path) in [("DELETE", "/v1/grants/another"), ("POST", "/v1/retire")] {
        let (status, whole) = answer(method, token, path);
        assert!(status != "200" && whole.contains("for cluster e2e only"), "{whole}");
    }
}

/// The deploy host reaches the cloud, the control node does not.
pub fn out_of_reach(lab: &mut Lab) {
    let port = lab.on(
        "control",
        &["sed", "-n", r#"s|.*"url": *"http://[^:]*:\([0-9]*\).*|\1|p"#, "/etc/kiln/fleet.json"],
    );
    let close = format!(
        "add table ip closed; add chain ip closed out {{ type filter hook output priority 0; }}; \
         add rule ip closed out tcp dport {port} reject with tcp reset"
    );
    lab.on("control", &["nft", &close]);
    let told = lab.try_kiln(&["configure"]);
    lab.on("control", &["nft", "delete table ip closed"]);
    let words = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(1), "{words}");
    assert!(words.contains("control cannot ask the cloud"), "{words}");
    assert!(words.contains(&format!(":{port}")), "its address is told: {words}");
    lab.kiln(&["configure"]);
}

/// The daemon of this test's cloud, found by its arguments.
pub fn daemon_pid() -> Option<String> {
    let root = cloud_root().display().to_string();
    let wanted = ["local", "daemon", "--root", root.as_str()];
    let pid = |entry: std::fs::DirEntry| {
        let cmdline = std::fs::read(entry.path().join("cmdline")).ok()?;
        let cmdline = String::from_utf8_lossy(&cmdline).into_owned();
        let arguments: Vec<&str> = cmdline.trim_end_matches('\0').split('\0').skip(1).collect();
        (arguments == wanted).then(|| entry.file_name().to_string_lossy().into_owned())
    };
    std::fs::read_dir("/proc").ok()?.flatten().find_map(pid)
}
