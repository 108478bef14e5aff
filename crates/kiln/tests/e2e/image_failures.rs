//! Image builds that fail, at each of their steps. Nothing is left of them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cluster_dir::printed;
use crate::image_builds::{NEW_KERNEL, OLD_KERNEL, TOOL, VARIABLE, with_tables};
use crate::lab::{Lab, cloud_root, no_more_faults, order};
use crate::repository::{PASSWORD, Repository};

struct Case {
    /// The step, or what is wrong with it.
    what: &'static str,
    tables: String,
    /// What the environment has for the site's repository.
    login: String,
    /// What goes wrong in the cloud.
    faults: &'static str,
    said: &'static str,
}

impl Case {
    fn new(what: &'static str, tables: &str, said: &'static str) -> Case {
        Case { what, tables: tables.into(), login: String::new(), faults: "", said }
    }

    fn with_login(self, login: &str) -> Case {
        Case { login: login.into(), ..self }
    }

    /// Of the cloud, with the words of the daemon.
    fn of_cloud(what: &'static str, tables: &str, faults: &'static str) -> Case {
        Case { faults, ..Case::new(what, tables, "injected fault") }
    }

    /// All that was printed.
    fn run(&self, lab: &Lab) -> String {
        with_tables(lab, &self.tables);
        if !self.faults.is_empty() {
            order(self.faults);
        }
        let output =
            lab.kiln_command(&["image", "build", "bad", "--force"]).env(VARIABLE, &self.login).output();
        no_more_faults();
        let output = output.expect("kiln runs");
        let words = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{}: {words}", self.what);
        assert!(words.contains(self.said), "{}: {words}", self.what);
        words
    }
}

/// Upon the image that clusters are raised from, with nothing of its own. Its only source is small: reading the lists of the
/// whole distribution is most of such a build.
fn plain(repository: &Repository) -> String {
    format!("{}[image.bad]\nsource = \"default\"\nsources = [\"kernel\"]\n", small_source(repository))
}

fn small_source(repository: &Repository) -> String {
    format!(
        "[source.kernel]\naddress = \"{}/kernel\"\nsuites = [\"old\"]\nkey = \"site.asc\"\n",
        repository.address
    )
}

/// Plain images with something wrong in them, for steps that fail on nothing else: a system without checksums, and one that
/// has users of its own and a kernel that is out of date.
fn odd_sources(repository: &Repository) -> String {
    format!(
        "{}[image.unchecked]\nsource = \"default\"\nsources = [\"kernel\"]\ncommands = [\"ln -sf false /usr/bin/sha256sum\"]\n\
         [image.own-users]\nsource = \"default\"\nsources = [\"kernel\"]\npackages = [\"{}\"]\n\
         commands = [\"sed -i s/64030/64039/ /etc/passwd\"]\n",
        small_source(repository),
        OLD_KERNEL.name
    )
}

