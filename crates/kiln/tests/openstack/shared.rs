//! An image that one project shares with another, which uses it as one of its own: with what its manifest says.

use std::path::PathBuf;

use serde_json::Value;

use crate::cluster_dir::{ClusterDir, printed};
use crate::lab::{Lab, attempt, client, openstack, openstack_as, own_project, services, tell};
use crate::upload::description;

/// In the other project. The network is another one than those of the tests.
const FILE: &str = "[cluster]\nname = \"borrower\"\n\n\
    [cloud]\nkind = \"openstack\"\ncloud = \"borrower\"\nsubnet = \"10.43.0.0/24\"\nexternal_network = \"public\"\n\n\
    [image.default]\nprebuilt = \"lent-22\"\n\n[image.newer]\nprebuilt = \"lent-24\"\n\n\
    [control]\nflavor = \"small\"\n\n[login.login]\nnodes = \"login-0\"\nflavor = \"small\"\n\n\
    [compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\nimage = \"newer\"\n";

/// Another project of the same person, with a cluster of its own. Both are gone with it.
struct Borrower {
    dir: ClusterDir,
    clouds: PathBuf,
    /// The project's id.
    project: String,
}

impl Borrower {
    fn new() -> Borrower {
        let project = openstack_as("admin", &["project create --or-show borrower"]).remove(0);
        let project = project["id"].as_str().unwrap().to_string();
        tell("admin", &[&format!("role add --user {} --project borrower member", own_project())]);
        let mut dir = ClusterDir::new();
        let clouds = dir.path("clouds.yaml");
        let text = std::fs::read_to_string(services()).unwrap();
        let (_, demo) = text.split_once("  demo:\n").unwrap();
        let own = demo.replace(&format!("project_name: {}", own_project()), "project_name: borrower");
        assert_ne!(own, demo);
        std::fs::write(&clouds, format!("clouds:\n  borrower:\n{own}")).unwrap();
        dir.environment = vec![
            ("OS_CLIENT_CONFIG_FILE".into(), clouds.display().to_string()),
            ("NO_PROXY".into(), "127.0.0.1,localhost".into()),
        ];
        dir.write_file(FILE);
        let borrower = Borrower { dir, clouds, project };
        // What a run that was cut off has left.
        borrower.dir.clear();
        borrower
    }

    /// The official client, in this project.
    fn client(&self, words: &str) -> String {
        let mut command = client();
        command.args(words.split(' ')).env("OS_CLIENT_CONFIG_FILE", &self.clouds).env("OS_CLOUD", "borrower");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words}: {}", printed(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Borrower {
    fn drop(&mut self) {
        self.dir.write_file(FILE);
        self.dir.try_kiln(&["destroy", "--yes"]);
        let role = format!("role remove --user {} --project borrower member", own_project());
        attempt("admin", &[&role, "project delete borrower"]);
    }
}

#[test]
fn a_shared_image_is_used_by_another_project() {
    let lender = Lab::new("lender", "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n");
    lender.undo_with("demo", &["image delete lent-22", "image delete lent-24"]);
    let borrower = Borrower::new();
    let refused = |words: &[&str]| {
        let output = borrower.dir.try_kiln(words);
        assert!(!output.status.success(), "{words:?}: {}", printed(&output));
        printed(&output)
    };
    let mut ids = Vec::new();
    for (name, slurm) in [("lent-22", "22.05.8-4"), ("lent-24", "24.11.5-4")] {
        let disk = lender.path(&format!("{name}.raw"));
        std::fs::write(&disk, vec![7; 100_000]).unwrap();
        std::fs::write(lender.path(&format!("{name}.raw.kiln.json")), description(slurm).to_string())
            .unwrap();
        lender.kiln(&["image", "upload", disk.to_str().unwrap(), "--visibility", "shared"]);
        let shown = openstack(&[&format!("image show {name}")]).remove(0);
        ids.push(shown["id"].as_str().unwrap().to_string());
    }
    // Nobody has shared it with this project; then it has been, and nobody here has accepted it.
    assert!(refused(&["plan"]).contains("the cloud has no image lent-22"));
    for id in &ids {
        tell("demo", &[&format!("image add project {id} {}", borrower.project)]);
    }
    let said = refused(&["plan"]);
    assert!(said.contains("the cloud has no image lent-22") && said.contains("--accept"), "{said}");
    for id in &ids {
        borrower.client(&format!("image set --accept {id}"));
    }

    // The manifest has come along: it is known what is inside, and that the two do not go together.
    let shown = borrower.dir.json(&["image", "show", "lent-24"]);
    assert_eq!((&shown["slurm"], &shown["id"]), (&"24.11.5".into(), &ids[1].as_str().into()), "{shown}");
    let said = refused(&["plan"]);
    assert!(said.contains("standard has Slurm 24.11.5") && said.contains("22.05.8"), "{said}");
    borrower.dir.edit("image = \"newer\"\n", "");
    borrower.dir.kiln(&["plan"]);
    borrower.dir.kiln(&["apply", "--yes"]);
    for node in ["control", "standard-0"] {
        let server: Value =
            serde_json::from_str(&borrower.client(&format!("server show {node} -f json"))).unwrap();
        assert!(server["image"].to_string().contains(&ids[0]), "{node}: {}", server["image"]);
    }
    assert!(borrower.dir.kiln(&["plan"]).contains("Nothing to do."));

    // It is not theirs to delete, nor to tidy away.
    let pruned = borrower.dir.kiln(&["image", "prune", "--dry-run"]);
    assert!(pruned.contains("lent-24"), "{pruned}");
    borrower.dir.kiln(&["image", "prune", "--yes"]);
    refused(&["image", "delete", "--yes", "--force", "lent-24"]);
    assert_eq!(openstack(&["image show lent-24"])[0]["id"], ids[1].as_str());

    borrower.dir.kiln(&["destroy", "--yes"]);
    for list in ["server list", "volume list", "network list --internal", "router list", "floating ip list"] {
        assert_eq!(borrower.client(&format!("{list} -f value")).trim(), "", "{list}");
    }
    drop(borrower);
    for name in ["lent-22", "lent-24"] {
        lender.kiln(&["image", "delete", "--yes", name]);
    }
    lender.kiln(&["destroy", "--yes"]);
    assert_eq!(lender.leftovers(), Vec::<String>::new());
}
