//! Image builds, from the file to what is inside. The images stand on the one that clusters are raised from, so that each
//! build takes seconds.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Output;

use kiln_image::Recipe;
use kiln_spec::Software;
use serde_json::Value;

use crate::cluster_dir::printed;
use crate::lab::{Lab, cloud_root, read};
use crate::repository::{PASSWORD, Package, Repository};
use crate::search::{betraying, finds_every_form, forms, holding};
use crate::terminal::at_terminal;

pub const VARIABLE: &str = "KILN_E2E_REPOSITORY";

/// Adds tables to the file.
pub fn with_tables(lab: &Lab, tables: &str) {
    lab.write_file(&format!("{}\n{tables}", lab.example()));
}

/// An image's layers on this machine, the lowest first.
pub fn layers(image: &str) -> Vec<PathBuf> {
    let records = fs::read_dir(cloud_root().join("state/images")).expect("images").flatten();
    let records =
        records.filter_map(|entry| serde_json::from_slice::<Value>(&fs::read(entry.path()).ok()?).ok());
    let record =
        records.into_iter().find(|record| record["image"]["name"] == image).expect("the image's record");
    let ids = record["layers"].as_array().expect("layers").clone();
    ids.iter().map(|id| cloud_root().join("layers").join(id.as_str().expect("an id"))).collect()
}

