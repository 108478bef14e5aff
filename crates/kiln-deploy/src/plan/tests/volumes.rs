//! Volumes and what they hold.

use super::*;

#[test]
fn volumes_grow_and_do_not_shrink() {
    let sized = |size: &str| spec(&format!("{FILE}[volumes]\nhome = {{ size = \"{size}\" }}\n"));
    let observed = whole(&sized("10 GiB"));
    assert_eq!(plan(&sized("10 GiB"), &observed, &built("old")).unwrap().actions, []);
    let grown = plan(&sized("12 GiB"), &observed, &built("old")).unwrap();
    assert_eq!(lines(&grown), ["~ volume demo-home: extend, 10 -> 12 GiB"]);
    assert!(!grown.is_destructive());
    let backup = spec(&format!("{FILE}[backup]\nsize = \"20 GiB\"\n"));
    let grown = plan(&backup, &observed, &built("old")).unwrap();
    assert_eq!(lines(&grown), ["~ volume demo-backup: extend, 10 -> 20 GiB"]);
    let refused = plan(&sized("9 GiB"), &observed, &built("old")).unwrap_err();
    assert_eq!(refused.to_string(), "volume demo-home has 10 GiB; it cannot shrink to 9 GiB");
}

/// Labels say that it was used, or say nothing, as on volumes of older releases; or an instance has it now.
#[test]
fn a_volume_that_may_hold_data_is_never_recreated() {
    let spec = spec(FILE);
    let rows = [(Some(labels::USED_YES), false), (None, false), (Some(labels::USED_NO), true)];
    for (used, attached) in rows {
        let mut observed = whole(&spec);
        let volume = &mut observed.volumes[0];
        volume.status = VolumeStatus::Error;
        volume.labels.extend(used.map(|used| (labels::USED.to_string(), used.to_string())));
        volume.attached_to.extend(attached.then(|| "id-control".to_string()));
        let refused = plan(&spec, &observed, &built("old")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the cloud reports an error for volume demo-state (state), which has been in use and may hold data"
        );
        assert!(refused.hint().unwrap().starts_with("Kiln does not delete it."));
    }
}

/// Created before clusters had that volume.
#[test]
fn a_control_node_without_the_volume_for_backups_is_told_of() {
    let spec = spec(FILE);
    let mut observed = whole(&spec);
    assert!(control_has_backup_volume(&spec, &observed));
    observed.volumes.retain(|volume| volume.name != "demo-backup");
    assert!(!control_has_backup_volume(&spec, &observed));
    let planned = plan(&spec, &observed, &built("old")).unwrap();
    assert_eq!(lines(&planned), ["+ volume demo-backup (10 GiB)"]);
    let note = "control: has no volume demo-backup until its instance is recreated; backups are kept on the state volume";
    assert_eq!(planned.notes, [note]);
    observed.instances.retain(|instance| instance.name != "control");
    assert_eq!(plan(&spec, &observed, &built("old")).unwrap().notes, [""; 0], "it is created with it");
}
