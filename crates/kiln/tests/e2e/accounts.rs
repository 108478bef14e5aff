//! Who gets in where.

use crate::lab::{Lab, USER, cloud_root, wait};

pub fn compute_access(lab: &mut Lab) {
    let refused = lab.try_as_user("standard-0", "true");
    assert!(!refused.status.success(), "a user without a job logged in to a compute node");
    assert_eq!(lab.on("standard-0", &["id", "-u"]), "0", "root always gets in");

    let id = lab.submit("--nodes=1 --nodelist=standard-0", "sleep 600");
    // Slurm calls a job running before a login finds anything of it there.
    wait("the job lets its user in", || {
        String::from_utf8_lossy(&lab.try_as_user("standard-0", "id -un").stdout).trim() == "demo"
    });
    let mut session = lab.ssh_command(USER, "standard-0", "exec sleep 4321").spawn().expect("ssh runs");
    let sleeps = |lab: &Lab| lab.try_on("standard-0", &["pgrep", "-xf", "sleep 4321"]).status.success();
    wait("the session runs", || sleeps(lab));
    // The end of another job of the same user does not end it.
    let other = lab.submit("--nodes=1 --nodelist=standard-0", "true");
    lab.wait_job(&other, "COMPLETED");
    wait("the other job is gone from the node", || {
        lab.on("control", &["squeue", "--noheader", "--state=CG"]).is_empty()
    });
    assert!(sleeps(lab) && session.try_wait().expect("ssh").is_none(), "a session ended before the last job");
    let elsewhere = lab.try_as_user("standard-1", "true");
    assert!(!elsewhere.status.success(), "a job on one node opened another");
    lab.as_user("login-0", &format!("scancel {id}"));
    wait("the session ends with the job", || !sleeps(lab) && session.try_wait().expect("ssh").is_some());
    wait("the node is closed again", || !lab.try_as_user("standard-0", "true").status.success());
}

/// What a user could ask for the node's metadata: the address made for it, and every port of the cloud's daemon.
pub fn metadata_sources(lab: &mut Lab, node: &str) -> Vec<(String, String)> {
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
                    let seen = lab.on(node, &["timeout", "60", "bash", "-c", &probe]);
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
        stays_closed(lab, node);
        without_packet_filter(lab, node);
        let drive = lab.try_as_user(node, "cat /mnt/config/openstack/latest/user_data");
        assert!(!drive.status.success(), "a user read the config drive");
    }
    lab.as_user("login-0", &format!("scancel {id}"));
}

/// Whatever happens to the node's packet filter. Other services at the address of the metadata are not touched.
fn stays_closed(lab: &Lab, node: &str) {
    let closed = || {
        let rules = lab.try_on(node, &["nft", "list", "table", "inet", "kiln_node"]);
        String::from_utf8_lossy(&rules.stdout).contains("169.254.169.254 tcp dport 80 meta skuid != 0 drop")
    };
    for trouble in
        ["nft flush ruleset", "systemctl restart nftables", "nft flush chain inet kiln_node output"]
    {
        assert!(closed(), "{node}, before {trouble}");
        lab.on(node, &["sh", "-c", trouble]);
        wait(&format!("the metadata of {node} is closed after {trouble}"), closed);
    }
    lab.on(node, &["systemctl", "stop", "nftables"]);
    wait("the metadata is closed", closed);
    let needs = lab.on(node, &["systemctl", "show", "--property=Wants", "ssh.service"]);
    assert!(needs.contains("kiln-metadata.service"), "{needs}");
}

/// The rules cannot be set. Root gets in all the same, and users do not.
fn without_packet_filter(lab: &Lab, node: &str) {
    let root = || lab.try_kiln(&["ssh", node, "true"]).status.success();
    let nft = lab.on(node, &["sh", "-c", "command -v nft"]);
    let hidden = format!("{nft}.hidden");
    lab.on(node, &["sh", "-c", &format!("nft delete table inet kiln_node; mv {nft} {hidden}")]);
    lab.on(node, &["sh", "-c", "systemctl restart kiln-metadata.service || true"]);
    wait("users are kept out", || lab.try_on(node, &["test", "-e", "/etc/nologin"]).status.success());
    lab.on(node, &["systemctl", "restart", "ssh.service"]);
    assert!(!lab.try_as_user(node, "true").status.success(), "a user logged in beside an open metadata");
    wait("root gets in", root);
    lab.on(node, &["mv", &hidden, &nft]);
    lab.on(node, &["systemctl", "restart", "kiln-metadata.service"]);
    wait("users get in again", || lab.try_as_user(node, "true").status.success());
    lab.on(node, &["systemctl", "stop", "kiln-metadata.service"]);
    assert!(root(), "sshd has ended with the unit");
    lab.on(node, &["systemctl", "start", "kiln-metadata.service"]);
}
