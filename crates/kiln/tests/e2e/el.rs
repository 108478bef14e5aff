//! Image builds of the EL family, with real dnf and rpm. No EL system is at hand: a Debian image with dnf stands for one, and the
//! packages, which are empty, have the names that Kiln asks for. Everything that Kiln does, it does as it would on EL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kiln_spec::SNAPSHOTS_FILE;
use serde_json::Value;

use crate::cluster_dir::printed;
use crate::image_builds::layers;
use crate::instance;
use crate::lab::{Lab, cloud_root, read};
use crate::pulp;
use crate::pulp_server::{CONTENT, LOGIN, PulpServer};
use crate::repository::{PASSWORD, Repository};
use crate::rpms::{self, Rpm};
use crate::search::{betraying, holding};

const VARIABLE: &str = "KILN_E2E_REPOSITORY";

/// What a cloud's image of an EL system would have: dnf, first packages, SELinux, and repositories of its own. Debian's rpm has its database
/// elsewhere, and a plugin of its dnf breaks installations. Kiln's users are not there yet.
const MACHINE: &str = r#"
[image.machine]
roles = []
packages = ["dnf", "dnf-plugins-core", "gpg", "rpm"]
commands = ['''
set -eu
mkdir -p /etc/rpm /etc/yum.repos.d
echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
printf '[main]\nenabled=False\n' >/etc/dnf/plugins/local.conf
printf '[base]\nname=base\nbaseurl=http://127.0.0.1:9/base\ngpgcheck=1\n' >/etc/yum.repos.d/base.repo
cd /var/tmp
mkdir -p /etc/selinux
printf '# of the system\nSELINUX=enforcing\nSELINUXTYPE=targeted\n' >/etc/selinux/config
for package in el-release:9-1 kernel-core:5.14.0-1.el9 munge:0.1-1; do
    name=${package%:*} version=${package#*:}
    printf 'Name: %s\nVersion: %s\nRelease: %s\nSummary: s\nLicense: none\nBuildArch: noarch\nProvides: system-release\n%%description\ns\n%%files\n' \
        "$name" "${version%-*}" "${version#*-}" >"$name.spec"
    rpmbuild --quiet -bb --define "_topdir /var/tmp/rpm" "$name.spec"
done
rpm --install rpm/RPMS/noarch/*.rpm
rm -rf rpm *.spec
for user in kilnd munge slurm mysql; do userdel "$user"; done
''']
"#;

/// What a compute node needs.
const COMPUTE: [Rpm; 13] = [
    Rpm { name: "ca-certificates", version: "2024-1.el9" },
    Rpm { name: "dbus", version: "1.12-1.el9" },
    Rpm { name: "glibc", version: "2.34-100.el9" },
    Rpm { name: "iproute", version: "6.2-1.el9" },
    MUNGE,
    Rpm { name: "nftables", version: "1.0-1.el9" },
    Rpm { name: "openssh-server", version: "8.7-1.el9" },
    Rpm { name: "pmix", version: "3.2-1.el9" },
    Rpm { name: "procps-ng", version: "3.3-1.el9" },
    SLURM,
    Rpm { name: "slurm-pam_slurm", version: "22.05.9-1.el9" },
    Rpm { name: "slurm-slurmd", version: "22.05.9-1.el9" },
    Rpm { name: "sudo", version: "1.9-1.el9" },
];
const MUNGE: Rpm = Rpm { name: "munge", version: "0.5.13-13.el9" };
const LATER: &str = "99-1.el9";
const SLURM: Rpm = Rpm { name: "slurm", version: "22.05.9-1.el9" };

/// The repository as it is later: some packages are newer.
fn later(gone: &[&str]) -> Vec<Rpm> {
    let newer = |rpm: &Rpm| Rpm { version: LATER, ..*rpm };
    COMPUTE.iter().map(|rpm| if gone.contains(&rpm.name) { newer(rpm) } else { *rpm }).collect()
}

/// Builds image `el`.
fn build(lab: &Lab, login: &str, more: &[&str]) -> Output {
    let words = ["--json", "image", "build", "el"].into_iter().chain(more.iter().copied());
    let mut command = lab.kiln_command(&words.collect::<Vec<_>>());
    command.env(VARIABLE, login).output().expect("kiln runs")
}

fn built(output: &Output) -> String {
    assert!(output.status.success(), "{}", printed(output));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    rows[0]["name"].as_str().expect("a name").to_string()
}

