//! `kiln image upload`: an exported disk, or an image of the local cloud, arrives with its manifest, and is an image like one that
//! was built in the cloud.

use serde_json::{Value, json};

use crate::cluster_dir::{ClusterDir, printed};
use crate::lab::{Lab, attempt, openstack};
use crate::stand_in::{local_cloud, local_root};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\nimage = \"newer\"\n\n\
    [image.newer]\nprebuilt = \"shipped-24\"\n";

/// Of a disk with this Slurm.
pub fn description(slurm: &str) -> Value {
    json!({
        "format": 1, "image": "default", "disk_bytes": 700 << 20, "sha256": "-",
        "manifest": {
            "format": 2, "recipe": format!("recipe of {slurm}"), "source": "default-0", "family": "debian",
            "built": "2026-01-02T03:04:05Z", "kiln": "0.1.0",
            "packages": [
                { "name": "slurm-client", "version": slurm },
                // Longer than a property of an image can be.
                { "name": "x".repeat(70_000), "version": "1" },
            ],
        },
    })
}

#[test]
fn a_disk_arrives_with_its_manifest() {
    let lab = Lab::new("shipped", GROUPS);
    attempt("demo", &["image delete shipped-22", "image delete shipped-24"]);
    for (name, slurm) in [("shipped-22", "22.05.8-4"), ("shipped-24", "24.11.5-4")] {
        std::fs::write(lab.path(&format!("{name}.raw")), vec![7; 100_000]).unwrap();
        std::fs::write(lab.path(&format!("{name}.raw.kiln.json")), description(slurm).to_string()).unwrap();
    }
    let upload = |name: &str, more: &[&str]| {
        let path = lab.path(&format!("{name}.raw"));
        let words = [&["image", "upload", path.to_str().unwrap()], more].concat();
        lab.try_kiln(&words)
    };
    let settings =
        ["--firmware", "uefi", "--machine-type", "q35", "--disk-bus", "scsi", "--admin-user", "root"];
    let more = ["--visibility", "shared", "--property", "hw_rng_model=virtio"];
    let done = upload("shipped-22", &[&settings[..], &more].concat());
    assert!(done.status.success(), "{}", printed(&done));
    assert!(upload("shipped-24", &["--min-disk", "3"]).status.success());

    // As others see it.
    let shown = openstack(&["image show shipped-22", "image show shipped-24"]);
    assert_eq!([&shown[0]["visibility"], &shown[0]["min_disk"]], [&json!("shared"), &json!(1)]);
    assert_eq!(shown[1]["min_disk"], 3);
    let properties = &shown[0]["properties"];
    let wanted = [
        ("hw_firmware_type", "uefi"),
        ("hw_machine_type", "q35"),
        ("hw_disk_bus", "scsi"),
        ("os_admin_user", "root"),
        ("hw_rng_model", "virtio"),
        ("kiln_image", "default"),
        ("kiln_recipe", "recipe of 22.05.8-4"),
    ];
    for (name, value) in wanted {
        assert_eq!(properties[name], value, "{name}");
    }
    // As Kiln sees it.
    let manifest = lab.json(&["image", "show", "shipped-22"]);
    assert_eq!(manifest["packages"][0], description("22.05.8-4")["manifest"]["packages"][0]);
    assert_eq!(manifest["packages"].as_array().unwrap().len(), 2);
    let no_disk = printed(&lab.try_kiln(&["image", "check", "shipped-22"]));
    assert!(no_disk.contains("no ext4 file system of the image has a system on it"), "{no_disk}");
    assert!(no_disk.contains("--root"), "{no_disk}");
    lab.edit("prebuilt = \"image-a\"", "prebuilt = \"shipped-22\"");
    let plan = lab.try_kiln(&["plan"]);
    let said = printed(&plan);
    assert!(said.contains("standard has Slurm 24.11.5") && said.contains("22.05.8"), "{said}");
    lab.edit("prebuilt = \"shipped-24\"", "prebuilt = \"shipped-22\"");
    lab.kiln(&["plan"]);

    // Once more is the same; another disk under its name is refused.
    let again = upload("shipped-22", &[]);
    assert!(again.status.success(), "{}", printed(&again));
    std::fs::write(lab.path("shipped-22.raw.kiln.json"), description("23.11.4").to_string()).unwrap();
    let refused = printed(&upload("shipped-22", &[]));
    assert!(refused.contains("image shipped-22 exists already, with other content"), "{refused}");
    std::fs::write(lab.path("shipped-22.raw.kiln.json"), "{").unwrap();
    let refused = printed(&upload("shipped-22", &[]));
    assert!(refused.contains("shipped-22.raw.kiln.json does not describe a disk"), "{refused}");

    for name in ["shipped-22", "shipped-24"] {
        lab.kiln(&["image", "delete", "--yes", "--force", name]);
    }
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

/// The plain image is enough: what is built on others is exported in the same way.
const LOCAL: &str = "[cluster]\nname = \"shipper\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n\
    [image.debian-bookworm]\n[image.debian-bookworm.properties]\nfirmware = \"uefi\"\nmachine_type = \"q35\"\n\
    other = { hw_rng_model = \"virtio\" }\n";

#[test]
fn an_image_of_the_local_cloud_arrives() {
    let mut lab = Lab::new("dock", "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n");
    lab.undo_with("demo", &["image delete shipped-plain"]);
    for dir in ["local", "tmp"] {
        std::fs::create_dir(lab.path(dir)).unwrap();
    }
    let temporary = lab.path("tmp");
    lab.environment.extend([
        ("KILN_LOCAL_ROOT".to_string(), local_root().display().to_string()),
        ("TMPDIR".to_string(), temporary.display().to_string()),
    ]);
    std::fs::write(lab.path("local/cluster.toml"), LOCAL).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { local_cloud().source_image("bookworm", &|_| {}).await }).unwrap();
    let upload = |from: &str, more: &[&str]| {
        let from = lab.path(from);
        let words = ["image", "upload", "debian-bookworm", "--from", from.to_str().unwrap()];
        lab.try_kiln(&[&words, more].concat())
    };
    let refused = printed(&upload("cluster.toml", &[]));
    assert!(refused.contains("is not the file of a local cloud"), "{refused}");

    let done = upload("local/cluster.toml", &["--name", "shipped-plain", "--machine-type", "pc"]);
    assert!(done.status.success(), "{}", printed(&done));
    let shown = openstack(&["image show shipped-plain"]).remove(0);
    assert_eq!([&shown["status"], &shown["disk_format"]], ["active", "qcow2"]);
    let properties = &shown["properties"];
    // What the file says, and an option that counts more.
    let wanted = [("hw_firmware_type", "uefi"), ("hw_rng_model", "virtio"), ("hw_machine_type", "pc")];
    for (name, value) in wanted {
        assert_eq!(properties[name], value, "{name}");
    }
    let manifest = lab.json(&["image", "show", "shipped-plain"]);
    assert_eq!(manifest["descent"][0]["image"], "debian-bookworm", "{}", manifest["descent"]);
    let packages = manifest["packages"].as_array().unwrap();
    assert!(packages.iter().any(|package| package["name"] == "linux-image-cloud-amd64"), "no kernel");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "the disk is gone");

    // What is found in the image from here is what is found in it where it was made: a plain image has no service users.
    let checked = |lab: &ClusterDir, image: &str| {
        let output = lab.try_kiln(&["--json", "image", "check", image]);
        assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["faults"].clone()
    };
    let mut local = ClusterDir::at(lab.path("local"));
    local.environment.clone_from(&lab.environment);
    let rows = local.json(&["image", "list"]);
    let is_disk = |row: &&Value| row["name"].as_str().is_some_and(|name| name.contains("-disk-"));
    let disk = rows.as_array().unwrap().iter().find(is_disk).unwrap()["name"].as_str().unwrap().to_string();
    let found = checked(&lab, "shipped-plain");
    assert!(found.to_string().contains("/etc/passwd: slurm"), "{found}");
    assert_eq!(found, checked(&local, &disk));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left of the download");

    lab.kiln(&["image", "delete", "--yes", "shipped-plain"]);
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
