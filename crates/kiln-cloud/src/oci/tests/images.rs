//! Images, disks on their way to become images, and what is left of either.

use std::collections::BTreeMap;

use super::*;

#[tokio::test]
async fn an_image_keeps_properties_of_any_length() {
    let site = Site::new().await;
    let builder = site.running("builder").await;
    site.cloud.stop(&builder.id, false).await.unwrap();
    let manifest = "m".repeat(5000);
    let new = NewImage {
        name: "kiln-x".into(),
        labels: Labels::new(),
        properties: [("kiln_recipe", "abc"), ("kiln_manifest", manifest.as_str())]
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .into(),
    };
    let made = site.cloud.create_image(&builder.id, new.clone(), &|| {}).await.unwrap();
    assert_eq!(made.properties, new.properties);
    // Seen by others, who have not made it.
    let other = site.fake.cloud().unwrap();
    assert_eq!(other.find_image("kiln-x").await.unwrap().properties, new.properties);
    let stands = Labels::from([("kiln_stands_for".to_string(), "abc".to_string())]);
    site.cloud.label(Kind::Image, &made.id, stands).await.unwrap();
    assert_eq!(site.cloud.image(&made.id).await.unwrap().properties["kiln_stands_for"], "abc");
    let foreign = site.cloud.delete_image(&site.images[0]).await.unwrap_err();
    assert!(foreign.to_string().ends_with("is not Kiln's"), "{foreign}");
    site.cloud.delete_image(&made.id).await.unwrap();
    site.clear().await;
}

/// As many as Oracle takes beside Kiln's marks.
#[tokio::test]
async fn tags_of_others_outlast_a_promotion() {
    let site = Site::new().await;
    let Cloud::Oci(driver) = &site.cloud else { unreachable!() };
    let builder = site.running("builder").await;
    site.cloud.stop(&builder.id, false).await.unwrap();
    let properties: BTreeMap<String, String> =
        ["kiln_image", "kiln_manifest", "kiln_recipe"].map(|key| (key.into(), key.to_uppercase())).into();
    let new = NewImage { name: "kiln-x".into(), labels: Labels::new(), properties };
    let made = site.cloud.create_image(&builder.id, new.clone(), &|| {}).await.unwrap();
    // As somebody does it in Oracle's console: all tags are written.
    let path = format!("/images/{}", made.id);
    let tags = async || {
        let answer = driver.client.send(&Call::get(Core, path.as_str())).await.unwrap();
        answer.read::<serde_json::Value>("an image").unwrap()["freeformTags"].clone()
    };
    let mut all = tags().await;
    for number in 0..7 {
        all[format!("cost-centre-{number}")] = "physics".into();
    }
    let body = serde_json::json!({ "freeformTags": all });
    driver.client.send(&Call::put(Core, path.as_str(), &body)).await.unwrap();

    let stands = ("kiln_stands_for".to_string(), "abc".to_string());
    site.cloud.label(Kind::Image, &made.id, Labels::from([stands.clone()])).await.unwrap();
    let after = tags().await;
    for number in 0..7 {
        assert_eq!(after[format!("cost-centre-{number}")], "physics", "{after}");
    }
    // Nothing of Kiln's is lost either, wherever it has found its place.
    let wanted: BTreeMap<_, _> = new.properties.into_iter().chain([stands]).collect();
    assert_eq!(site.cloud.image(&made.id).await.unwrap().properties, wanted);
    site.cloud.delete_image(&made.id).await.unwrap();
    site.clear().await;
}

fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

/// Of several parts.
fn disk(byte: u8) -> tempfile::NamedTempFile {
    file(&[b"QFI\xfb".as_slice(), &[byte; 4500]].concat())
}

fn new_image(name: &str) -> NewImage {
    let properties = [("kiln_manifest".to_string(), "m".repeat(5000))].into();
    NewImage { name: name.into(), labels: Labels::new(), properties }
}

#[tokio::test]
async fn a_disk_is_uploaded_in_parts_and_imported_once() {
    let site = Site::new().await;
    let raw = site.cloud.upload_image(new_image("disk"), file(b"raw").path()).await.unwrap_err();
    assert!(raw.to_string().contains("Oracle imports disks in qcow2"), "{raw}");
    let disk_a = disk(1);
    for fault in ["PUT /n/fakenamespace/b/", "POST /n/fakenamespace/b/"] {
        site.fake.order(Fault::lose_answer(fault));
        site.fake.order(Fault::throttle(fault));
    }
    site.fake.take_calls();
    let made = site.cloud.upload_image(new_image("disk"), disk_a.path()).await.unwrap();
    assert_eq!(made.properties["kiln_manifest"].len(), 5000);
    let calls = site.fake.take_calls();
    let parts = calls.iter().filter(|call| call.starts_with("PUT n/") && call.contains("/u/")).count();
    assert!(parts >= 5, "{calls:?}");
    let left = site.fake.left();
    assert!(!left.iter().any(|what| what.contains("uploads")), "the disk is only on its way there: {left:?}");
    // Told of it, Oracle boots it on other shapes, too.
    let wanted = NewInstance { image: made.id.clone(), ..site.wanted("n-0") };
    let up = site.create(wanted).await.unwrap();
    site.cloud.wait_active(from_ref(&up.id), deadline(), |_| {}).await.unwrap();
    let again = site.cloud.upload_image(new_image("disk"), disk_a.path()).await.unwrap();
    assert_eq!(again.id, made.id);
    let other = site.cloud.upload_image(new_image("disk"), disk(2).path()).await.unwrap_err();
    assert_eq!(other.class, Class::Conflict, "{other}");
    site.cloud.delete_image(&made.id).await.unwrap();
    site.clear().await;
}

