//! The local cloud as its users see it: a real daemon, real booted systems.

#![allow(clippy::unwrap_used)]

mod copy;
mod forwarding;
mod kept;
mod listing;
mod lost;
mod neighbours;
mod sources;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use kiln_cloud::{Class, Cloud, Error, InstanceStatus, NewImage, NewVolume, Rebuild};
use kiln_wire::labels;
use rustix::process::{Pid, Signal, kill_process};
use support::{LONG, Site, boot_id, inside, labels, root, try_inside};
use tokio::time::{Instant, sleep, timeout};

#[tokio::test]
async fn an_instance_knows_itself() {
    let site = Site::new("t-self").await;
    let before = std::time::Instant::now();
    let made = site.boot(vec![site.wanted("n1"), site.wanted("n2")]).await;
    let [one, two] = &made[..] else { panic!() };

    assert_eq!(inside(&one.id, &["hostname"]), "n1");
    let uptime = inside(&one.id, &["cat", "/proc/uptime"]);
    let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    assert!(uptime <= before.elapsed().as_secs_f64() + 1.0, "{uptime}");

    let get = |id: &str, path: &str| {
        inside(id, &["curl", "-sf", &format!("http://169.254.169.254/openstack/latest/{path}")])
    };
    for instance in [one, two] {
        let meta: serde_json::Value = serde_json::from_str(&get(&instance.id, "meta_data.json")).unwrap();
        assert_eq!(meta["uuid"], *instance.id);
        assert_eq!(meta["name"], *instance.name);
        assert_eq!(meta["meta"][labels::CLUSTER], "t-self");
        assert_eq!(meta["public_keys"]["kiln"], "ssh-ed25519 AAAA test");
        assert_eq!(get(&instance.id, "user_data"), format!("secret of {}", instance.name));
        let drive = "/mnt/config/openstack/latest";
        assert_eq!(
            inside(&instance.id, &["cat", &format!("{drive}/user_data")]),
            get(&instance.id, "user_data")
        );
        assert_eq!(inside(&instance.id, &["stat", "-c", "%a %U", &format!("{drive}/user_data")]), "600 root");
        assert!(try_inside(&instance.id, &["touch", &format!("{drive}/x")]).is_none());
    }
    assert!(get(&one.id, "network_data.json").contains(&one.address.unwrap().to_string()));

    // Users of an instance reach its gateway, and the metadata address is closed to them by the node alone: nothing but
    // that address may answer.
    let gateway = inside(&one.id, &["sh", "-c", "ip route | awk '/^default/ { print $3 }'"]);
    for file in ["port", "metadata-port"] {
        let port = fs::read_to_string(root().join(file)).unwrap();
        for path in ["openstack/latest/user_data", "latest/user-data"] {
            let url = format!("http://{gateway}:{}/{path}", port.trim());
            let answer = try_inside(&one.id, &["curl", "-sf", "--max-time", "2", &url]);
            assert_eq!(answer, None, "{url} answers");
        }
    }

    let mut more = labels("t-self");
    more.insert(labels::NODE.into(), "n1".into());
    site.cloud.set_labels(&one.id, more.clone()).await.unwrap();
    assert_eq!(site.cloud.instance(&one.id).await.unwrap().labels, more);
    assert!(get(&one.id, "meta_data.json").contains(labels::NODE));

    // They reach each other, and the outside through the host.
    inside(&one.id, &["ping", "-c1", "-W5", &two.address.unwrap().to_string()]);
    assert!(inside(&one.id, &["ip", "route"]).contains("default via"));
    assert!(site.cloud.console_log(&one.id, 500).await.unwrap().contains("Reached target"));
    assert_eq!(site.cloud.console_log(&one.id, 3).await.unwrap().lines().count(), 3);
    site.finish().await;
}

