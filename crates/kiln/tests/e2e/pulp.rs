//! Snapshots on a real Pulp server, and images that are built from them.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use kiln_spec::SNAPSHOTS_FILE;
use serde_json::{Value, json};

use crate::cluster_dir::printed;
use crate::image_builds::{faults, layers};
use crate::lab::{Lab, cloud_root, read, wait};
use crate::pulp_server::{LOGIN, PulpServer};
use crate::repository::{Package, Repository};
use crate::search::{betraying, holding};

const VARIABLE: &str = "KILN_E2E_PULP";
/// Who may have packages that the server guards.
const GUARDED: &str = "KILN_E2E_GUARDED";
const OLD: Package =
    Package { name: "kiln-pulp-tool", version: "1.0", file: ("/usr/share/kiln-pulp/tool", "old") };
const NEW: Package = Package { version: "1.1", file: ("/usr/share/kiln-pulp/tool", "new"), ..OLD };

fn server(lab: &mut Lab) -> &PulpServer {
    lab.pulp.get_or_insert_with(PulpServer::start)
}

/// A repository that is up to date, and a cluster file with it as the source `site` at a path of the server.
fn site(lab: &Lab, path: &str) -> Repository {
    let repository = Repository::new();
    repository.publish_current(path, "stable", &[OLD]);
    fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    lab.write_file(&format!(
        "{}\n{}\n[source.site]\naddress = \"{}/{path}\"\nsuites = [\"stable\"]\nkey = \"site.asc\"\npulp = \"{path}\"\n\n\
         [image.pinned]\nsource = \"default\"\nsources = [\"site\"]\npackages = [\"{}\"]\n",
        lab.example(),
        PulpServer::table(),
        repository.address,
        OLD.name
    ));
    repository
}

fn snapshots(lab: &Lab) -> PathBuf {
    lab.path(SNAPSHOTS_FILE)
}

fn command(lab: &Lab, login: &str, arguments: &[&str]) -> Command {
    let mut command = lab.kiln_command(arguments);
    command.env(VARIABLE, login).env("NO_PROXY", "*").env("no_proxy", "*");
    command
}

pub fn try_sync(lab: &Lab, login: &str, arguments: &[&str]) -> Output {
    let arguments = [&["--json", "image", "sync"], arguments].concat();
    command(lab, login, &arguments).output().expect("kiln runs")
}

/// A sync that must succeed: what it says of the first source.
fn sync(lab: &Lab, arguments: &[&str]) -> Value {
    let output = try_sync(lab, LOGIN, arguments);
    assert!(output.status.success(), "{}", printed(&output));
    let reports: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    reports[0].clone()
}

/// A sync that must fail with these words, and leave the file as it is.
fn fails(lab: &Lab, login: &str, arguments: &[&str], words: &[&str]) {
    let before = fs::read_to_string(snapshots(lab)).ok();
    let output = try_sync(lab, login, arguments);
    let said = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
    assert!(!said.contains("loopback") && !said.contains("Traceback"), "{said}");
    assert_eq!(fs::read_to_string(snapshots(lab)).ok(), before);
}