/// At every step of an upload that fails, nothing stays behind but what the next attempt finds.
#[tokio::test]
async fn an_upload_that_fails_leaves_nothing() {
    let site = Site::new().await;
    let disk = disk(1);
    for step in ["PUT /n/fakenamespace/b/", "POST /20160918/images", "PUT /20160918/images/"] {
        site.fake.order(Fault::refuse(step, 403, "NotAuthorized", "not today"));
        let failed = site.cloud.upload_image(new_image("disk"), disk.path()).await.unwrap_err();
        assert_eq!(failed.class, Class::NoRights, "{step}: {failed}");
        let left = site.fake.left();
        let of_images =
            |what: &&String| ["images", "objects", "uploads", "buckets"].iter().any(|k| what.starts_with(k));
        assert_eq!(left.iter().filter(of_images).count(), 0, "{step}: {left:?}");
    }
    let made = site.cloud.upload_image(new_image("disk"), disk.path()).await.unwrap();
    site.cloud.delete_image(&made.id).await.unwrap();
    site.clear().await;
}

/// What is in no listing of the cluster's is found all the same, and what is not the cluster's stays.
#[tokio::test]
async fn a_sweep_leaves_nothing_of_the_cluster() {
    let site = Site::new().await;
    let Cloud::Oci(driver) = &site.cloud else { unreachable!() };
    let call = async |call: Call<'_>| driver.client.send(&call).await.unwrap();
    let made = site.running("n-0").await;
    // Copies of consoles, of the cluster and of somebody else.
    let tags = serde_json::json!({ labels::CLUSTER: "demo" });
    for tags in [&tags, &serde_json::json!({})] {
        let body = serde_json::json!({ "instanceId": made.id, "freeformTags": tags });
        call(Call::post(Core, "/instanceConsoleHistories", &body)).await;
    }
    // Addresses that somebody has reserved, for the cluster and for something else.
    for (name, tags) in [("door", &tags), ("other", &serde_json::json!({}))] {
        let body = serde_json::json!({ "compartmentId": Fake::settings().compartment, "lifetime": "RESERVED",
                                       "displayName": name, "freeformTags": tags });
        call(Call::post(Core, "/publicIps", &body)).await;
    }
    // Somebody has terminated the node and kept its boot volume.
    let path = format!("/instances/{}?preserveBootVolume=true", made.id);
    call(Call::delete(Core, path)).await;
    site.cloud.delete(&made.id).await.unwrap();
    // An upload that was cut off, a disk, and properties of an image that is gone.
    driver.ensure_bucket().await.unwrap();
    let bucket = driver.bucket_path().await.unwrap();
    let body = serde_json::json!({ "object": "uploads/one" });
    call(Call::post(Objects, format!("{bucket}/u"), &body)).await;
    for object in ["uploads%2Ftwo", "uploads%2Fthree", "properties%2Focid1.image.oc1.phx.gone"] {
        call(Call::put_bytes(Objects, format!("{bucket}/o/{object}"), b"x")).await;
    }
    let before = site.fake.left();
    for what in [
        "bootVolumes boot volume",
        "publicIps door",
        "uploads uploads/one",
        "objects uploads/two",
        "objects properties/",
    ] {
        assert!(before.iter().any(|left| left.starts_with(what)), "{what}: {before:?}");
    }
    site.cloud.sweep("demo").await.unwrap();
    let left = site.fake.left();
    assert!(left.contains(&"uploads uploads/one".into()), "it may be under way: {left:?}");
    assert!(
        !left.iter().any(|what| what.starts_with("bootVolumes") || what.contains("properties/")),
        "{left:?}"
    );
    site.fake.age_objects();
    site.cloud.sweep("demo").await.unwrap();
    let left = site.fake.left();
    let of_cluster = |what: &&String| {
        ![
            "vcns",
            "subnets",
            "routeTables",
            "securityLists",
            "internetGateways",
            "natGateways",
            "networkSecurityGroups",
        ]
        .iter()
        .any(|kind| what.starts_with(kind))
    };
    assert_eq!(
        left.iter().filter(of_cluster).collect::<Vec<_>>(),
        ["instanceConsoleHistories console history", "publicIps other"]
    );
}