/// Builds an image of the file, with the password in the environment; its name in the cloud and all that was printed.
fn build(lab: &Lab, repository: &Repository, image: &str) -> (String, String) {
    let mut command = lab.kiln_command(&["image", "build", image]);
    let output = command.env(VARIABLE, &repository.login).output().expect("kiln runs");
    let words = printed(&output);
    assert!(output.status.success(), "{words}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let table = text(&output.stdout);
    let name = table.lines().nth(1).and_then(|row| row.split_whitespace().next()).expect("a name");
    (name.to_string(), text(&output.stderr))
}

fn installed(lab: &Lab, image: &str, package: &str) -> Option<String> {
    let manifest = lab.json(&["image", "show", image]);
    let packages = manifest["packages"].as_array().expect("packages").clone();
    let found = packages.iter().find(|p| p["name"] == package)?;
    found["version"].as_str().map(String::from)
}

/// What is wrong with an image, and that the exit code says it too.
pub fn faults(lab: &Lab, image: &str, exit: Option<i32>) -> Vec<String> {
    faults_of(&lab.try_kiln(&["--json", "image", "check", image]), exit)
}

fn faults_of(output: &Output, exit: Option<i32>) -> Vec<String> {
    assert_eq!(output.status.code(), exit, "{}", printed(output));
    let checked: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let faults = checked["faults"].as_array().expect("faults").clone();
    let text = |value: &Value| value.as_str().expect("text").to_string();
    faults.iter().map(|fault| format!("{}: {}", text(&fault["path"]), text(&fault["what"]))).collect()
}

pub const TOOL: Package =
    Package { name: "kiln-test-tool", version: "1.0", file: ("/usr/share/kiln-test/tool", "of-the-site") };

/// What a running system uses until it reboots.
pub const OLD_KERNEL: Package =
    Package { name: "linux-image-kiln-test", version: "1.0", file: ("/usr/share/kiln-test/kernel", "1.0") };
pub const NEW_KERNEL: Package =
    Package { name: "linux-image-kiln-test", version: "2.0", file: ("/usr/share/kiln-test/kernel", "2.0") };

/// From a snapshot that is signed, out of date, without translations, and closed to those without a password.
pub fn sources(lab: &mut Lab) {
    let repository = Repository::new();
    repository.publish("closed/20260101T000000Z", "stable", &[TOOL, OLD_KERNEL]);
    fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    let tables = format!(
        "[source.site]\naddress = \"{}/closed\"\nsnapshot = \"20260101T000000Z\"\nsuites = [\"stable\"]\n\
         key = \"site.asc\"\ncredentials = \"env:{VARIABLE}\"\n\
         [image.site]\nsource = \"default\"\nsources = [\"site\"]\n\
         packages = [\"kiln-test-tool\", \"linux-image-kiln-test\"]\nhold = [\"kiln-test-tool\"]\n",
        repository.address
    );
    with_tables(lab, &tables);
    // What others are built upon, if no suite before has built it.
    lab.kiln(&["image", "build", "default"]);
    let before = lab.json(&["image", "list"]);
    let refused = lab.try_kiln(&["image", "build", "site"]);
    let words = printed(&refused);
    assert!(words.contains("no credentials for source site") && words.contains(VARIABLE), "{words}");
    assert_eq!(repository.asked(), Vec::<String>::new());

    let (name, said) = build(lab, &repository, "site");
    assert_eq!(installed(lab, &name, TOOL.name).as_deref(), Some("1.0"));
    // Each with its time, in this order.
    let steps = "create, boot, ssh, kiln, sources, update, users, install, hold, services, clean, shut down, image, \
                 properties, delete";
    let times = said.lines().find_map(|line| Some(line.split_once("built in ")?.1)).expect("times");
    let (_, times) = times.split_once(": ").expect("a total first");
    let step = |text: &str| {
        let (step, time) = text.rsplit_once(' ').expect("a time");
        assert!(time.parse::<f64>().is_ok(), "{times}");
        step.to_string()
    };
    assert_eq!(times.split(", ").map(step).collect::<Vec<_>>().join(", "), steps, "{said}");
    assert!(said.contains("setting its properties"), "{said}");
    assert!(!said.contains("reboot"), "{said}");
    let asked = repository.asked();
    assert!(
        asked.iter().any(|line| line == "200 /closed/20260101T000000Z/dists/stable/InRelease"),
        "{asked:?}"
    );
    assert!(!asked.iter().any(|line| line.contains("Translation")), "{asked:?}");

    // What clusters are raised from, and what is built upon it.
    for image in ["default", &name] {
        assert_eq!(faults(lab, image, Some(0)), Vec::<String>::new());
    }
    // Nodes have the system's sources, out of use; neither the site's nor the password, anywhere.
    let layers = layers(&name);
    let top = layers.last().expect("a layer");
    assert!(!holding(top, TOOL.file.1).is_empty(), "the search finds what is there");
    finds_every_form(PASSWORD);
    for dir in layers.iter().chain([&cloud_root().join("instances")]) {
        assert_eq!(betraying(dir, PASSWORD), Vec::<PathBuf>::new());
    }
    let logs = read(&cloud_root().join("daemon.log")) + &said;
    assert!(!forms(PASSWORD).iter().any(|form| logs.contains(form)), "the password is in a log");
    let apt = top.join("etc/apt");
    assert!(apt.join("sources.list.kiln.disabled").exists());
    assert_eq!(holding(&apt, &repository.address), Vec::<PathBuf>::new());

    // What is built upon it may use the system's sources again, and keep others.
    repository.publish("open", "stable", &[TOOL]);
    let more = format!(
        "{tables}[source.kept]\naddress = \"{}/open\"\nsuites = [\"stable\"]\nkey = \"site.asc\"\nkeep = true\n\
         snapshot = \"20260101T000000Z\"\n[image.more]\nsource = \"site\"\nsources = [\"kept\"]\n\
         commands = [\"test ! -e /run/kiln-reboot-for\", \"printf -- '-----BEGIN PRIVATE KEY-----' >/etc/left.pem\", \"sed -i s/64030/64039/ /etc/passwd\"]\n",
        repository.address
    );
    let newer = Package { version: "1.1", ..TOOL };
    repository.publish("open/20260101T000000Z", "stable", &[newer, NEW_KERNEL]);
    with_tables(lab, &more);
    let (more, said) = build(lab, &repository, "more");
    assert!(said.contains("rebooting for linux-image-kiln-test 2.0"), "{said}");
    assert!(said.lines().any(|line| line.contains("built in") && line.contains("reboot ")), "{said}");
    assert_eq!(installed(lab, &more, NEW_KERNEL.name).as_deref(), Some("2.0"));
    assert_eq!(installed(lab, &more, TOOL.name).as_deref(), Some("1.0"), "the image below holds it");
    let kept = read(&layers_top(&more).join("etc/apt/sources.list.d/kiln-kept.sources"));
    assert!(
        kept.contains("Check-Valid-Until: no") && kept.contains("/etc/apt/keyrings/kiln-kept.asc"),
        "{kept}"
    );
    // What a command leaves is found.
    let left = ["/etc/left.pem: a private key", "/etc/passwd: slurm: not there with its fixed number"];
    assert_eq!(faults(lab, &more, Some(1)), left);
    // Also in a directory, as a disk's root is where it is mounted. Here it is only what the image has of its own.
    let top = layers_top(&more).display().to_string();
    let within = |root: &str| lab.try_kiln(&["--json", "image", "check", &more, "--root", root]);
    let found = faults_of(&within(&top), Some(1));
    assert!(left.iter().all(|fault| found.iter().any(|one| one == fault)), "{found:?}");
    let refused = printed(&within(&format!("{top}/etc")));
    assert!(refused.contains("cannot be looked into as an image's root"), "{refused}");
    for name in [more, name] {
        lab.kiln(&["image", "delete", &name, "--yes"]);
    }
    assert_eq!(lab.json(&["image", "list"]), before);
    lab.write_file(&lab.example());
}

/// A step that fails is mended by hand, and runs again. Packages that a build has downloaded before are not downloaded again.
pub fn mended(lab: &mut Lab) {
    let repository = Repository::new();
    repository.publish_current("open", "stable-security", &[TOOL]);
    fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    with_tables(
        lab,
        &format!(
            "[source.open]\naddress = \"{}/open\"\nsuites = [\"stable-security\"]\nkey = \"site.asc\"\n\
             [image.mended]\nsource = \"default\"\nsources = [\"open\"]\npackages = [\"kiln-test-tool\"]\n\
             commands = [\"test -e /run/mended\"]\n",
            repository.address
        ),
    );
    let before = lab.json(&["image", "list"]);
    let fetched = || repository.asked().iter().filter(|line| line.contains("pool/")).count();
    // Another build of this machine has fetched it from elsewhere, if that scenario ran.
    let _ = fs::remove_dir_all(cloud_root().join("packages"));
    let aborted = at_terminal(lab, &["image", "build", "mended", "--keep-on-failure"], &["a\n"]);
    assert!(aborted.contains("a command of the file: exit 1") && aborted.contains("is kept"), "{aborted}");
    assert_eq!(fetched(), 1);
    let mend = ["s\n", "touch /run/mended; exit\n", "r\n"];
    let said = at_terminal(lab, &["image", "build", "mended", "--keep-on-failure"], &mend);
    assert!(said.contains("again: a command of the file") && said.contains("built in"), "{said}");
    assert_eq!(fetched(), 1, "{:?}", repository.asked());
    newer_in_security(lab, &repository);

    lab.kiln(&["image", "delete", "mended", "--yes"]);
    assert_eq!(lab.json(&["image", "list"]), before);
    lab.write_file(&lab.example());
}

/// Which packages are newer in the security suite of the image's sources. An image without such a source is refused.
fn newer_in_security(lab: &Lab, repository: &Repository) {
    let shown = lab.kiln(&["image", "diff", "default", "mended", "--security"]);
    assert!(shown.contains("has nothing older than") && shown.contains(&repository.address), "{shown}");
    repository.publish_current("open", "stable-security", &[Package { version: "1.0+deb13u1", ..TOOL }]);
    let shown = lab.json(&["image", "diff", "default", "mended", "--security"]);
    let wanted = serde_json::json!([{
        "name": TOOL.name, "architecture": "all", "installed": "1.0", "available": "1.0+deb13u1",
    }]);
    assert_eq!(shown["security"]["newer"], wanted, "{shown}");
    assert_eq!(shown["added"][0]["name"], TOOL.name, "{shown}");
    let refused = printed(&lab.try_kiln(&["image", "diff", "mended", "default", "--security"]));
    assert!(refused.contains("does not know the security suite of image default-"), "{refused}");
}

fn layers_top(image: &str) -> PathBuf {
    layers(image).pop().expect("a layer")
}

/// The packages of all of Kiln's sets that Debian itself has.
fn packages_of_debian(suite: &str) -> Vec<String> {
    let elsewhere = [Software::Apptainer, Software::Nvidia];
    let names = Software::ALL.into_iter().filter(|set| !elsewhere.contains(set)).map(Software::name);
    let text = format!(
        "[cluster]\nname = \"x\"\n[cloud]\nkind = \"local\"\n[compute.x]\nnodes = \"x1\"\n\
         [image.default]\nsource = \"{suite}\"\nsoftware = {:?}\n",
        names.collect::<Vec<_>>()
    );
    let spec = kiln_spec::parse(&text, "cluster.toml").expect("a file");
    let recipe = Recipe::of(&spec, "default").expect("a recipe");
    recipe.software.into_iter().flat_map(|set| set.packages).collect()
}

/// From a plain image upwards: a role; upon it another role with a set of the site's and one of Kiln's; upon both a third role.
pub fn software(lab: &mut Lab) {
    let suite = lab.suite;
    let repository = Repository::new();
    repository.publish("open/20260101T000000Z", "stable", &[TOOL]);
    fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    let tables = format!(
        "[source.site]\naddress = \"{}/open\"\nsnapshot = \"20260101T000000Z\"\nsuites = [\"stable\"]\n\
         key = \"site.asc\"\nkeep = true\n\
         [software.tools]\npackages = [\"kiln-test-tool\"]\nsources = [\"site\"]\n\
         commands = [\"cp -p /etc/kiln-test.conf /etc/kiln-test.copy\"]\n\
         [[software.tools.file]]\npath = \"/etc/kiln-test.conf\"\ncontent = \"of the set\\n\"\nmode = \"0640\"\n\
         group = \"slurm\"\n\
         [image.bottom]\nsource = \"{suite}\"\nroles = [\"login\"]\n\
         [image.middle]\nsource = \"bottom\"\nsoftware = [\"compute\", \"tools\", \"sssd\"]\n\
         [image.top]\nsource = \"middle\"\nroles = [\"control\"]\nsoftware = [\"chrony\"]\n\
         commands = [\"test -x /usr/sbin/slurmd && test -e /etc/kiln-test.copy\", \"apt-get --simulate install {}\"]\n",
        repository.address,
        packages_of_debian(suite).join(" ")
    );
    // A word that is no set's is told before anything is done.
    with_tables(lab, &tables.replace("\"tools\", \"sss", "\"tols\", \"sss"));
    let refused = printed(&lab.try_kiln(&["image", "build", "top"]));
    assert!(refused.contains("there is no software `tols`") && refused.contains("`tools`?"), "{refused}");

    with_tables(lab, &tables);
    let before = lab.json(&["image", "list"]);
    let (top, _) = build(lab, &repository, "top");
    let (middle, _) = build(lab, &repository, "middle");
    let (bottom, _) = build(lab, &repository, "bottom");
    let has = |image: &str, packages: &[&str]| packages.iter().all(|p| installed(lab, image, p).is_some());
    assert!(has(&bottom, &["less", "slurm-client"]) && !has(&bottom, &["slurmd"]), "{bottom}");
    assert!(has(&middle, &["slurmd", TOOL.name, "sssd-ldap"]), "{middle}");
    let of_control = ["slurmctld", "slurmdbd", "mariadb-server"];
    for added in of_control.iter().chain(&["chrony"]) {
        assert!(!has(&middle, &[added]) && has(&top, &[added]), "{added}");
    }
    assert!(has(&top, &["less", "slurmd", TOOL.name, "sssd-ldap"]), "{top}");
    assert_eq!(faults(lab, &top, Some(0)), Vec::<String>::new());
    // What clusters are raised from has the software of every role.
    assert!(has("default", &["less", "slurmd", "slurmctld", "slurmdbd"]));

    let layer = layers_top(&middle);
    let copy = layer.join("etc/kiln-test.copy");
    assert_eq!(read(&copy), "of the set\n");
    let about = fs::metadata(&copy).expect("the file");
    assert_eq!(about.mode() & 0o7777, 0o640);
    let groups = read(&layers_top(&bottom).join("etc/group"));
    assert!(groups.contains(&format!("slurm:x:{}:", about.gid())), "{} in {groups}", about.gid());
    // A daemon that nobody has configured does not start.
    let starts = |name: &str| name.ends_with("sssd") && name.starts_with('S') || name == "sssd.service";
    let systemd = layer.join("etc/systemd/system/multi-user.target.wants");
    // systemd passes over a script of old that has a unit.
    let has_unit = layer.join("usr/lib/systemd/system/sssd.service").exists();
    let scripts = [layer.join("etc/rc2.d"), layer.join("etc/rc3.d")];
    for dir in scripts.into_iter().filter(|_| !has_unit).chain([systemd]) {
        let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let wrong: Vec<_> = names.filter(|name| starts(&name.to_string_lossy())).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
    // Nodes of the image on top keep the repository of the software below.
    assert!(layers_top(&top).join("etc/apt/sources.list.d/kiln-site.sources").exists());

    // The line of descent stays when the images below are gone.
    for name in [&middle, &bottom] {
        lab.kiln(&["image", "delete", name, "--yes"]);
    }
    let shown = lab.json(&["image", "show", &top]);
    let line: Vec<String> = (shown["descent"].as_array().expect("a descent").iter())
        .map(|ancestor| format!("{} {}", ancestor["image"].as_str().unwrap_or("?"), ancestor["software"]))
        .collect();
    let wanted = [
        format!("{middle} [\"compute\",\"tools\",\"sssd\"]"),
        format!("{bottom} [\"login\"]"),
        format!("debian-{suite} null"),
    ];
    assert_eq!(line, wanted);
    assert_eq!(shown["software"], serde_json::json!(["control", "chrony"]));
    lab.kiln(&["image", "delete", &top, "--yes"]);
    assert_eq!(lab.json(&["image", "list"]), before);
    lab.write_file(&lab.example());
}
