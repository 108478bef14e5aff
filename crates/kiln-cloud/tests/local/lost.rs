//! Answers that get lost: the work was done, the client tries again.

use std::fs;

use kiln_cloud::{Class, Error, NewNetwork, NewSecurityGroup, NewVolume};

use super::support::{MADE, Site, labels, root};

/// The next answer to this request does not arrive.
fn lose(request: &str) {
    let fault = format!(r#"{{"{request}": {{"fail": 1, "status": 503}}}}"#);
    fs::write(root().join("faults.json"), fault).unwrap();
}

fn is_conflict<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error { class: Class::Conflict, .. }))
}

#[tokio::test]
async fn what_was_made_before_the_answer_was_lost_is_ones_own() {
    let site = Site::new("t-lost").await;
    let cloud = &site.cloud;
    let labels = || labels("t-lost");

    let network =
        || NewNetwork { name: "t-lost-more".into(), cidr: None, labels: labels(), automatic: vec![] };
    lose("POST /v1/networks");
    let made = cloud.create_network(network()).await.unwrap();
    assert!(cloud.networks("t-lost").await.unwrap().contains(&made));
    assert!(is_conflict(&cloud.create_network(network()).await));

    let volume = |size_gib| NewVolume { name: "t-lost-state".into(), size_gib, labels: labels() };
    lose("POST /v1/volumes");
    let made = cloud.create_volume(volume(1)).await.unwrap();
    assert_eq!(cloud.volumes("t-lost").await.unwrap(), [made]);
    assert!(is_conflict(&cloud.create_volume(volume(1)).await));
    // Not what was asked for, so not one's own, however often one asks.
    lose("POST /v1/volumes");
    assert!(is_conflict(&cloud.create_volume(volume(2)).await));

    let group =
        || NewSecurityGroup { name: "t-lost-more".into(), labels: labels(), rules: vec![], without: vec![] };
    lose("POST /v1/security-groups");
    let made = cloud.create_security_group(group()).await.unwrap();
    assert!(cloud.security_groups("t-lost").await.unwrap().contains(&made));
    assert!(is_conflict(&cloud.create_security_group(group()).await));

    lose("POST /v1/instances");
    let made = cloud.create(vec![site.wanted("n1")]).await.remove(0).unwrap();
    MADE.lock().unwrap().push(made.id.clone());
    site.active(std::slice::from_ref(&made.id)).await;
    assert_eq!(cloud.instances("t-lost").await.unwrap().len(), 1);
    site.finish().await;
}
