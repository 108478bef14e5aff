//! Who gets in where.

use crate::lab::{Lab, wait};

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

pub fn metadata(lab: &mut Lab) {
    let probe = "exec 3<>/dev/tcp/169.254.169.254/80 && printf 'GET /openstack/latest/meta_data.json HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3";
    let seen = lab.on("login-0", &["timeout", "5", "bash", "-c", probe]);
    assert!(seen.contains("kiln_cluster"), "root reads the metadata: {seen}");
    let user = lab.try_as_user("login-0", &format!("timeout 5 bash -c '{}'", probe.replace('\'', "'\\''")));
    assert!(!user.status.success() && !String::from_utf8_lossy(&user.stdout).contains("kiln_"));
    let drive = lab.try_as_user("login-0", "cat /mnt/config/openstack/latest/user_data");
    assert!(!drive.status.success(), "a user read the config drive");
}
