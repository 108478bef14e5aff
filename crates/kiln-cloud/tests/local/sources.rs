//! Source images come and go; what was made from them stays.

use std::fs;

use kiln_cloud::{Class, Cloud, Error, NewImage, NewInstance};

use super::support::{Site, boot_id, inside, labels, program, root, suite};

#[tokio::test]
async fn a_source_image_can_be_deleted() {
    let site = Site::new("t-source").await;
    // A newer program makes for a source image of its own, on the same system.
    let newer = root().join("newer-program");
    fs::copy(program(), &newer).unwrap();
    let cloud = Cloud::local_with(root(), newer.clone());
    let source = cloud.source_image(&suite(), &|_| {}).await.unwrap();
    assert_ne!(source.id, site.image.id);
    let listed = site.cloud.images().await.unwrap();
    for id in [&source.id, &site.image.id] {
        // The superseded one too: it was handed out a moment ago.
        let image = listed.iter().find(|i| i.id == *id).unwrap();
        assert!(image.properties.contains_key("kiln_source"));
    }

    let of = |image: &str, name: &str| NewInstance { image: image.into(), ..site.wanted(name) };
    let builder = site.boot(vec![of(&source.id, "builder")]).await.remove(0);
    inside(&builder.id, &["touch", "/root/baked"]);
    cloud.stop(&builder.id, false).await.unwrap();
    let new = NewImage { name: "baked".into(), labels: labels("t-source"), properties: [].into() };
    let baked = cloud.create_image(&builder.id, new, &|| {}).await.unwrap();
    cloud.delete(&builder.id).await.unwrap();

    cloud.delete_image(&source.id).await.unwrap();
    assert!(matches!(
        cloud.image(&source.id).await,
        Err(Error { class: Class::NotFound { kind: "image" }, .. })
    ));
    let made = site.boot(vec![of(&baked.id, "n1"), of(&site.image.id, "n2")]).await;
    inside(&made[0].id, &["ls", "/root/baked", "/usr/local/bin/kiln"]);
    inside(&made[1].id, &["ls", "/usr/local/bin/kiln"]);
    assert!(boot_id(&made[1].id).is_some());

    // With the last that use them, the program's layer and the baked one go; the system stays.
    cloud.delete(&made[0].id).await.unwrap();
    let layers = || fs::read_dir(root().join("layers")).unwrap().count();
    let before = layers();
    cloud.delete_image(&baked.id).await.unwrap();
    assert_eq!(layers(), before - 2);
    site.finish().await;
    fs::remove_file(newer).unwrap();
}