/// Fetch, publish, name, write down; nothing where nothing is new.
pub fn synced(lab: &mut Lab) {
    server(lab);
    let repository = site(lab, "synced/stable");
    fails(lab, "admin:wrong", &[], &["refuses the user admin", "Invalid username/password"]);
    fails(lab, "admin", &[], &["credentials of the Pulp server", "USER:PASSWORD"]);
    fails(lab, LOGIN, &["sitte"], &["no source sitte", "it has site"]);
    let planned = sync(lab, &["--dry-run"]);
    assert_eq!(planned["before"], Value::Null);
    assert_eq!(planned["after"], Value::Null);
    assert!(!snapshots(lab).exists());
    assert_eq!(lab.pulp.as_ref().expect("a server").ask("repositories/deb/apt/")["count"], 0);

    let first = sync(lab, &[]);
    let stamp = first["after"].as_str().expect("a stamp").to_string();
    assert_eq!(
        (&first["made"], &first["packages"]["all"], &first["on_demand"]),
        (&json!(true), &json!(1), &json!(false))
    );
    let text = read(&snapshots(lab));
    assert!(text.ends_with(&format!("\n[snapshots]\nsite = \"{stamp}\"\n")), "{text}");

    // The file is not even touched, and the server has no more than before.
    let inode = fs::metadata(snapshots(lab)).expect("the file").ino();
    let again = sync(lab, &["site"]);
    assert_eq!((&again["made"], &again["after"]), (&json!(false), &json!(stamp)));
    assert_eq!(fs::metadata(snapshots(lab)).expect("the file").ino(), inode);
    // A file that got lost gets the same snapshot again.
    fs::remove_file(snapshots(lab)).expect("removed");
    assert_eq!(sync(lab, &[])["after"], json!(stamp));
    assert_eq!(read(&snapshots(lab)), text);
    let server = lab.pulp.as_ref().expect("a server");
    assert_eq!(server.ask("distributions/deb/apt/")["count"], 1);

    // Something is new. Lines of other sources stay.
    fs::write(snapshots(lab), text.replace("site =", "other = \"v7\"\nsite =")).expect("written");
    repository.publish_current("synced/stable", "stable", &[NEW]);
    only_shown(lab, &stamp, &repository);
    let second = sync(lab, &[]);
    assert_eq!((&second["made"], &second["before"]), (&json!(true), &json!(stamp)));
    assert_eq!((&second["packages"]["added"], &second["packages"]["removed"]), (&json!(1), &json!(1)));
    let later = second["after"].as_str().expect("a stamp");
    assert!(read(&snapshots(lab)).contains(&format!("other = \"v7\"\nsite = \"{later}\"\n")));

    // Whoever can only read the server takes its newest snapshot.
    fs::write(snapshots(lab), &text).expect("written");
    lab.edit(&format!("credentials = \"env:{VARIABLE}\"\n"), "");
    let listed = sync(lab, &["--dry-run"]);
    assert_eq!((&listed["before"], &listed["after"]), (&json!(stamp), &json!(later)));
    assert_eq!(read(&snapshots(lab)), text);
    assert_eq!(sync(lab, &[])["after"], json!(later));
    lab.edit("pulp = \"synced/stable\"", "pulp = \"synced/nothing\"");
    fails(lab, LOGIN, &[], &["lists no snapshots", "synced/nothing"]);

    // The file's own word counts.
    lab.edit("pulp = \"synced/nothing\"", "pulp = \"synced/stable\"\nsnapshot = \"v1\"");
    fails(lab, LOGIN, &["site"], &["the file itself says which snapshot"]);
    fs::remove_file(snapshots(lab)).expect("removed");
}

/// A dry run says which snapshot is in use, which is the newest and where a sync would fetch from. It changes neither the
/// file nor the server, although upstream has something new.
fn only_shown(lab: &Lab, stamp: &str, repository: &Repository) {
    let server = lab.pulp.as_ref().expect("a server");
    let (before, file) = (server.content(), read(&snapshots(lab)));
    let planned = sync(lab, &["--dry-run"]);
    assert_eq!((&planned["source"], &planned["made"]), (&json!("site"), &json!(false)), "{planned}");
    assert_eq!((&planned["before"], &planned["newest"]), (&json!(stamp), &json!(stamp)), "{planned}");
    let upstream = format!("{}/synced/stable", repository.address);
    assert_eq!((&planned["after"], &planned["upstream"]), (&Value::Null, &json!(upstream)), "{planned}");
    let told = command(lab, LOGIN, &["image", "sync", "--dry-run"]).output().expect("kiln runs");
    let told = printed(&told);
    let row =
        told.lines().find(|line| line.starts_with("site ")).unwrap_or_else(|| panic!("no site: {told}"));
    assert!(row.contains(&format!("{stamp}, or what a sync finds")) && row.ends_with(&upstream), "{told}");
    assert!(told.contains("nothing was changed"), "{told}");
    assert_eq!(read(&snapshots(lab)), file);
    assert_eq!(server.content(), before);
}