/// A build that must fail, and say so.
fn refused(lab: &Lab, login: &str, more: &[&str], said: &[&str]) {
    let output = build(lab, login, more);
    let words = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{said:?}: {words}");
    assert!(said.iter().all(|said| words.contains(said)), "{said:?}: {words}");
    assert!(!words.contains(PASSWORD), "{words}");
}

struct Scene {
    repository: Repository,
    machine: String,
}

impl Scene {
    fn new(lab: &Lab) -> Scene {
        lab.write_file(&format!("{}{}", lab.example(), MACHINE.replace("roles", &source(lab))));
        let rows = lab.json(&["image", "build", "machine"]);
        let machine = rows[0]["name"].as_str().expect("a name").to_string();
        Scene { repository: Repository::new(), machine }
    }

    /// The file with an image of the EL family that is built from a snapshot.
    fn write(&self, lab: &Lab, snapshot: &str, key: &str, more: &str) {
        let tables = format!(
            "[source.site]\naddress = \"{}/closed/el9\"\nsnapshot = \"{snapshot}\"\nkey = \"{key}\"\n\
             credentials = \"env:{VARIABLE}\"\n\
             [image.rocky]\nprebuilt = \"{}\"\nsystem = \"rocky9\"\nroles = []\n\
             [image.el]\nsource = \"rocky\"\nroles = [\"compute\"]\nsources = [\"site\"]\n{more}",
            self.repository.address, self.machine
        );
        lab.write_file(&format!("{}{}\n{tables}", lab.example(), MACHINE.replace("roles", &source(lab))));
    }

    fn publish(&self, snapshot: &str, packages: &[Rpm]) -> PathBuf {
        let dir = self.repository.directory(&format!("closed/el9/{snapshot}"));
        rpms::publish(&dir, packages, &self.repository.gnupg_home());
        dir
    }
}

fn source(lab: &Lab) -> String {
    format!("source = \"{}\"\nroles", lab.suite)
}

/// A database of rpm, asked by this machine's rpm.
fn rpm_query(layer: &Path, words: &[&str]) -> String {
    let output = Command::new("rpm").arg("--dbpath").arg(layer.join("var/lib/rpm")).args(words).output();
    String::from_utf8_lossy(&output.expect("rpm runs").stdout).trim().to_string()
}

/// From a signed snapshot that needs a password, with all that can go wrong first.
pub fn built_from_a_snapshot(lab: &mut Lab) {
    let scene = Scene::new(lab);
    let repository = &scene.repository;
    let snapshot = scene.publish("1", &COMPUTE);
    fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    fs::write(lab.path("other.asc"), Repository::new().key()).expect("a key");

    scene.write(lab, "1", "other.asc", "");
    refused(lab, &repository.login, &[], &["updating packages", "GPG"]);
    scene.write(lab, "nowhere", "site.asc", "");
    refused(lab, &repository.login, &[], &["updating packages", "404"]);
    scene.write(lab, "1", "site.asc", "");
    let words = printed(&build(lab, &repository.login, &["--keep-packages", "kept"]));
    assert!(words.contains("Kiln cannot keep the packages of an image of the el family"), "{words}");

    let name = built(&build(lab, &repository.login, &[]));
    let manifest = lab.json(&["image", "show", &name]);
    assert_eq!((&manifest["family"], &manifest["slurm"]), (&"el".into(), &"22.05.9".into()), "{manifest}");
    let packages = manifest["packages"].as_array().expect("packages").clone();
    for wanted in COMPUTE.iter().filter(|rpm| rpm.name != "glibc") {
        let found = packages.iter().find(|package| package["name"] == wanted.name);
        let found = found.unwrap_or_else(|| panic!("no {} in {packages:?}", wanted.name));
        assert_eq!((&found["version"], &found["architecture"]), (&wanted.version.into(), &"noarch".into()));
        assert_eq!(found["sha256"], rpms::hash(&snapshot, *wanted), "{}", wanted.name);
    }
    assert_eq!(
        packages.len(),
        COMPUTE.len() + 1,
        "with the machine's own two, without one that nothing asks for"
    );

    let layers = layers(&name);
    let top = layers.last().expect("a layer");
    assert!(!holding(&top.join("var/lib/rpm"), SLURM.name).is_empty(), "the search finds what is there");
    for dir in layers.iter().chain([&cloud_root().join("instances")]) {
        assert_eq!(betraying(dir, PASSWORD), Vec::<PathBuf>::new());
        assert_eq!(holding(dir, &repository.address), Vec::<PathBuf>::new());
    }
    let users = read(&top.join("etc/passwd"));
    for (user, id) in [("mysql", 64_001), ("slurm", 64_030), ("munge", 64_831), ("kilnd", 64_832)] {
        assert!(users.contains(&format!("{user}:x:{id}:{id}:")), "{users}");
    }
    assert!(top.join("etc/yum.repos.d/base.repo.kiln.disabled").exists());
    assert_eq!(rpm_query(top, &["-q", "munge"]), "munge-0.5.13-13.el9.noarch");
    assert_eq!(rpm_query(top, &["-qa", "gpg-pubkey"]), "", "no key is trusted any more");
    for gone in ["var/cache/dnf", "var/log/dnf.log", "etc/pki/rpm-gpg/kiln-site"] {
        // What the layer takes away from the one below is neither.
        let path = top.join(gone);
        assert!(!path.is_file() && !path.is_dir(), "{gone} is left");
    }
    locked(lab, &scene, &name);
    lab.kiln(&["image", "delete", &name, "--yes"]);
}