#[tokio::test]
async fn power_and_rebuild() {
    let site = Site::new("t-power").await;
    let cloud = &site.cloud;
    let new = NewVolume { name: "t-power-state".into(), size_gib: 1, labels: labels("t-power") };
    let volume = cloud.create_volume(new).await.unwrap();
    let made = site.boot(vec![site.with_volume("n1", &volume.id)]).await;
    let one = &made[0];
    assert_eq!(
        cloud.volume_by_name("t-power-state").await.unwrap().unwrap().attached_to,
        std::slice::from_ref(&one.id)
    );
    let state = "/mnt/volumes/t-power-state/file";
    inside(&one.id, &["touch", "/root/mark", state]);

    let boot = || boot_id(&one.id).unwrap();
    let mac = support::mac(&one.id);
    assert!(mac.starts_with("02:"), "{mac}");
    for hard in [true, false] {
        let old = boot();
        cloud.reboot(&one.id, hard).await.unwrap();
        site.await_boot_after(one, &old).await;
        assert_eq!(support::mac(&one.id), mac);
        inside(&one.id, &["ls", "/root/mark"]);
    }

    // The inside may reboot by itself; nobody outside has to do anything.
    let old = boot();
    let asked = std::time::Instant::now();
    inside(&one.id, &["systemctl", "reboot"]);
    site.await_boot_after(one, &old).await;
    assert_eq!(site.status(&one.id).await, InstanceStatus::Active);
    let uptime = inside(&one.id, &["cat", "/proc/uptime"]);
    let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    assert!(uptime <= asked.elapsed().as_secs_f64() + 1.0, "{uptime}");
    assert_eq!(support::mac(&one.id), mac);

    for hard in [false, true] {
        let stopped = cloud.stop(&one.id, hard).await.unwrap();
        assert_eq!(stopped.status, InstanceStatus::Stopped);
        cloud.stop(&one.id, hard).await.unwrap();
        assert_eq!(cloud.start(&one.id).await.unwrap().status, InstanceStatus::Active);
        assert!(site.answers(one, 22).await);
        inside(&one.id, &["ls", "/root/mark"]);
    }

    let old = boot();
    let rebuild = Rebuild {
        image: site.image.id.clone(),
        user_data: "new".into(),
        ssh_key: "ssh-ed25519 AAAA test".into(),
        labels: labels("t-power"),
    };
    assert_eq!(cloud.rebuild(&one.id, rebuild).await.unwrap().status, InstanceStatus::Rebuilding);
    site.active(std::slice::from_ref(&one.id)).await;
    site.await_boot_after(one, &old).await;
    let now = cloud.instance(&one.id).await.unwrap();
    assert_eq!((now.address, &now.volumes), (one.address, &vec![volume.id.clone()]));
    assert_eq!(support::mac(&one.id), mac);
    assert!(try_inside(&one.id, &["ls", "/root/mark"]).is_none());
    inside(&one.id, &["ls", state]);
    assert_eq!(inside(&one.id, &["cat", "/mnt/config/openstack/latest/user_data"]), "new");

    // Switched off from inside.
    let _ = try_inside(&one.id, &["systemctl", "poweroff"]);
    let off = async {
        while site.status(&one.id).await != InstanceStatus::Stopped {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, off).await.unwrap();
    assert!(matches!(cloud.delete_volume(&volume.id).await, Err(Error { class: Class::Conflict, .. })));
    site.finish().await;
}

#[tokio::test]
async fn images_come_from_instances() {
    let site = Site::new("t-image").await;
    let cloud = &site.cloud;
    let builder = site.boot(vec![site.wanted("builder")]).await.remove(0);
    inside(&builder.id, &["touch", "/root/baked"]);
    inside(&builder.id, &["rm", "/etc/debian_version"]);
    let new = || NewImage {
        name: "baked".into(),
        labels: labels("t-image"),
        properties: [("a".into(), "b".into())].into(),
    };
    assert!(matches!(
        cloud.create_image(&builder.id, new(), &|| {}).await,
        Err(Error { class: Class::Conflict, .. })
    ));
    cloud.stop(&builder.id, false).await.unwrap();
    let image = cloud.create_image(&builder.id, new(), &|| {}).await.unwrap();
    assert_eq!(cloud.image(&image.id).await.unwrap().properties["a"], "b");

    // The builder goes on from where it was, and what it does now is not in the image.
    cloud.start(&builder.id).await.unwrap();
    assert!(site.answers(&builder, 22).await);
    inside(&builder.id, &["ls", "/root/baked"]);
    inside(&builder.id, &["touch", "/root/later"]);
    let made =
        site.boot(vec![kiln_cloud::NewInstance { image: image.id.clone(), ..site.wanted("n1") }]).await;
    cloud.delete(&builder.id).await.unwrap();
    let one = &made[0];
    inside(&one.id, &["ls", "/root/baked"]);
    for absent in ["/etc/debian_version", "/root/later"] {
        assert!(try_inside(&one.id, &["ls", absent]).is_none(), "{absent}");
    }

    // An image in use can be deleted; its user does not notice, even over a reboot.
    cloud.delete_image(&image.id).await.unwrap();
    assert!(matches!(
        cloud.image(&image.id).await,
        Err(Error { class: Class::NotFound { kind: "image" }, .. })
    ));
    let old = boot_id(&one.id).unwrap();
    cloud.reboot(&one.id, true).await.unwrap();
    site.await_boot_after(one, &old).await;
    inside(&one.id, &["ls", "/root/baked"]);
    site.finish().await;
}

#[tokio::test]
async fn many_at_once_and_one_name_once() {
    let site = Site::new("t-bulk").await;
    let made = site.boot((0..6).map(|n| site.wanted(&format!("n{n}"))).collect()).await;
    let addresses: BTreeSet<_> = made.iter().map(|i| i.address.unwrap()).collect();
    assert_eq!(addresses.len(), 6);

    let again = site.cloud.create(vec![site.wanted("n0")]).await.remove(0);
    assert!(matches!(again, Err(Error { class: Class::Conflict, .. })), "{again:?}");
    for bad in ["", "UP", "a_b", "../x"] {
        let refused = site.cloud.create(vec![site.wanted(bad)]).await.remove(0);
        assert!(matches!(refused, Err(Error { class: Class::Refused, .. })), "{bad}: {refused:?}");
    }
    assert_eq!(site.cloud.instances("t-bulk").await.unwrap().len(), 6);
    assert!(matches!(
        site.cloud.delete_network(&site.network.id).await,
        Err(Error { class: Class::Conflict, .. })
    ));
    site.cloud.delete(&made[0].id).await.unwrap();
    site.cloud.delete(&made[0].id).await.unwrap();
    assert_eq!(site.cloud.instances("t-bulk").await.unwrap().len(), 5);
    site.finish().await;
}

#[tokio::test]
async fn security_groups_let_in_what_they_say() {
    let site = Site::new("t-group").await;
    let one = site.boot(vec![site.wanted("n1")]).await.remove(0);
    inside(&one.id, &["systemd-run", "--quiet", "/usr/sbin/sshd", "-D", "-p", "8080"]);
    let listening = async {
        while try_inside(&one.id, &["ss", "-Htln", "sport = :8080"]).is_none_or(|s| s.is_empty()) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, listening).await.unwrap();
    let address = (one.address.unwrap(), 8080);
    let attempt = timeout(Duration::from_secs(1), tokio::net::TcpStream::connect(address)).await;
    assert!(!matches!(attempt, Ok(Ok(_))), "the port is open");
    assert!(site.answers(&one, 22).await);
    site.finish().await;
}

#[tokio::test]
async fn a_clusters_token_opens_that_cluster_only() {
    let site = Site::new("t-token").await;
    let one = site.boot(vec![site.wanted("n1")]).await.remove(0);
    site.cloud.grant("t-token", "right").await.unwrap();
    site.cloud.grant("t-other", "wrong").await.unwrap();
    let url = site.network.api_url.as_deref().unwrap();
    // From where the control node would ask.
    let status = |token: &str| {
        let header = format!("Authorization: Bearer {token}");
        let address = format!("{url}/v1/instances/{}", one.id);
        inside(&one.id, &["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", &header, &address])
    };
    assert_eq!(
        (status("right"), status("wrong"), status("none")),
        ("200".into(), "404".into(), "401".into())
    );

    let own = Cloud::local_at(url, "right");
    assert_eq!(own.instances("t-token").await.unwrap().len(), 1);
    own.reboot(&one.id, true).await.unwrap();
    let made = own.create(vec![site.wanted("n2")]).await.remove(0).unwrap();
    own.wait_active(std::slice::from_ref(&made.id), Instant::now() + LONG, |_| {}).await.unwrap();
    own.delete(&made.id).await.unwrap();

    let other = Cloud::local_at(url, "wrong");
    assert!(other.instances("t-token").await.unwrap().is_empty());
    assert!(matches!(other.instance(&one.id).await, Err(Error { class: Class::NotFound { .. }, .. })));
    assert!(matches!(
        other.create(vec![site.wanted("n3")]).await.remove(0),
        Err(Error { class: Class::NoRights, .. })
    ));
    let mut stolen = site.wanted("n3");
    stolen.labels = labels("t-other");
    assert!(matches!(
        other.create(vec![stolen]).await.remove(0),
        Err(Error { class: Class::NotFound { kind: "network" }, .. })
    ));
    assert!(matches!(other.grant("t-token", "x").await, Err(Error { class: Class::NoRights, .. })));
    assert!(matches!(other.retire().await, Err(Error { class: Class::NoRights, .. })));

    site.cloud.revoke("t-token").await.unwrap();
    site.cloud.revoke("t-other").await.unwrap();
    assert!(matches!(own.instances("t-token").await, Err(Error { class: Class::NoRights, .. })));
    site.finish().await;
}

fn daemon() -> Pid {
    Pid::from_raw(fs::read_to_string(root().join("daemon.lock")).unwrap().trim().parse().unwrap()).unwrap()
}

#[tokio::test]
async fn a_newer_program_takes_over() {
    let site = Site::new("t-newer").await;
    let one = site.boot(vec![site.wanted("n1")]).await.remove(0);
    let boot = boot_id(&one.id).unwrap();
    // From a copy of the program, so that replacing it disturbs no other test.
    let program = root().join("program");
    let install = || {
        fs::copy(support::program(), root().join("program.new")).unwrap();
        fs::rename(root().join("program.new"), &program).unwrap();
    };
    let ask = async || {
        let cloud = Cloud::local_with(root(), program.clone());
        assert_eq!(cloud.instance(&one.id).await.unwrap().status, InstanceStatus::Active);
        daemon()
    };
    install();
    kill_process(daemon(), Signal::KILL).unwrap();
    let first = ask().await;
    assert_eq!(ask().await, first);
    install();
    let second = ask().await;
    assert_ne!(second, first);
    assert_eq!(ask().await, second);
    assert_eq!(boot_id(&one.id).unwrap(), boot);
    site.finish().await;
    fs::remove_file(program).unwrap();
}

#[tokio::test]
async fn the_daemon_may_die() {
    let site = Site::new("t-killed").await;
    let one = site.boot(vec![site.wanted("n1")]).await.remove(0);
    let boot = boot_id(&one.id).unwrap();
    let kill_daemon = || kill_process(daemon(), Signal::KILL).unwrap();
    kill_daemon();
    assert_eq!(boot_id(&one.id).unwrap(), boot);
    assert_eq!(site.status(&one.id).await, InstanceStatus::Active);
    inside(&one.id, &["curl", "-sf", "http://169.254.169.254/openstack/latest/meta_data.json"]);

    // Accepted, but the daemon dies over it: the next one finishes the work.
    let accepted = site.cloud.create(vec![site.wanted("n2")]).await.remove(0).unwrap();
    kill_daemon();
    site.active(std::slice::from_ref(&accepted.id)).await;
    assert!(site.answers(&accepted, 22).await);

    // The same in the middle of a deletion.
    let deletion = tokio::spawn({
        let (cloud, id) = (site.cloud.clone(), accepted.id.clone());
        async move { cloud.delete(&id).await }
    });
    tokio::task::yield_now().await;
    kill_daemon();
    deletion.await.unwrap().unwrap();
    assert!(matches!(
        site.cloud.instance(&accepted.id).await,
        Err(Error { class: Class::NotFound { .. }, .. })
    ));
    assert_eq!(boot_id(&one.id).unwrap(), boot);
    site.finish().await;
}

#[tokio::test]
async fn faults_are_retried_or_told() {
    let site = Site::new("t-faults").await;
    let inject = |text: &str| fs::write(root().join("faults.json"), text).unwrap();
    inject(r#"{"create": {"fail": 2, "status": 429, "retry_after": 0}, "list": {"fail": 1, "status": 503}}"#);
    let one = site.cloud.create(vec![site.wanted("n1")]).await.remove(0).unwrap();
    site.active(std::slice::from_ref(&one.id)).await;

    inject(r#"{"create": {"fail": 1, "status": 403, "message": "no more cores"}}"#);
    let refused = site.cloud.create(vec![site.wanted("n2")]).await.remove(0);
    assert!(
        matches!(&refused, Err(Error { class: Class::NoRoom, message: words, .. }) if words == "no more cores"),
        "{refused:?}"
    );

    inject(r#"{"build": {"fail": 1, "message": "no valid host"}}"#);
    let doomed = site.cloud.create(vec![site.wanted("n3")]).await.remove(0).unwrap();
    let error =
        site.cloud.wait_active(&[one.id.clone(), doomed.id.clone()], Instant::now() + LONG, |_| {}).await;
    assert_eq!(error.unwrap_err().to_string(), "n3: no valid host");

    // A broken instance can be rebuilt.
    let rebuild = Rebuild {
        image: site.image.id.clone(),
        user_data: "".into(),
        ssh_key: String::new(),
        labels: labels("t-faults"),
    };
    site.cloud.rebuild(&doomed.id, rebuild).await.unwrap();
    site.active(std::slice::from_ref(&doomed.id)).await;
    site.finish().await;
}
