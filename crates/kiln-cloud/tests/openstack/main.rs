//! The OpenStack driver against real services, as `tests/openstack-services/up` starts them. `OS_CLIENT_CONFIG_FILE`
//! says where they are.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod between;
mod client;
mod lost;
mod support;
mod unfinished;

use std::time::Duration;

use kiln_cloud::openstack::{RootDisk, Settings};
use kiln_cloud::{Class, Error, InstanceStatus, NewImage, NewVolume, Rebuild};
use support::{Site, deadline, openstack, openstack_as};

#[tokio::test]
async fn a_servers_life() {
    let site = Site::new(
        "life",
        Settings { server_group: Some("soft-anti-affinity".into()), ..Settings::default() },
    )
    .await;
    let cloud = &site.cloud;
    let volume = cloud
        .create_volume(NewVolume { name: "life-state".into(), size_gib: 1, labels: site.labels() })
        .await
        .unwrap();
    let mut new = site.wanted("n-0");
    new.address = Some("10.31.0.77".parse().unwrap());
    new.volumes = vec![kiln_wire::Attachment { volume: volume.id.clone(), read_only: false }];
    let made = cloud.create(vec![new.clone()]).await.remove(0).unwrap();
    assert_eq!(made.address, new.address);
    let active =
        cloud.wait_active(std::slice::from_ref(&made.id), deadline(), |_| {}).await.unwrap().remove(0);
    assert_eq!(active.address, new.address);
    assert_eq!(active.image.as_deref(), Some(site.image_a.as_str()));
    assert_eq!(active.labels, new.labels);
    assert_eq!(active.flavor, "tiny");
    assert_eq!(active.volumes, [volume.id.as_str()]);
    // The official client sees what was asked for.
    let shown = openstack(&["server", "show", "n-0"]);
    assert_eq!(shown["config_drive"], "True");
    assert_eq!(shown["properties"]["kiln_cluster"], "life");

    let twice = cloud.create(vec![new.clone()]).await.remove(0);
    assert!(matches!(twice, Err(Error { class: Class::Conflict, .. })), "{twice:?}");

    let before = active.built.unwrap();
    let labels = new.labels.clone();
    let rebuild = Rebuild {
        image: site.image_b.clone(),
        user_data: "second".into(),
        ssh_key: new.ssh_key.clone(),
        labels: labels.clone(),
    };
    cloud.rebuild(&made.id, rebuild).await.unwrap();
    let rebuilt =
        cloud.wait_active(std::slice::from_ref(&made.id), deadline(), |_| {}).await.unwrap().remove(0);
    assert_eq!(rebuilt.image.as_deref(), Some(site.image_b.as_str()));
    assert_eq!((rebuilt.address, &rebuilt.labels), (new.address, &labels));
    assert!(rebuilt.built.unwrap() > before, "a rebuild has its own time");

    cloud.reboot(&made.id, true).await.unwrap();
    cloud.wait_active(std::slice::from_ref(&made.id), deadline(), |_| {}).await.unwrap();
    assert!(!cloud.console_log(&made.id, 5).await.unwrap().is_empty());
    let stopped = cloud.stop(&made.id, false).await.unwrap();
    assert_eq!(stopped.status, InstanceStatus::Stopped);
    assert_eq!(cloud.stop(&made.id, false).await.unwrap().status, InstanceStatus::Stopped);

    // More than Glance keeps in one value.
    let long = "x".repeat(200_000);
    let image = NewImage {
        name: "life-image".into(),
        labels: kiln_cloud::Labels::new(),
        properties: [
            ("kiln_recipe".to_string(), "r".to_string()),
            ("kiln_manifest".to_string(), long.clone()),
        ]
        .into(),
    };
    let image = cloud.create_image(&made.id, image, &|| {}).await.unwrap();
    assert_eq!(cloud.image(&image.id).await.unwrap().properties["kiln_manifest"], long);
    assert_eq!(cloud.find_image("life-image").await.unwrap().id, image.id);
    cloud.delete_image(&image.id).await.unwrap();

    // A rebuilt server runs, also one that was off.
    let rebuild = Rebuild {
        image: site.image_a.clone(),
        user_data: "third".into(),
        ssh_key: new.ssh_key.clone(),
        labels,
    };
    // It is started first, which takes its time: who wants to look again before each attempt can.
    let first = kiln_cloud::retry::once(cloud.rebuild(&made.id, rebuild.clone())).await.unwrap_err();
    assert!(matches!(first.class, Class::Busy { .. }), "{first}");
    let started = cloud.instance(&made.id).await.unwrap();
    assert_eq!((&started.status, &started.image), (&InstanceStatus::Active, &rebuilt.image));
    kiln_cloud::retry::once(cloud.rebuild(&made.id, rebuild)).await.unwrap();
    let rebuilt =
        cloud.wait_active(std::slice::from_ref(&made.id), deadline(), |_| {}).await.unwrap().remove(0);
    assert_eq!(rebuilt.image.as_deref(), Some(site.image_a.as_str()));
    cloud.stop(&made.id, false).await.unwrap();
    assert_eq!(cloud.start(&made.id).await.unwrap().status, InstanceStatus::Active);
    cloud.delete(&made.id).await.unwrap();
    cloud.delete(&made.id).await.unwrap();
    site.end().await;
}

