//! File systems that Oracle serves.

use super::*;
use crate::{NewExport, NewExports, Served, Volume, VolumeStatus};

const CREATED: [(&str, bool); 2] = [("demo-home", false), ("demo-share", true)];

impl Site {
    fn exports(&self, all: &[Volume], root: &str) -> NewExports {
        let export = |(name, read_only): (&str, bool)| {
            let id = all.iter().find(|volume| volume.name == name).unwrap().id.clone();
            NewExport { id, name: name.into(), read_only }
        };
        NewExports {
            name: "demo".into(),
            labels: of_cluster(),
            network: self.network.id.clone(),
            security_groups: vec![self.group.clone()],
            root: root.parse().unwrap(),
            subnet: self.network.cidr,
            file_systems: CREATED.map(export).into(),
        }
    }

    async fn file_systems(&self) -> Vec<Volume> {
        for (name, _) in CREATED {
            let mut labels = of_cluster();
            labels.insert(labels::USED.into(), labels::USED_NO.into());
            self.cloud.create_file_system(name, labels).await.unwrap();
        }
        self.cloud.volumes("demo").await.unwrap()
    }
}

#[tokio::test]
async fn a_file_system_is_made_exported_and_deleted() {
    let site = Site::new().await;
    let made = site.file_systems().await;
    assert_eq!(made.len(), 2);
    assert!(made.iter().all(|v| v.served == Some(Served::default()) && v.never_used()), "{made:?}");
    assert_eq!(made[0].status, VolumeStatus::Usable);

    let served = site.cloud.export(site.exports(&made, "10.31.0.9")).await.unwrap();
    let there = site.cloud.volumes("demo").await.unwrap();
    for volume in &there {
        let at = served[&volume.id].clone();
        assert!(at.starts_with("10.31.0.") && at.ends_with(&format!(":/{}", volume.name)), "{at}");
        let root = Some("10.31.0.9".parse().unwrap());
        assert_eq!(volume.served, Some(Served { at: Some(at), root }));
        assert!(!volume.never_used(), "a node may have written to it");
    }
    // The one node before the others: the first that is for an address holds.
    assert_eq!(
        site.fake.access_of("/demo-home"),
        ["10.31.0.9 READ_WRITE NONE", "10.31.0.0/24 READ_WRITE ROOT"]
    );
    assert_eq!(
        site.fake.access_of("/demo-share"),
        ["10.31.0.9 READ_WRITE NONE", "10.31.0.0/24 READ_ONLY ROOT"]
    );
    // Its address is nobody else's.
    let taken = site.cloud.foreign_addresses(&site.network.id, "demo").await.unwrap();
    assert_eq!(taken.into_values().collect::<Vec<_>>(), ["demo"]);

    // The control node has moved.
    let again = site.cloud.export(site.exports(&made, "10.31.0.7")).await.unwrap();
    assert_eq!(again, served);
    assert_eq!(site.fake.access_of("/demo-home")[0], "10.31.0.7 READ_WRITE NONE");
    assert_eq!(site.fake.access_of("/demo-home").len(), 2);

    // Labels are kept there as on volumes.
    let label = Labels::from([("kiln_sleep".to_string(), "yes".to_string())]);
    site.cloud.label(Kind::Volume, &made[1].id, label).await.unwrap();
    assert_eq!(site.cloud.volumes("demo").await.unwrap()[1].labels["kiln_sleep"], "yes");

    // What exports them goes with the network; they stay, for a cluster of the same name to export again.
    site.cloud.sweep("other").await.unwrap();
    assert_eq!(site.fake.access_of("/demo-home").len(), 2, "another cluster's");
    site.cloud.sweep("demo").await.unwrap();
    assert_eq!(site.fake.access_of("/demo-home"), [""; 0]);
    let kept = site.cloud.volumes("demo").await.unwrap();
    assert!(kept.len() == 2 && kept.iter().all(|v| v.served == Some(Served::default())), "{kept:?}");
    site.cloud.export(site.exports(&made, "10.31.0.9")).await.unwrap();

    // Exported still: what exports it goes first.
    site.cloud.delete_volume(&made[0].id).await.unwrap();
    site.cloud.delete_volume(&made[0].id).await.unwrap();
    assert_eq!(site.cloud.volumes("demo").await.unwrap().len(), 1);
    site.cloud.sweep("demo").await.unwrap();
    site.clear().await;
}

/// At whatever step a run was cut off, the next one goes on, and nothing is there twice.
#[tokio::test]
async fn an_export_that_was_cut_off_is_completed() {
    let files = "POST /20171215/fileSystems";
    for step in ["mountTargets", "exports"] {
        let site = Site::new().await;
        for fault in [Fault::lose_answer(files), Fault::throttle(files), Fault::cut(files)] {
            site.fake.order(fault);
        }
        let made = site.file_systems().await;
        let step = format!("POST /20171215/{step}");
        site.fake.order(Fault::refuse(&step, 400, "InvalidParameter", "no"));
        site.cloud.export(site.exports(&made, "10.31.0.9")).await.unwrap_err();
        site.fake.order(Fault::lose_answer(&step));
        site.cloud.export(site.exports(&made, "10.31.0.9")).await.unwrap();
        assert_eq!(site.fake.faults_left(), [""; 0]);
        let count = |kind: &str| site.fake.left().iter().filter(|what| what.starts_with(kind)).count();
        assert_eq!(["fileSystems ", "mountTargets ", "exports "].map(count), [2, 1, 2], "{step}");
        for fault in ["exports", "mountTargets", "fileSystems"] {
            let path = format!("DELETE /20171215/{fault}");
            site.fake.order(Fault::lose_answer(&path));
            site.fake.order(Fault::refuse(&path, 409, "IncorrectState", "not yet"));
        }
        site.cloud.sweep("demo").await.unwrap();
        site.clear().await;
    }
}

/// Most clusters have none, and people who may not see it.
#[tokio::test]
async fn a_cluster_without_it_needs_no_rights_for_it() {
    let site = Site::new().await;
    let state = NewVolume { name: "demo-state".into(), size_gib: 50, labels: of_cluster() };
    site.cloud.create_volume(state).await.unwrap();
    site.fake.close_file_storage();
    assert_eq!(site.cloud.volumes("demo").await.unwrap().len(), 1);
    site.cloud.sweep("demo").await.unwrap();
    let refused = site.cloud.create_file_system("demo-home", of_cluster()).await.unwrap_err();
    assert_eq!(refused.class, Class::NoRights, "{refused}");
    site.clear().await;
}