/// Each failure is told in words.
pub fn failures(lab: &mut Lab) {
    server(lab);
    let repository = site(lab, "odd/stable");
    // A remote that somebody made, and that does not pin.
    let remote = json!({
        "name": "lazy", "url": format!("{}/odd/stable/", repository.address), "distributions": "stable",
        "policy": "on_demand",
    });
    let server = lab.pulp.as_ref().expect("a server");
    let href = server.post("remotes/deb/apt/", &remote)["pulp_href"].clone();
    server.post("repositories/deb/apt/", &json!({"name": "lazy/stable", "remote": href}));
    lab.edit("pulp = \"odd/stable\"", "pulp = \"lazy/stable\"");
    let output = try_sync(lab, LOGIN, &[]);
    let said = printed(&output);
    assert!(output.status.success() && said.contains("when they are asked for"), "{said}");
    fs::remove_file(snapshots(lab)).expect("removed");

    lab.edit("pulp = \"lazy/stable\"", "pulp = \"odd/stable\"");
    lab.edit("suites = [\"stable\"]", "suites = [\"unstable\"]");
    fails(
        lab,
        LOGIN,
        &[],
        &["source site has no new snapshot", "failed to sync odd/stable", "can the server reach it"],
    );

    // An upstream that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    lab.edit(&format!("{}/odd/stable", repository.address), &format!("http://{address}/odd"));
    fails(lab, LOGIN, &["--timeout", "2s"], &["did not sync odd/stable within", "its task was canceled"]);
    let server = lab.pulp.as_ref().expect("a server");
    let running = || server.ask("tasks/?state__in=running,waiting,canceling");
    assert_eq!(running()["count"], 0);
    let child = command(lab, LOGIN, &["image", "sync"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.expect("kiln runs");
    wait("the server syncs", || running()["count"] == 1);
    let interrupted =
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(interrupted.success());
    let output = child.wait_with_output().expect("kiln ends");
    let said = printed(&output);
    assert!(output.status.code() == Some(130) && said.contains("the server's tasks were canceled"), "{said}");
    assert_eq!(running()["count"], 0);
    assert!(!snapshots(lab).exists());

    lab.edit("http://127.0.0.1:24817", "http://127.0.0.1:9");
    fails(lab, LOGIN, &[], &["http://127.0.0.1:9 does not answer", "refused", "is it up"]);
    lab.edit("http://127.0.0.1:9", &repository.address);
    fails(lab, LOGIN, &[], &["is not a Pulp server"]);
}

/// Builds an image of the file; its name, and the version of the tool in it.
fn tool(lab: &Lab, image: &str, login: &str) -> (String, String) {
    let mut command = lab.kiln_command(&["--json", "image", "build", image]);
    let output = command.env(GUARDED, login).output().expect("kiln runs");
    assert!(output.status.success(), "{}", printed(&output));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let name = rows[0]["name"].as_str().expect("a name").to_string();
    let version = version(lab, &name, OLD.name).expect("the package");
    (name, version)
}

fn version(lab: &Lab, image: &str, package: &str) -> Option<String> {
    let manifest = lab.json(&["image", "show", image]);
    let packages = manifest["packages"].as_array().expect("packages").clone();
    let found = packages.iter().find(|found| found["name"] == package)?;
    found["version"].as_str().map(String::from)
}

/// A later sync changes what is built only where the file says so.
pub fn built(lab: &mut Lab) {
    server(lab);
    let path = "built/stable";
    let repository = site(lab, path);
    sync(lab, &[]);
    let before = read(&snapshots(lab));
    repository.publish_current(path, "stable", &[NEW]);
    sync(lab, &[]);
    let after = read(&snapshots(lab));
    assert_ne!(before, after);

    // What was committed is built, although upstream has lost it.
    fs::write(snapshots(lab), &before).expect("written");
    let (pinned, version) = tool(lab, "pinned", "");
    assert_eq!(version, "1.0");
    assert_eq!(tool(lab, "pinned", "").0, pinned, "a recipe that is the same is not built again");
    fs::write(snapshots(lab), &after).expect("written");
    let (moved, version) = tool(lab, "pinned", "");
    assert_eq!(version, "1.1");
    fs::write(snapshots(lab), &before).expect("written");
    assert_eq!(tool(lab, "pinned", "").0, pinned, "the way back needs no build");
    for name in [pinned, moved] {
        lab.kiln(&["image", "delete", &name, "--yes"]);
    }
    fs::remove_file(snapshots(lab)).expect("removed");
    lab.write_file(&lab.example());
}

/// The software of all roles upon a plain image, all of it out of snapshots, one of which is guarded. A later sync is seen by an
/// image that takes the repository as it is, and by no other.
fn fat(lab: &mut Lab, system: &str) {
    server(lab);
    let example =
        lab.example().replace(&format!("source = \"{}\"", lab.suite), &format!("source = \"{system}\""));
    let repository = Repository::new();
    fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    // The server cannot fetch a part of Debian: it gets a suite of just what such an image has. Built also where a run that was cut
    // off has left the image, for its packages.
    lab.write_file(&format!("{example}\n[image.whole]\nsource = \"default\"\nsoftware = [\"chrony\"]\n"));
    let kept = lab.path("kept");
    let whole = lab.json(&[
        "image",
        "build",
        "whole",
        "--force",
        "--keep-packages",
        kept.to_str().expect("a plain path"),
    ]);
    let [debian, tools] = ["debian", "tools"].map(|name| format!("{system}/{name}"));
    repository.publish_kept(&debian, system, &kept.join("whole"));
    repository.publish_current(&tools, "stable", &[OLD]);

    let source = |name: &str, path: &str, suite: &str, more: &str| {
        format!(
            "[source.{name}]\naddress = \"{}/{path}\"\nsuites = [\"{suite}\"]\nkey = \"site.asc\"\n{more}\n",
            repository.address
        )
    };
    let tables = [
        PulpServer::table(),
        source("debian", &debian, system, &format!("pulp = \"{debian}\"")),
        source("tools", &tools, "stable", &format!("pulp = \"{tools}\"\ncredentials = \"env:{GUARDED}\"")),
        source("now", &tools, "stable", ""),
        format!(
            "[image.fat]\nsource = \"{system}\"\nsources = [\"debian\", \"tools\"]\npackages = [\"{}\"]\n",
            OLD.name
        ),
        "[image.now]\nsource = \"fat\"\nsoftware = [\"chrony\"]\nsources = [\"now\", \"debian\"]\n"
            .to_string(),
    ];
    lab.write_file(&format!("{example}\n{}", tables.join("\n")));
    sync(lab, &[]);
    let committed = read(&snapshots(lab));
    repository.publish_current(&tools, "stable", &[NEW]);
    sync(lab, &[]);
    assert_ne!(read(&snapshots(lab)), committed);
    fs::write(snapshots(lab), &committed).expect("written");
    let stamp =
        committed.lines().find_map(|line| line.strip_prefix("tools = ")).expect("a stamp").trim_matches('"');
    let login = lab.pulp.as_ref().expect("a server").guard(&format!("{tools}/{stamp}"));
    let password = login.split_once(':').expect("a password").1;

    // From Pulp, and not from what other builds have left on this machine.
    let _ = fs::remove_dir_all(cloud_root().join("packages"));
    let (fat, pinned) = tool(lab, "fat", &login);
    assert_eq!(pinned, "1.0");
    for package in ["slurmctld", "slurmdbd", "mariadb-server", "slurmd", "less"] {
        assert_eq!(version(lab, &fat, package), version(lab, "default", package), "{package}");
        assert!(version(lab, &fat, package).is_some(), "{package}");
    }
    let (now, unpinned) = tool(lab, "now", &login);
    assert_eq!(unpinned, "1.1");
    // It is an extra image: it adds a set of software.
    assert_eq!([&fat, &now].map(|image| version(lab, image, "chrony").is_some()), [false, true]);

    // As clean and complete as one from Debian's own mirror, and so is what is built upon it.
    for image in [&fat, &now] {
        assert_eq!(faults(lab, image, Some(0)), Vec::<String>::new(), "{image}");
    }
    let layers = layers(&fat);
    assert!(layers.iter().any(|layer| !holding(&layer.join("usr/share/kiln-pulp"), "old").is_empty()));
    for dir in layers.iter().chain([&cloud_root().join("instances")]) {
        assert_eq!(betraying(dir, password), Vec::<PathBuf>::new());
    }
    let top = layers.last().expect("a layer");
    assert!(top.join("etc/apt/sources.list.kiln.disabled").exists(), "the system's own are of another time");

    // Without the password the server answers 403.
    let tables = tables.join("\n").replace(&format!("credentials = \"env:{GUARDED}\"\n"), "");
    lab.write_file(&format!("{example}\n{tables}"));
    let refused = printed(&lab.try_kiln(&["image", "build", "fat", "--force"]));
    let wanted = "the server of source tools wants user and password: `credentials` in [source.tools]";
    assert!(refused.contains("403") && refused.contains(wanted), "{refused}");

    let whole = whole[0]["name"].as_str().expect("a name").to_string();
    for name in [now, fat, whole] {
        lab.kiln(&["image", "delete", &name, "--yes"]);
    }
    for path in [&debian, &tools] {
        fs::remove_dir_all(repository.directory(path)).expect("removed");
    }
    fs::remove_dir_all(kept).expect("removed");
    fs::remove_file(snapshots(lab)).expect("removed");
    lab.write_file(&lab.example());
}

pub fn fat_on_bookworm(lab: &mut Lab) {
    fat(lab, "bookworm");
}

pub fn fat_on_trixie(lab: &mut Lab) {
    fat(lab, "trixie");
}
