//! The life of an image after its build: shown, compared, promoted, locked, deleted. Images alone: no cluster is raised.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cluster_dir::printed;
use crate::lab::{Lab, cloud_root};

/// On top of the image that clusters are raised from, which is there already, so that it is soon built.
const LIFE: &str = "\n[image.life]\nsource = \"default\"\npackages = [\"hello\"]\n";

/// Where no package source answers.
const NOWHERE: &str = "\n[source.nowhere]\naddress = \"http://127.0.0.1:9/debian\"\nsuites = [\"trixie\"]\n";

fn names(lab: &Lab) -> Vec<String> {
    let rows = lab.json(&["image", "list"]);
    let of_life = |name: &str| name.starts_with("life-").then(|| name.to_string());
    rows.as_array().expect("a list").iter().filter_map(|row| of_life(row["name"].as_str()?)).collect()
}

fn row(lab: &Lab, name: &str) -> Value {
    let rows = lab.json(&["image", "list"]);
    let found = rows.as_array().expect("a list").iter().find(|row| row["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("no image {name} in {rows}"))
}

fn built(rows: &Value) -> String {
    rows[0]["name"].as_str().unwrap_or_else(|| panic!("no image in {rows}")).to_string()
}

fn delete_all(lab: &Lab) {
    for name in names(lab) {
        lab.kiln(&["image", "delete", "--yes", &name]);
    }
}

/// Built, and built again for a test with one package more.
pub fn compared_and_promoted(lab: &mut Lab) {
    lab.write_file(&(lab.example() + LIFE));
    delete_all(lab);
    let first = built(&lab.json(&["image", "build", "life", "--keep-packages", &kept(lab)]));
    let shown = lab.json(&["image", "show", "life"]);
    let packages = shown["packages"].as_array().expect("packages");
    let hashed =
        packages.iter().filter(|package| package["sha256"].as_str().is_some_and(|sum| sum.len() == 64));
    assert_eq!(hashed.count(), packages.len(), "every package has a hash");
    assert!(
        packages
            .iter()
            .all(|package| ["amd64", "all"].contains(&package["architecture"].as_str().unwrap_or("")))
    );
    assert_eq!(shown["descent"].as_array().map(Vec::len), Some(2), "{}", shown["descent"]);

    // The same package set as the file's, and one that the file does not have.
    lab.edit("[\"hello\"]", "[\"hello\", \"tree\"]");
    let test = built(&lab.json(&["image", "build", "life", "--test"]));
    assert_eq!(row(lab, &test)["test"], true);
    lab.edit("[\"hello\", \"tree\"]", "[\"hello\"]");
    let text = lab.kiln(&["image", "diff", &first, &test]);
    assert!(text.contains("1 package added") && text.contains("tree"), "{text}");
    let difference = lab.json(&["image", "diff", &test, "life"]);
    assert_eq!(difference["removed"][0]["name"], "tree", "{difference}");

    assert_eq!(row(lab, &first)["in_file"], "life");
    let text = lab.kiln(&["image", "promote", &test, "--dry-run"]);
    assert!(text.contains("would be") && text.contains("1 package added"), "{text}");
    assert_eq!(row(lab, &first)["in_file"], "life", "a dry run changes nothing");
    lab.kiln(&["image", "promote", &test]);
    assert_eq!((&row(lab, &first)["in_file"], &row(lab, &test)["in_file"]), (&Value::Null, &"life".into()));
    let again = lab.json(&["image", "build", "life"]);
    assert_eq!(built(&again), test, "nothing is built: the test image stands for the recipe");

    // The former one is kept, for the way back.
    let verdicts = lab.json(&["image", "prune", "--yes"]);
    let kept = |name: &str| {
        let all = verdicts.as_array().expect("a list");
        all.iter().find(|verdict| verdict["name"] == name).map(|verdict| verdict["kept"].clone())
    };
    assert_eq!(kept(&test), Some("the image life of the file".into()), "{verdicts}");
    assert_eq!(kept(&first), Some("a former image life of the file".into()), "{verdicts}");
    lab.kiln(&["image", "promote", &first]);
    assert_eq!(row(lab, &first)["in_file"], "life");
    let verdicts = lab.json(&["image", "prune", "--keep", "0", "--dry-run"]);
    assert!(verdicts.to_string().contains(&test) && names(lab).contains(&test), "a dry run deletes nothing");
    lab.kiln(&["image", "prune", "--keep", "0", "--yes"]);
    assert_eq!(names(lab), [first]);
}

/// The judge is the tool of those who made the format.
pub fn bill_of_materials(lab: &mut Lab) {
    let path = lab.path("life.spdx.json");
    std::fs::write(&path, lab.kiln(&["image", "sbom", "life"])).expect("a file");
    let output = Command::new(spdx_tools().join("bin/pyspdxtools")).arg("--infile").arg(&path).output();
    let output = output.expect("pyspdxtools runs");
    assert!(output.status.success(), "{}", printed(&output));
}

fn spdx_tools() -> PathBuf {
    let venv = cloud_root().join("spdx-tools");
    let run = |program: &Path, words: &[&str]| {
        let output = Command::new(program).args(words).output().expect("a program");
        assert!(output.status.success(), "{words:?}: {}", printed(&output));
    };
    if !venv.join("whole").exists() {
        run(Path::new("python3"), &["-m", "venv", "--clear", venv.to_str().expect("a plain path")]);
        run(&venv.join("bin/pip"), &["install", "--quiet", "spdx-tools==0.8.5"]);
        std::fs::write(venv.join("whole"), "").expect("a mark");
    }
    venv
}

fn kept(lab: &Lab) -> String {
    lab.path("packages").display().to_string()
}

/// A locked build has the same packages again: from the package sources, and without them from packages that were kept.
pub fn locked(lab: &mut Lab) {
    let packages = |name: &str| lab.json(&["image", "show", name])["packages"].clone();
    let first = names(lab).remove(0);
    lab.kiln(&["image", "lock", "life"]);
    let lock = std::fs::read_to_string(lab.path("cluster.lock")).expect("a lock file");

    // Versions that are gone are all named, and nothing is built.
    let of = |name: &str| {
        let line = lock.lines().find(|line| line.trim().starts_with(&format!("\"{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in the lock")).trim().to_string()
    };
    let gone = |line: &str| {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        format!("{} 0.0.1~gone {}", words[0], words[2])
    };
    let (hello, munge, less) = (of("hello"), of("munge"), of("less"));
    let other_hash = less.replace(less.split(' ').next_back().expect("a hash"), &format!("{:064}\",", 7));
    let broken =
        lock.replace(&hello, &gone(&hello)).replace(&munge, &gone(&munge)).replace(&less, &other_hash);
    std::fs::write(lab.path("cluster.lock"), broken).expect("a lock file");
    let output = lab.try_kiln(&["image", "build", "life", "--locked"]);
    let text = printed(&output);
    assert!(!output.status.success());
    assert!(text.contains("hello 0.0.1~gone") && text.contains("munge 0.0.1~gone"), "{text}");
    assert!(text.contains("another hash for less "), "{text}");
    // What the source image has and the lock does not is left over.
    std::fs::write(lab.path("cluster.lock"), lock.replace(&format!("{less}\n"), "")).expect("a lock file");
    let output = lab.try_kiln(&["image", "build", "life", "--locked"]);
    let text = printed(&output);
    assert!(!output.status.success() && text.contains("less"), "{text}");
    assert!(text.contains("not in the lock"), "{text}");
    assert_eq!(names(lab).as_slice(), std::slice::from_ref(&first));
    std::fs::write(lab.path("cluster.lock"), &lock).expect("a lock file");

    let again = built(&lab.json(&["image", "build", "life", "--locked"]));
    assert_ne!(again, first);
    assert_eq!(packages(&again), packages(&first));
    assert_eq!(row(lab, &again)["in_file"], "life");
    assert_eq!(built(&lab.json(&["image", "build", "life", "--locked"])), again, "built once");

    lab.edit(LIFE, &format!("{NOWHERE}{LIFE}sources = [\"nowhere\"]\n"));
    let output = lab.try_kiln(&["image", "build", "life", "--locked"]);
    assert!(!output.status.success(), "{}", printed(&output));
    let alone = built(&lab.json(&["image", "build", "life", "--locked", "--keep-packages", &kept(lab)]));
    assert_eq!(packages(&alone), packages(&first));
    delete_all(lab);
}
