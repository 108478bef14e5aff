//! Volumes and what they hold.

use kiln_wire::bundle::MountSource;

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

fn on_oracle(home: &str) -> String {
    let cloud = "kind = \"oci\"\ncompartment = \"ocid1.compartment.oc1..a\"\nsubnet = \"10.8.0.0/24\"";
    let file = FILE.replace("kind = \"local\"", cloud).replace("nodes =", "flavor = \"medium\"\nnodes =");
    let image = "[image.default]\nprebuilt = \"debian\"\n[control]\nflavor = \"medium\"";
    format!("{file}{image}\n[volumes]\nhome = \"{home}\"\n")
}

/// Home directories and share are made before the control node, exported once its address is known, and before other nodes.
#[test]
fn file_systems_of_the_cloud() {
    let spec = spec(&on_oracle("file_storage"));
    let made = plan(&spec, &nothing(), &built("old")).unwrap();
    let stages: Vec<String> = lines(&made).into_iter().filter(|line| line.contains("file system")).collect();
    assert_eq!(
        stages,
        [
            "+ file system demo-home",
            "+ file system demo-share",
            "~ file systems: export demo-home, demo-share to the nodes"
        ]
    );
    let stage = |wanted: &str| {
        let of = |action: &&Action| action.to_string().contains(wanted);
        made.actions.iter().find(of).unwrap_or_else(|| panic!("no {wanted}")).stage()
    };
    assert!(stage("file system demo-home") < stage("+ control"));
    assert!(stage("+ control") < stage("~ file systems") && stage("~ file systems") < stage("+ compute"));
    let attached = made.actions.iter().find_map(|action| match action {
        Action::CreateInstances { group, instances, .. } if group == "control" => {
            Some(&instances.0[0].volumes)
        }
        _ => None,
    });
    assert_eq!(attached.unwrap().len(), 2, "state and backup: {attached:?}");

    let served = |at: Option<&str>, root: &str| {
        let mut observed = whole(&spec);
        for volume in observed.volumes.iter_mut().filter(|v| ["demo-home", "demo-share"].contains(&&*v.name))
        {
            let at = at.map(|at| format!("{at}:/{}", volume.name));
            volume.served = Some(kiln_cloud::Served { at, root: root.parse().ok() });
        }
        for volume in observed.volumes.iter_mut().filter(|v| v.served.is_none()) {
            volume.size_gib = 50;
        }
        for instance in observed.instances.iter_mut().filter(|i| i.name == "control") {
            instance.address = Some("10.8.0.4".parse().unwrap());
        }
        let noted = (labels::CONTROL_ADDRESS.to_string(), "10.8.0.4".to_string());
        observed.volumes.iter_mut().for_each(|v| v.labels.extend([noted.clone()]));
        observed
    };
    let planned = |observed: &Observed| lines(&plan(&spec, observed, &built("old")).unwrap());
    let export = ["~ file systems: export demo-home, demo-share to the nodes"];
    assert_eq!(planned(&served(Some("10.8.0.9"), "10.8.0.4")), [""; 0]);
    assert_eq!(planned(&served(None, "")), export, "what exports them went with the network");
    assert_eq!(planned(&served(Some("10.8.0.9"), "10.8.0.3")), export, "control has moved");
    let known = share(&spec, &served(Some("10.8.0.9"), "10.8.0.4"));
    assert_eq!(known, Ref::Known(MountSource::Nfs3("10.8.0.9:/demo-share".into())));

    // A disk does not become a file system, nor the other way round.
    let refused = plan(&spec, &whole(&spec), &built("old")).unwrap_err();
    assert_eq!(refused.to_string(), "demo-home is a volume, and the file has it on File Storage");
    let back = super::spec(&on_oracle("manage"));
    let refused = plan(&back, &served(Some("10.8.0.9"), "10.8.0.4"), &built("old")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "demo-home is a file system of File Storage, and the file has it on a volume"
    );
}
