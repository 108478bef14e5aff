use super::*;
use crate::{Class, Error, InstanceStatus, Labels, NewInstance};
use kiln_wire::labels;

fn new(name: &str) -> NewInstance {
    NewInstance {
        name: name.into(),
        image: "old".into(),
        flavor: "small".into(),
        zone: None,
        network: "n".into(),
        address: None,
        public: false,
        security_groups: vec![],
        user_data: "".into(),
        ssh_key: String::new(),
        labels: Labels::from([(labels::CLUSTER.into(), "c".into())]),
        volumes: vec![],
        disk_gib: None,
        request: None,
    }
}

#[tokio::test(start_paused = true)]
async fn builds_end_on_the_clock() {
    let memory = Memory::new("builds");
    let cloud = Cloud::at(&memory.access()).unwrap();
    cloud.create(vec![new("a")]).await.remove(0).unwrap();
    assert_eq!(cloud.instance("a").await.unwrap().status, InstanceStatus::Building);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cloud.instances("c").await.unwrap()[0].status, InstanceStatus::Active);
    assert!(cloud.create(vec![new("a")]).await.remove(0).unwrap_err().is_conflict());
    assert_eq!((memory.calls(), memory.listings()), (vec!["create 1".to_string(); 2], 1));
}

#[tokio::test(start_paused = true)]
async fn calls_fail_as_often_as_asked() {
    let memory = Memory::new("faults");
    let cloud = memory.cloud();
    memory.fail("create", Fault::times(1, Error::busy(None)));
    assert!(cloud.create(vec![new("a")]).await.remove(0).unwrap_err().is_temporary());
    cloud.create(vec![new("a")]).await.remove(0).unwrap();
    memory.fail("list", Fault::always(Error::failed("the database is away")));
    assert_eq!(cloud.instances("c").await.unwrap_err().class, Class::Failed);
    memory.heal("list");
    memory.hide("a");
    assert!(cloud.instances("c").await.unwrap().is_empty() && cloud.instance("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_wait_while_they_are_held() {
    let memory = Memory::new("holds");
    let cloud = memory.cloud();
    cloud.create(vec![new("a"), new("b")]).await;
    memory.hold("delete a");
    let deleting = tokio::spawn({
        let cloud = cloud.clone();
        async move { cloud.delete("a").await }
    });
    cloud.delete("b").await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(memory.has("a") && !memory.has("b"));
    memory.release("delete a");
    deleting.await.unwrap().unwrap();
    assert!(!memory.has("a"));
}
