//! A copy of a cloud's root, made while the cloud is at work.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::process::Command;

use kiln_cloud::Cloud;

use super::support::{Site, inside, program, root};

#[tokio::test]
async fn does_not_reach_the_original() {
    let site = Site::new("t-copy").await;
    let made = site.boot(vec![site.wanted("n1")]).await;
    let copy = root().join("copied-root");
    let _ = fs::remove_dir_all(&copy);
    fs::DirBuilder::new().mode(0o700).create(&copy).unwrap();
    // All but the layers and volumes, which are large.
    for name in ["api.sock", "port", "metadata-port", "daemon.lock", "place", "state"] {
        let copied = Command::new("cp").arg("-a").arg(root().join(name)).arg(&copy).status().unwrap();
        assert!(copied.success(), "{name}");
    }
    let cloud = Cloud::local_with(copy.clone(), program());
    let refused = cloud.instances("t-copy").await.unwrap_err().to_string();
    assert!(refused.contains("is a copy of the local cloud in"), "{refused}");
    assert!(cloud.delete(&made[0].id).await.is_err());
    fs::remove_dir_all(&copy).unwrap();

    let there = site.cloud.instances("t-copy").await.unwrap();
    assert_eq!(there.len(), 1, "the original has its instance");
    inside(&made[0].id, &["true"]);
    site.finish().await;
}
