//! Who gets in where.

use crate::lab::{Lab, cloud_root, wait};

pub fn compute_access(lab: &mut Lab) {
    let refused = lab.try_as_user("standard-0", "true");
    assert!(!refused.status.success(), "a user without a job logged in to a compute node");
    assert_eq!(lab.on("standard-0", &["id", "-u"]), "0", "root always gets in");

    let id = lab.submit("--nodes=1 --nodelist=standard-0", "sleep 600");
    lab.wait_job(&id, "RUNNING");
    assert_eq!(lab.as_user("standard-0", "id -un"), "demo");
    let elsewhere = lab.try_as_user("standard-1", "true");
    assert!(!elsewhere.status.success(), "a job on one node opened another");
    lab.as_user("login-0", &format!("scancel {id}"));
    wait("the node is closed again", || !lab.try_as_user("standard-0", "true").status.success());
}

/// What a user could ask for the node's metadata: the address made for it, and every port of the cloud's daemon.
fn metadata_sources(lab: &mut Lab, node: &str) -> Vec<(String, String)> {
    let gateway = lab.on(node, &["sh", "-c", "ip route | awk '/^default/ { print $3 }'"]);
    let own = ["169.254.169.254".to_string(), gateway.clone()].map(|address| (address, "80".to_string()));
    let ports = ["port", "metadata-port"].map(|file| {
        let port = std::fs::read_to_string(cloud_root().join(file)).expect("the daemon's port");
        (gateway.clone(), port.trim().to_string())
    });
    own.into_iter().chain(ports).collect()
}

pub fn metadata(lab: &mut Lab) {
    let id = lab.submit("--nodes=1 --nodelist=standard-0", "sleep 600");
    lab.wait_job(&id, "RUNNING");
    for node in ["login-0", "standard-0"] {
        for (address, port) in metadata_sources(lab, node) {
            for path in ["openstack/latest/meta_data.json", "openstack/latest/user_data", "latest/user-data"]
            {
                let probe = format!(
                    "exec 3<>/dev/tcp/{address}/{port} && printf \"GET /{path} HTTP/1.0\\r\\n\\r\\n\" >&3 && cat <&3"
                );
                if address == "169.254.169.254" {
                    let seen = lab.on(node, &["timeout", "5", "bash", "-c", &probe]);
                    assert!(
                        seen.contains("200 OK") && seen.contains("kiln"),
                        "root reads the metadata: {seen}"
                    );
                }
                let user = lab.try_as_user(node, &format!("timeout 3 bash -c '{probe}'"));
                let seen = String::from_utf8_lossy(&user.stdout).into_owned();
                assert!(
                    !seen.contains("kiln") && !seen.contains("200 OK"),
                    "{address}:{port}/{path}: {seen}"
                );
            }
        }
        let drive = lab.try_as_user(node, "cat /mnt/config/openstack/latest/user_data");
        assert!(!drive.status.success(), "a user read the config drive");
    }
    lab.as_user("login-0", &format!("scancel {id}"));
}
