//! The data of a volume stays, whatever becomes of its record.

use std::fs;

use kiln_cloud::NewVolume;
use rustix::process::{Signal, kill_process};

use super::daemon;
use super::support::{Site, labels, root};

#[tokio::test]
async fn a_volume_outlives_its_record() {
    let site = Site::new("t-kept").await;
    let volume = NewVolume { name: "t-kept-state".into(), size_gib: 1, labels: labels("t-kept") };
    let volume = site.cloud.create_volume(volume).await.unwrap();
    let record = root().join("state/volumes").join(format!("{}.json", volume.id));
    let file = root().join("volumes").join(&volume.id).join("precious");
    fs::write(&file, "data").unwrap();
    let restart = || kill_process(daemon(), Signal::KILL).unwrap();

    // A daemon that cannot read a record does not go on as if there were no such volume: people would get an empty one.
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() / 2]).unwrap();
    restart();
    let refused = site.cloud.volumes("t-kept").await.unwrap_err().to_string();
    assert_eq!(fs::read_to_string(&file).unwrap(), "data");
    fs::write(&record, whole).unwrap();
    assert!(refused.contains(&record.display().to_string()), "{refused}");
    assert_eq!(site.cloud.volumes("t-kept").await.unwrap(), std::slice::from_ref(&volume));

    // Without a record nobody knows whose it is.
    fs::remove_file(&record).unwrap();
    restart();
    assert!(site.cloud.volumes("t-kept").await.unwrap().is_empty());
    let aside = root().join("set-aside").join(&volume.id);
    assert_eq!(fs::read_to_string(aside.join("precious")).unwrap(), "data");
    fs::remove_dir_all(aside).unwrap();
    site.finish().await;
}
