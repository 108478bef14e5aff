//! What lists show, and who may ask for them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use kiln_cloud::Instance;

use super::support::{Site, program, root};

#[tokio::test]
async fn lists_are_in_order_and_need_no_limit() {
    let site = Site::new("t-list").await;
    let names = ["n3", "n1", "n2", "n10"];
    let made = site.boot(names.map(|name| site.wanted(name)).to_vec()).await;
    let all = site.cloud.instances("t-list").await.unwrap();
    assert_eq!(all.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), names);

    let socket = root().join("api.sock");
    let rights = fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    assert_eq!(rights, 0o600, "only root asks there");
    let http = reqwest::Client::builder().unix_socket(socket).build().unwrap();
    let get = async |path: &str| http.get(format!("http://localhost/v1/{path}")).send().await.unwrap();
    let page: Vec<Instance> = get("instances?cluster=t-list").await.json().await.unwrap();
    assert_eq!(page.len(), 4);
    let page: Vec<Instance> = get("instances?cluster=t-list&limit=3").await.json().await.unwrap();
    assert_eq!(page.len(), 3);
    let console = get(&format!("instances/{}/console", made[0].id)).await;
    assert!(console.status().is_success());
    for list in ["volumes", "networks", "security-groups"] {
        assert!(get(&format!("{list}?cluster=t-list")).await.status().is_success(), "{list}");
    }
    site.finish().await;
}

#[test]
fn a_normal_user_is_told_that_root_is_needed() {
    assert!(rustix::process::geteuid().is_root(), "only root can become a normal user");
    // Where anybody can read the program and could make the cloud's directory.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let copy = dir.path().join("program");
    fs::copy(program(), &copy).unwrap();
    let cloud = dir.path().join("cloud");
    for arguments in [vec!["images"], vec!["local", "daemon", "--root"]] {
        let output =
            Command::new(&copy).args(arguments).arg(&cloud).uid(65_534).gid(65_534).output().unwrap();
        assert!(!output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "the local cloud needs root\n");
        assert!(!cloud.exists());
    }
}
