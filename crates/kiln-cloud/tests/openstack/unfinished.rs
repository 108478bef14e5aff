//! Images whose making fails or is cut off: nothing of them is left, and none passes for the image it was made from.

use std::time::Duration;

use kiln_cloud::openstack::{RootDisk, Settings};
use kiln_cloud::{Cloud, Labels, NewImage, NewInstance, Rebuild};
use kiln_wire::labels;
use serde_json::Value;

use crate::between::{Between, Fate};
use crate::support::{Site, deadline, openstack};

fn new_image(name: &str, recipe: &str) -> NewImage {
    let properties = [("kiln_recipe".to_string(), recipe.to_string())].into();
    NewImage { name: name.into(), labels: Labels::new(), properties }
}

/// As the instance of an image build is.
fn build_instance(site: &Site, name: &str) -> NewInstance {
    let mut new = site.wanted(name);
    new.labels.remove(labels::NODE);
    new.labels.remove(labels::GROUP);
    new.labels.insert(labels::ROLE.into(), "build".into());
    new
}

async fn stopped(cloud: &Cloud, new: NewInstance) -> String {
    let made = cloud.create(vec![new]).await.remove(0).unwrap();
    cloud.wait_active(std::slice::from_ref(&made.id), deadline(), |_| {}).await.unwrap();
    cloud.stop(&made.id, false).await.unwrap();
    made.id
}

fn names(list: &[&str]) -> Vec<String> {
    let rows = openstack(list);
    let name = |row: &Value| row["Name"].as_str().unwrap_or_default().to_string();
    rows.as_array().unwrap().iter().map(name).collect()
}

/// Starts to make an image and is gone, as if killed, when the request that `between` does not answer is sent.
async fn killed(cloud: Cloud, between: &Between, instance: &str, name: &str) {
    let (instance, new) = (instance.to_string(), new_image(name, "child"));
    let making = tokio::spawn(async move { cloud.create_image(&instance, new, &|| {}).await });
    while between.hits() == 0 {
        assert!(!making.is_finished(), "{:?}", making.await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    making.abort();
}

#[tokio::test]
async fn of_a_failed_image_nothing_is_left() {
    let site = Site::new("snap", Settings::default()).await;
    let cloud = &site.cloud;
    let new = build_instance(&site, "snap-build");
    let server = stopped(cloud, new.clone()).await;
    let parent = cloud.create_image(&server, new_image("snap-parent", "parent"), &|| {}).await.unwrap();
    let rebuild = Rebuild {
        image: parent.id.clone(),
        user_data: "".into(),
        ssh_key: new.ssh_key.clone(),
        labels: new.labels.clone(),
    };
    cloud.rebuild(&server, rebuild).await.unwrap();
    cloud.wait_active(std::slice::from_ref(&server), deadline(), |_| {}).await.unwrap();
    cloud.stop(&server, false).await.unwrap();

    let between = Between::start(9292, "PATCH /v2/images/", "", Fate::Refused);
    let (through, credential) = site.through("image", &format!("http://127.0.0.1:{}/v2", between.port));
    through.create_image(&server, new_image("snap-child", "child"), &|| {}).await.unwrap_err();
    drop(credential);
    assert!(!names(&["image", "list"]).contains(&"snap-child".to_string()));

    let between = Between::start(9292, "PATCH /v2/images/", "", Fate::Silence);
    let (through, credential) = site.through("image", &format!("http://127.0.0.1:{}/v2", between.port));
    killed(through, &between, &server, "snap-child").await;
    drop(credential);
    // Nova gave it all the parent has.
    let left = cloud.find_image("snap-child").await.unwrap();
    assert_eq!(left.properties["kiln_recipe"], "unfinished");
    cloud.clear_build("other").await.unwrap();
    cloud.image(&left.id).await.unwrap();
    cloud.clear_build("snap").await.unwrap();
    assert!(cloud.image(&left.id).await.is_err());
    assert_eq!(cloud.image(&parent.id).await.unwrap().properties["kiln_recipe"], "parent");
    cloud.delete_image(&parent.id).await.unwrap();
    site.end().await;
}

#[tokio::test]
async fn of_a_copied_root_disk_nothing_is_left() {
    let root_disk = Some(RootDisk { size_gib: 1, volume_type: None });
    let site = Site::new("copy", Settings { root_disk, ..Settings::default() }).await;
    let cloud = &site.cloud;
    let server = stopped(cloud, build_instance(&site, "copy-build")).await;

    // Before the copy is uploaded, and before it is made.
    for (service, port, kind, version) in
        [("image", 9292, "PATCH /v2/images/", "v2"), ("block_storage", 8776, "POST /v3/volumes ", "v3")]
    {
        let between = Between::start(port, kind, "", Fate::Silence);
        let url = format!("http://127.0.0.1:{}/{version}", between.port);
        let (through, credential) = site.through(service, &url);
        killed(through, &between, &server, "copy-child").await;
        drop(credential);
        if service == "image" {
            let left = cloud.find_image("copy-child").await.unwrap();
            assert_eq!(left.properties["kiln_recipe"], "unfinished");
            cloud.clear_build("copy").await.unwrap();
            assert!(cloud.image(&left.id).await.is_err());
        }
    }
    assert_eq!(names(&["volume", "snapshot", "list"]), ["copy-child"]);
    // Its root disk cannot go with it now.
    cloud.delete(&server).await.unwrap();
    cloud.sweep("copy").await.unwrap();
    assert_eq!(names(&["volume", "snapshot", "list"]), Vec::<String>::new());
    assert_eq!(names(&["volume", "list"]), Vec::<String>::new());
    site.end().await;
}
