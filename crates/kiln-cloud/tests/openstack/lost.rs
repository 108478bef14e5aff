//! Answers that get lost at the worst moment.

use std::time::Duration;

use kiln_cloud::InstanceStatus;
use kiln_cloud::openstack::Settings;

use crate::between::{Between, Fate};
use crate::support::{Site, deadline, openstack};

/// Something in between gives up while Nova is still at it: there must not be a second server.
#[tokio::test]
async fn a_server_that_comes_late_is_not_made_twice() {
    let site = Site::new("late", Settings::default()).await;
    let between = Between::start(8774, "POST /v2.1/servers ", "", Fate::Late(Duration::from_secs(1)));
    let (cloud, credential) = site.through("compute", &format!("http://127.0.0.1:{}/v2.1", between.port));
    let made = cloud.create(vec![site.wanted("l-0")]).await.remove(0).unwrap();
    cloud.wait_active(std::slice::from_ref(&made.id), deadline(), |_| {}).await.unwrap();
    assert_eq!(between.hits(), 1, "it was asked for once");
    assert_eq!(openstack(&["server", "list", "--name", "^l-0$"]).as_array().map(Vec::len), Some(1));
    drop(credential);
    site.end().await;
}

/// A guest takes its time to shut down, and the retry of a request whose answer was lost meets that.
#[tokio::test]
async fn a_stop_whose_answer_is_lost_is_waited_for() {
    let site = Site::new("halt", Settings::default()).await;
    let mut new = site.wanted("h-0");
    new.labels.insert("fake:stop_seconds".into(), "5".into());
    let made = site.cloud.create(vec![new]).await.remove(0).unwrap();
    site.cloud.wait_active(std::slice::from_ref(&made.id), deadline(), |_| {}).await.unwrap();
    let between = Between::start(8774, "POST /v2.1/servers/", "os-stop", Fate::AnswerLost);
    let (cloud, credential) = site.through("compute", &format!("http://127.0.0.1:{}/v2.1", between.port));
    let stopped = cloud.stop(&made.id, false).await.unwrap();
    assert_eq!(stopped.status, InstanceStatus::Stopped);
    assert_eq!(between.hits(), 2, "it was asked for again");
    drop(credential);
    site.end().await;
}