fn of_the_steps(repository: &Repository) -> Vec<Case> {
    let odd = odd_sources(repository);
    let plain = &plain(repository);
    let hangs = format!("{plain}build.timeout = \"15s\"\n");
    let on_unchecked = format!("{odd}[image.bad]\nsource = \"unchecked\"\nsources = [\"kernel\"]\n");
    let on_own_users = format!("{odd}[image.bad]\nsource = \"own-users\"\nsources = [\"kernel\"]\n");
    let newer = format!(
        "{odd}[image.bad]\nsource = \"own-users\"\nsources = [\"newer\"]\n[source.newer]\naddress = \"{}/newer\"\nsuites = [\"old\"]\nkey = \"site.asc\"\n",
        repository.address
    );
    let command = |command: &str| format!("{plain}commands = [\"{command}\"]\n");
    let site = format!(
        "[source.site]\naddress = \"{}/closed\"\nsuites = [\"old\"]\nkey = \"site.asc\"\n\
         credentials = \"env:{VARIABLE}\"\n[image.bad]\nsource = \"default\"\nsources = [\"site\"]\n",
        repository.address
    );
    let in_file = site.replace(&format!("env:{VARIABLE}"), "file:site.login");
    let beside_snapshot = format!(
        "{}[source.pinned]\naddress = \"{}/pinned\"\nsnapshot = \"20260101T000000Z\"\nsuites = [\"old\"]\nkey = \"site.asc\"\n",
        in_file.replace("sources = [\"site\"]", "sources = [\"pinned\", \"site\"]"),
        repository.address
    );
    let odd_software = format!("{plain}software = [\"odd\"]\n[software.odd]\n");
    vec![
        Case::of_cloud("network", plain, r#"{"create_network": {"fail": 9}}"#),
        Case::of_cloud("security group", plain, r#"{"create_security_group": {"fail": 9}}"#),
        Case::of_cloud("create", plain, r#"{"create": {"fail": 9, "status": 403}}"#),
        Case::of_cloud("boot", plain, r#"{"build": {"fail": 9}}"#),
        Case {
            faults: r#"{"boot": {"fail": 9}}"#,
            ..Case::new("ssh", &hangs, "longer than 15s: it was given up in the step `ssh`")
        },
        Case::new("kiln", &on_unchecked, "the copy of kiln is incomplete"),
        Case::new("sources", &site.replace("\"old\"", "\"new\""), "404").with_login(&repository.login),
        Case::new("password", &site, "source site refuses the user and password").with_login("site:wrong"),
        Case::new("update", &in_file, "Release file"),
        // A snapshot may be out of date; what stands beside it may not.
        Case::new("update beside a snapshot", &beside_snapshot, "Release file"),
        Case::new("signature", &in_file.replace("site.asc", "other.asc"), "not signed"),
        Case::of_cloud("reboot", &newer, r#"{"reboot": {"fail": 9}}"#),
        Case::new("users", &on_own_users, "the source image has user slurm"),
        Case::new(
            "install",
            &format!("{odd_software}packages = [\"no-such-package\"]\n"),
            "no-such-package is of the software odd",
        ),
        Case::new(
            "files",
            &format!(
                "{odd_software}file = [{{ path = \"/etc/odd\", content = \"\", owner = \"nobody-knows\" }}]\n"
            ),
            "writing /etc/odd",
        ),
        Case::new("command", &command("echo odd; exit 3"), "odd"),
        Case::new("cut off", &command("kill -9 $PPID"), "SSH"),
        Case::new("too long", &format!("{}build.timeout = \"1s\"\n", command("sleep 300")), "longer than 1s"),
        Case::new(
            "hold",
            &format!("{plain}hold = [\"no-such-package\"]\n"),
            "not installed: no-such-package",
        ),
        Case::new("services", &command("rm /usr/local/bin/kiln"), "disabling services"),
        Case::new("clean", &command("mkdir /var/tmp/m && mount -t tmpfs m /var/tmp/m"), "cleaning"),
        Case::of_cloud("shut down", plain, r#"{"stop": {"fail": 9}}"#),
        Case::of_cloud("image", plain, r#"{"create_image": {"fail": 9}}"#),
    ]
}

/// Each failure says what went wrong, and leaves no instance, network or image.
pub fn at_each_step(lab: &mut Lab) {
    let repository = Repository::new();
    repository.publish("closed", "old", &[TOOL]);
    repository.publish_current("kernel", "old", &[OLD_KERNEL]);
    repository.publish_current("newer", "old", &[NEW_KERNEL]);
    repository.publish("pinned/20260101T000000Z", "old", &[TOOL]);
    fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    fs::write(lab.path("other.asc"), Repository::new().key()).expect("a key");
    fs::write(lab.path("site.login"), format!("{}\n", repository.login)).expect("a file");
    let before = images(lab);
    not_deleted(lab, &repository, &before);
    with_tables(lab, &odd_sources(&repository));
    let odd = ["unchecked", "own-users"].map(|image| {
        // Also where a run that was cut off has left one.
        let built = lab.json(&["image", "build", image, "--force"]);
        built[0]["name"].as_str().expect("a name").to_string()
    });
    let there = images(lab);
    for case in of_the_steps(&repository) {
        let words = case.run(lab);
        assert!(!words.contains("site:wrong") && !words.contains(PASSWORD), "{}: {words}", case.what);
        assert_eq!(images(lab), there, "{}", case.what);
        assert_eq!(left(), [""; 0], "{}", case.what);
    }
    for name in odd {
        lab.kiln(&["image", "delete", &name, "--yes"]);
    }
    assert_eq!(images(lab), before);
    lab.write_file(&lab.example());
}

/// An image whose build instance cannot be deleted is there all the same. The next build deletes the instance.
fn not_deleted(lab: &Lab, repository: &Repository, before: &[String]) {
    let said = "is built and can be used, but its build instance could not be deleted";
    let case = Case { faults: r#"{"delete": {"fail": 9}}"#, ..Case::new("delete", &plain(repository), said) };
    let words = case.run(lab);
    assert!(words.contains("injected fault") && words.contains("the next image build"), "{words}");
    assert_eq!(left(), ["1 in instances", "1 in networks", "1 in security-groups"], "{words}");
    // It is not built again.
    let name = lab.json(&["image", "build", "bad"])[0]["name"].as_str().expect("a name").to_string();
    assert!(words.contains(&name), "{name} is not in {words}");
    lab.kiln(&["image", "delete", &name, "--yes"]);
    assert_eq!(images(lab), before);
}

/// Names of all images in the cloud.
fn images(lab: &Lab) -> Vec<String> {
    let listed = lab.json(&["image", "list"]);
    let name = |row: &Value| row["name"].as_str().expect("a name").to_string();
    listed.as_array().expect("images").iter().map(name).collect()
}

/// What the cloud has besides images, of every kind that it keeps. It has no key pairs: the build's key goes with its instance.
fn left() -> Vec<String> {
    let names = |dir: &Path| -> Vec<String> {
        let entries = fs::read_dir(dir).expect("a folder of the cloud").map(|entry| entry.expect("an entry"));
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let state = cloud_root().join("state");
    let mut kinds = names(&state);
    for known in ["instances", "networks", "security-groups", "volumes"] {
        assert!(kinds.iter().any(|kind| kind == known), "the cloud keeps {kinds:?}, and no {known}");
    }
    kinds.retain(|kind| kind != "images");
    kinds.sort();
    let counted = kinds.iter().map(|kind| (names(&state.join(kind)).len(), kind));
    counted.filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} in {kind}")).collect()
}