#[tokio::test]
async fn a_root_disk_may_be_a_volume() {
    let root_disk = Some(RootDisk { size_gib: 1, volume_type: Some("fake".into()) });
    let site = Site::new("rooted", Settings { root_disk, ..Settings::default() }).await;
    let cloud = &site.cloud;
    let new = site.wanted("v-0");
    let made = cloud.create(vec![new.clone()]).await.remove(0).unwrap();
    let ids = [made.id.clone()];
    let active = cloud.wait_active(&ids, deadline(), |_| {}).await.unwrap().remove(0);
    assert_eq!(active.image.as_deref(), Some(site.image_a.as_str()));
    assert_eq!(active.volumes.len(), 1);
    let root = openstack(&["volume", "show", &active.volumes[0]]);
    assert_eq!(root["volume_image_metadata"]["image_id"], site.image_a.as_str());

    let rebuild = Rebuild {
        image: site.image_b.clone(),
        user_data: "second".into(),
        ssh_key: new.ssh_key.clone(),
        labels: new.labels.clone(),
    };
    cloud.rebuild(&made.id, rebuild).await.unwrap();
    let rebuilt = cloud.wait_active(&ids, deadline(), |_| {}).await.unwrap().remove(0);
    assert_eq!(rebuilt.image.as_deref(), Some(site.image_b.as_str()));
    assert_eq!(rebuilt.volumes, active.volumes, "rebuilt in place");

    cloud.stop(&made.id, false).await.unwrap();
    let image = NewImage {
        name: "rooted-image".into(),
        labels: kiln_cloud::Labels::new(),
        properties: [("kiln_recipe".to_string(), "r".to_string())].into(),
    };
    let image = cloud.create_image(&made.id, image, &|| {}).await.unwrap();
    assert_eq!(image.properties["kiln_recipe"], "r");
    // Not a reference to a snapshot: it has content of its own and can be rebuilt to.
    assert!(image.size_bytes > 0);
    assert_eq!(openstack(&["volume", "snapshot", "list"]).as_array().map(Vec::len), Some(0));
    cloud.delete_image(&image.id).await.unwrap();
    cloud.delete(&made.id).await.unwrap();
    site.end().await;
}

#[tokio::test]
async fn what_is_not_kilns_is_left_alone() {
    let site = Site::new("polite", Settings::default()).await;
    let cloud = &site.cloud;
    let network = site.network.id.clone();
    openstack(&[
        "server",
        "create",
        "--image",
        "image-a",
        "--flavor",
        "tiny",
        "--network",
        &network,
        "--wait",
        "theirs",
    ]);
    let theirs = openstack(&["server", "show", "theirs"])["id"].as_str().unwrap().to_string();
    let refused = cloud.create(vec![site.wanted("theirs")]).await.remove(0);
    assert_eq!(refused.unwrap_err().to_string(), "server theirs exists already and is not Kiln's");
    for refused in [
        cloud.delete(&theirs).await.unwrap_err(),
        cloud.reboot(&theirs, true).await.unwrap_err(),
        cloud.delete_image(&site.image_a).await.unwrap_err(),
    ] {
        assert!(refused.class == Class::Conflict, "{refused}");
    }
    openstack(&["server", "delete", "--wait", "theirs"]);
    let group =
        openstack(&["security", "group", "create", "polite-cluster"])["id"].as_str().unwrap().to_string();
    let new = kiln_cloud::NewSecurityGroup {
        name: "polite-cluster".into(),
        labels: site.labels(),
        rules: vec![],
        without: vec![],
    };
    let refused = cloud.create_security_group(new).await.unwrap_err();
    assert_eq!(refused.to_string(), "security group polite-cluster exists already and is not this cluster's");
    assert!(matches!(cloud.delete_security_group(&group).await, Err(Error { class: Class::Conflict, .. })));
    openstack(&["security", "group", "delete", &group]);
    let volume =
        openstack(&["volume", "create", "--size", "1", "polite-home"])["id"].as_str().unwrap().to_string();
    let new = NewVolume { name: "polite-home".into(), size_gib: 1, labels: site.labels() };
    assert!(matches!(cloud.create_volume(new).await, Err(Error { class: Class::Conflict, .. })));
    assert!(matches!(cloud.delete_volume(&volume).await, Err(Error { class: Class::Conflict, .. })));
    // Cinder deletes none that is on its way, and takes its time.
    let volumes = || openstack(&["volume", "list"]).to_string();
    until("the volume is made", || !volumes().contains("creating")).await;
    openstack(&["volume", "delete", &volume]);
    until("the volume is gone", || !volumes().contains("polite-home")).await;
    site.end().await;
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(300), "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn pages_are_put_together() {
    let site = Site::new("pages", Settings::default()).await;
    let new = (0..7).map(|n| site.wanted(&format!("p-{n}"))).collect();
    let made: Vec<_> = site.cloud.create(new).await.into_iter().map(|r| r.unwrap().id).collect();
    let kiln_cloud::Cloud::OpenStack(driver) = &site.cloud else { unreachable!() };
    let paged = kiln_cloud::Cloud::OpenStack(driver.clone().with_page(2));
    // Nova lists servers that it has not given to a cell yet before all others, and leaves them out of a page that
    // follows a server of a cell: only a listing of servers at rest is whole.
    paged.wait_active(&made, deadline(), |_| {}).await.unwrap();
    assert_eq!(paged.instances("pages").await.unwrap().len(), 7);
    assert!(
        paged
            .flavors()
            .await
            .unwrap()
            .iter()
            .any(|f| f.name == "small" && f.cpus == 2 && f.memory_mib == 2048)
    );
    assert!(paged.images().await.unwrap().len() >= 2);
    let gone = std::sync::Mutex::new(Vec::new());
    let results = paged.delete_all(&made, &|id| gone.lock().unwrap().push(id.to_string())).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(gone.lock().unwrap().len(), 7);
    site.end().await;
}