/// A new kernel is in use from the next boot on: the build reboots before it goes on. SELinux is not enforced on nodes.
pub fn rebooted(lab: &mut Lab) {
    let scene = Scene::new(lab);
    let kernel = Rpm { name: "kernel-core", version: "5.14.0-503.el9" };
    scene.publish("1", &COMPUTE.into_iter().chain([kernel]).collect::<Vec<_>>());
    fs::write(lab.path("site.asc"), scene.repository.key()).expect("the key");
    // Not there any more after a boot.
    scene.write(lab, "1", "site.asc", "commands = [\"test ! -e /run/kiln-reboot-for\"]\n");
    let mut command = lab.kiln_command(&["image", "build", "el"]);
    let output = command.env(VARIABLE, &scene.repository.login).output().expect("kiln runs");
    let said = printed(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("rebooting for kernel-core 5.14.0-503.el9"), "{said}");
    assert!(said.lines().any(|line| line.contains("built in") && line.contains("reboot ")), "{said}");
    let name = built(&build(lab, &scene.repository.login, &[]));
    let manifest = lab.json(&["image", "show", &name]);
    let packages = manifest["packages"].as_array().expect("packages");
    let found = packages.iter().filter(|package| package["name"] == kernel.name);
    assert_eq!(found.map(|package| &package["version"]).collect::<Vec<_>>(), [kernel.version]);
    let state = read(&layers(&name).last().expect("a layer").join("etc/selinux/config"));
    assert_eq!(state, "# of the system\nSELINUX=permissive\nSELINUXTYPE=targeted\n");
    lab.kiln(&["image", "delete", &name, "--yes"]);
}

/// The same versions again, though newer ones are there; versions that are gone are all named.
fn locked(lab: &Lab, scene: &Scene, first: &str) {
    let login = &scene.repository.login;
    lab.kiln(&["image", "lock", "el"]);
    scene.publish("1", &later(&["munge", "slurm"]));
    let gone = "no package source has munge 0.5.13-13.el9, slurm 22.05.9-1.el9";
    refused(lab, login, &["--locked"], &["looking for the packages of the lock", gone]);
    let newer = later(&["munge", "slurm"]).into_iter().filter(|rpm| rpm.version.starts_with("99"));
    scene.publish("1", &COMPUTE.into_iter().chain(newer).collect::<Vec<_>>());
    let second = built(&build(lab, login, &["--locked"]));
    let packages = |name: &str| lab.json(&["image", "show", name])["packages"].clone();
    assert_eq!(packages(&second), packages(first));
    let conf = layers(&second).iter().any(|layer| layer.join("etc/dnf/kiln-before-lock.conf").exists());
    assert!(!conf, "dnf is free again");
    lab.kiln(&["image", "delete", &second, "--yes"]);
}

