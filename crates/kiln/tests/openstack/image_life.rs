//! What becomes of images in Glance: one is promoted, and those that nothing needs are deleted. They are made by the official client
//! with the properties of a build, because nothing is inside of them that matters here.

use kiln_image::Recipe;
use serde_json::{Value, json};

use crate::lab::{Lab, attempt, openstack, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\nimage = \"shelf\"\n\n\
    [image.shelf]\nsource = \"default\"\nroles = [\"compute\"]\n";

const NAMES: [&str; 4] = ["shelf-first", "shelf-trial", "shelf-older", "shelf-theirs"];

/// As a build leaves it.
fn make(lab: &Lab, name: &str, recipe: &str, packages: &[&str]) {
    let packages: Vec<Value> =
        packages.iter().map(|p| json!({ "name": p, "version": "22.05.8-4" })).collect();
    let manifest = json!({
        "format": 2, "recipe": recipe, "source": "image-a", "family": "debian", "kiln": "0.1.0",
        "built": "2026-01-02T03:04:05Z", "packages": packages,
    });
    let id = std::fs::read_to_string(lab.path(".kiln/secrets/cluster-id")).unwrap();
    let disk = lab.path("disk.raw");
    std::fs::write(&disk, vec![7; 4096]).unwrap();
    let properties = [
        ("kiln_image", "shelf"),
        ("kiln_recipe", recipe),
        ("kiln_built_for", id.trim()),
        ("kiln_manifest", &manifest.to_string()),
    ];
    let properties = properties.map(|(key, value)| format!("--property '{key}={value}'")).join(" ");
    let command = "image create --disk-format raw --container-format bare";
    openstack(&[&format!("{command} --file {} {properties} {name}", disk.display())]);
}

/// Those of this test that Glance has, by the official client.
fn there() -> Vec<String> {
    let rows = openstack(&["image list"]).remove(0);
    let names = rows.as_array().unwrap().iter().filter_map(|row| row["Name"].as_str());
    let mut names: Vec<String> = names.filter(|name| NAMES.contains(name)).map(String::from).collect();
    names.sort();
    names
}

fn stands_for(name: &str) -> Option<String> {
    let shown = openstack(&[&format!("image show {name}")]).remove(0);
    shown["properties"]["kiln_stands_for"].as_str().map(String::from)
}

/// The image that the file's is now.
fn in_file(lab: &Lab) -> String {
    let rows = lab.json(&["image", "list"]);
    let row = rows.as_array().unwrap().iter().find(|row| row["in_file"] == "shelf").cloned();
    row.unwrap_or_else(|| panic!("none in {rows}"))["name"].as_str().unwrap().to_string()
}

/// Why an image stays; `None`: it goes.
fn kept(verdicts: &Value, name: &str) -> Option<String> {
    let verdict = verdicts.as_array().unwrap().iter().find(|verdict| verdict["name"] == name);
    let verdict = verdict.unwrap_or_else(|| panic!("no {name} in {verdicts}"));
    verdict["kept"].as_str().map(String::from)
}

#[test]
fn images_are_promoted_and_deleted_when_nothing_needs_them() {
    let lab = Lab::new("shelf", GROUPS);
    let remove = NAMES.map(|name| format!("image delete {name}"));
    let remove: Vec<&str> = remove.iter().map(String::as_str).collect();
    lab.undo_with("demo", &remove);
    // It makes the cluster's id.
    lab.kiln(&["secrets", "list"]);
    let spec = kiln_spec::parse(&lab.read_file(), "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let recipe = Recipe::of(&spec, "shelf").unwrap();
    let digest = recipe.digest();
    let mut packages: Vec<&str> = recipe.packages.iter().map(String::as_str).collect();
    packages.push("slurm-client");
    make(&lab, "shelf-first", &digest, &packages);
    make(&lab, "shelf-older", "older", &packages);
    make(&lab, "shelf-theirs", "older", &packages);
    packages.push("hello");
    make(&lab, "shelf-trial", &digest, &packages);
    tell(
        "demo",
        &[
            "image set --property kiln_built_for=another shelf-theirs",
            "image set --property kiln_test=yes shelf-trial",
        ],
    );
    lab.kiln(&["apply", "--yes"]);
    let node = |lab: &Lab| {
        let hosts = lab.hosts();
        hosts.into_iter().find(|host| host["name"] == "standard-0").expect("the node")
    };
    assert_eq!(in_file(&lab), "shelf-first");
    let first = openstack(&["image show shelf-first"]).remove(0)["id"].clone();
    assert_eq!(node(&lab)["image_id"], first);

    // A dry run shows what is new and changes nothing.
    let shown = lab.kiln(&["image", "promote", "shelf-trial", "--dry-run"]);
    assert!(shown.contains("would be shelf-trial") && shown.contains("1 package added"), "{shown}");
    assert_eq!((stands_for("shelf-trial"), in_file(&lab)), (None, "shelf-first".to_string()));
    lab.kiln(&["image", "promote", "shelf-trial"]);
    assert!(stands_for("shelf-trial").is_some_and(|value| value.starts_with(&format!("{digest} "))));
    assert_eq!(in_file(&lab), "shelf-trial");
    assert_ne!(node(&lab)["target_image_id"], first);

    // The node's, the file's and the other cluster's stay.
    let shown = lab.json(&["image", "prune", "--dry-run"]);
    assert_eq!(kept(&shown, "shelf-older"), None, "{shown}");
    assert_eq!(
        there(),
        ["shelf-first", "shelf-older", "shelf-theirs", "shelf-trial"],
        "a dry run deletes nothing"
    );
    let verdicts = lab.json(&["image", "prune", "--yes"]);
    assert_eq!(kept(&verdicts, "shelf-first").as_deref(), Some("standard-0 run it"), "{verdicts}");
    assert_eq!(kept(&verdicts, "shelf-trial").as_deref(), Some("the image shelf of the file"), "{verdicts}");
    assert_eq!(kept(&verdicts, "shelf-theirs").as_deref(), Some("it was built for another cluster"));
    assert_eq!(kept(&verdicts, "shelf-older"), None, "{verdicts}");
    assert_eq!(there(), ["shelf-first", "shelf-theirs", "shelf-trial"]);

    // Back again: the one that was promoted is a former one, and goes where none are to stay.
    lab.kiln(&["image", "promote", "shelf-first"]);
    assert_eq!(in_file(&lab), "shelf-first");
    let verdicts = lab.json(&["image", "prune", "--yes"]);
    assert_eq!(kept(&verdicts, "shelf-trial").as_deref(), Some("a former image shelf of the file"));
    lab.kiln(&["image", "prune", "--keep", "0", "--yes"]);
    assert_eq!(there(), ["shelf-first", "shelf-theirs"]);

    lab.kiln(&["destroy", "--yes"]);
    attempt("demo", &remove);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}