#[tokio::test]
async fn a_failed_build_is_told_in_novas_words() {
    let site = Site::new("broken", Settings::default()).await;
    let mut new = site.wanted("b-0");
    new.labels.insert("fake:spawn_error".into(), "the disk is on fire".into());
    let made = site.cloud.create(vec![new]).await.remove(0).unwrap();
    let error = site.cloud.wait_active(std::slice::from_ref(&made.id), deadline(), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("the disk is on fire"), "{error}");
    // Nova has taken its port from it.
    site.cloud.delete(&made.id).await.unwrap();
    let ports = openstack(&["port", "list", "--name", "b-0"]);
    assert_eq!(ports.as_array().map(Vec::len), Some(0), "{ports}");
    let mut slow = site.wanted("b-1");
    slow.labels.insert("fake:spawn_seconds".into(), "10".into());
    let made = site.cloud.create(vec![slow]).await.remove(0).unwrap();
    assert_eq!(site.cloud.instance(&made.id).await.unwrap().status, InstanceStatus::Building);
    let soon = tokio::time::Instant::now() + Duration::from_millis(10);
    let error = site.cloud.wait_active(std::slice::from_ref(&made.id), soon, |_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "not active in time: b-1 (building)");
    site.end().await;
}

#[tokio::test]
async fn files_become_images() {
    let site = Site::new("upload", Settings::default()).await;
    let kiln_cloud::Cloud::OpenStack(driver) = &site.cloud else { unreachable!() };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk.raw");
    std::fs::write(&file, vec![7; 100_000]).unwrap();
    let new = || NewImage {
        name: "upload-disk".into(),
        labels: kiln_cloud::Labels::new(),
        properties: std::collections::BTreeMap::new(),
    };
    let image = driver.upload_image(new(), &file).await.unwrap();
    assert_eq!(image.size_bytes, 100_000);
    assert_eq!(driver.upload_image(new(), &file).await.unwrap().id, image.id);
    driver.delete_image(&image.id).await.unwrap();
    site.end().await;
}

/// As the cloud's administrators write it, and as ordinary users may read it.
#[tokio::test]
async fn a_flavor_says_what_jobs_may_choose_by() {
    let settings = Settings { cloud: Some("demo".into()), ..Settings::default() };
    let cloud = kiln_cloud::Cloud::openstack(&settings).unwrap();
    let name = "gpu flavor";
    let is_there = async || cloud.flavors().await.unwrap().into_iter().find(|f| f.name == name);
    // What a run that was cut off has left.
    if is_there().await.is_some() {
        openstack_as("admin", &["flavor", "delete", name]);
    }
    let properties = [
        "hw:cpu_policy=dedicated",
        "pci_passthrough:alias=a100:2",
        "resources:VGPU=1",
        "trait:HW_ARCH_X86_64=required",
        "trait:CUSTOM_INFINIBAND=required",
        "trait:HW_CPU_X86_AVX=forbidden",
    ];
    let mut command = vec!["flavor", "create", "--vcpus", "3", "--ram", "3072", "--disk", "1", name];
    command.extend(properties.iter().flat_map(|property| ["--property", property]));
    openstack_as("admin", &command);
    let found = is_there().await;
    openstack_as("admin", &["flavor", "delete", name]);
    let found = found.unwrap();
    assert_eq!((found.cpus, found.memory_mib), (3, 3072));
    let expected = [
        "shape=gpu flavor",
        "cpu_policy=dedicated",
        "pci=a100",
        "vgpu",
        "trait=CUSTOM_INFINIBAND",
        "arch=x86_64",
    ];
    assert_eq!(found.features, expected);
}