/// A Pulp server fetches RPMs, and makes a snapshot when something is new. An image has the packages of the snapshot that is committed.
pub fn synced(lab: &mut Lab) {
    let server = lab.pulp.get_or_insert_with(PulpServer::start);
    assert_eq!(server.ask("repositories/rpm/rpm/")["count"], 0);
    let scene = Scene::new(lab);
    let repository = &scene.repository;
    let upstream = repository.directory("el9");
    rpms::publish(&upstream, &COMPUTE, &repository.gnupg_home());
    fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    scene.write(lab, "1", "site.asc", "");
    lab.edit(
        &format!("address = \"{}/closed/el9\"\nsnapshot = \"1\"\n", repository.address),
        &format!("address = \"{}/el9\"\npulp = \"rocky/9\"\n", repository.address),
    );
    lab.edit(&format!("credentials = \"env:{VARIABLE}\"\n"), &PulpServer::table());
    let sync = || {
        let output = pulp::try_sync(lab, LOGIN, &[]);
        assert!(output.status.success(), "{}", printed(&output));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")[0].clone()
    };
    let first = sync();
    assert_eq!((&first["made"], &first["packages"]["all"]), (&true.into(), &COMPUTE.len().into()), "{first}");
    assert_eq!(sync()["made"], false, "nothing is new");
    let committed = read(&lab.path(SNAPSHOTS_FILE));
    rpms::publish(&upstream, &later(&["munge"]), &repository.gnupg_home());
    let second = sync();
    assert_eq!((&second["made"], &second["before"]), (&true.into(), &first["after"]), "{second}");
    assert_ne!(second["after"], first["after"]);

    let munge = |name: &str| {
        let packages = lab.json(&["image", "show", name])["packages"].as_array().expect("packages").clone();
        let found = packages.into_iter().find(|package| package["name"] == MUNGE.name).expect("munge");
        (found["version"].clone(), found["sha256"].clone())
    };
    let newer = built(&build(lab, "", &[]));
    let latest = Rpm { version: LATER, ..MUNGE };
    assert_eq!(munge(&newer), (LATER.into(), rpms::hash(&upstream, latest).into()));
    fs::write(lab.path(SNAPSHOTS_FILE), &committed).expect("written");
    let pinned = built(&build(lab, "", &[]));
    assert_eq!(munge(&pinned).0, MUNGE.version);
    for layer in layers(&pinned) {
        assert_eq!(holding(&layer, CONTENT), Vec::<PathBuf>::new(), "nodes do not ask the server");
    }
    for name in [newer, pinned] {
        lab.kiln(&["image", "delete", &name, "--yes"]);
    }
    fs::remove_file(lab.path(SNAPSHOTS_FILE)).expect("removed");
}

/// What a node of the family is asked: whether its updates need a reboot, and whether SELinux is enforced. Asked on a build instance
/// that is kept.
pub fn asked(lab: &mut Lab) {
    let scene = Scene::new(lab);
    scene.publish("1", &COMPUTE);
    fs::write(lab.path("site.asc"), scene.repository.key()).expect("the key");
    scene.write(lab, "1", "site.asc", "packages = [\"glibc\"]\ncommands = [\"exit 9\"]\n");
    refused(lab, &scene.repository.login, &["--keep-on-failure"], &["exit 9"]);
    let el = kiln_distro::Family::named("el").expect("the family");
    let answers_behind = |before: &[&str]| {
        let ask = |ask: &kiln_distro::Ask| {
            let words = [before, ask.command].concat();
            let mut command = instance::command_in(BUILD, &words).expect("the build instance");
            (ask.complaint, command.status().expect("it runs").success())
        };
        el.checks.iter().map(ask).filter(|(_, well)| !well).map(|(what, _)| what).collect::<Vec<_>>()
    };
    let answers = || answers_behind(&[]);
    assert_eq!(answers(), ["packages were updated since the last boot that need a reboot"]);
    let remove = ["rpm", "--erase", "--nodeps", "dbus", "glibc"];
    assert!(instance::command_in(BUILD, &remove).expect("it").status().expect("it runs").success());
    assert_eq!(answers(), [""; 0]);
    // As a kernel with SELinux says it.
    for (state, complaints) in [("0", 0), ("1", 1)] {
        let answers = answers_behind(&["unshare", "--mount", "sh", "-c", WITH_SELINUX, state]);
        assert_eq!(answers.len(), complaints, "{state}: {answers:?}");
        assert!(answers.iter().all(|answer| answer.starts_with("SELinux is enforced")), "{answers:?}");
    }
}

const WITH_SELINUX: &str = "mount -t tmpfs fs /sys/fs && mkdir /sys/fs/selinux && printf %s \"$0\" >/sys/fs/selinux/enforce && \
                            exec \"$@\"";

const BUILD: &str = "e2e-build";
