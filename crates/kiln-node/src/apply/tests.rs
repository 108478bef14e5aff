//! Whole applies against a temporary root.

use super::*;
use crate::state;
use kiln_wire::AppliedResult;
use kiln_wire::bundle::{Command, Directory, EVERYTHING, File, Link, Mount, MountSource};
use kiln_wire::make;
use std::os::unix::fs::PermissionsExt;

/// A service with another number than Kiln's images have owns other files than it should.
#[test]
fn a_service_user_with_another_number_is_refused() {
    let fixture = Fixture::new();
    fixture.write("etc/passwd", "munge:x:103:105::/var/lib/munge:/bin/false\n");
    fixture.write("etc/group", "munge:x:105:\n");
    let options = ApplyOptions { dry_run: true, root: fixture.root.path().into(), before: None };
    let mut session = Session::start(&bundle(&[]), &options).unwrap();
    let mut user = |uid, gid| {
        let user = kiln_wire::bundle::User {
            name: "munge".into(),
            uid,
            gid,
            groups: Vec::new(),
            home: "/nonexistent".into(),
            shell: "/usr/sbin/nologin".into(),
            make_home: false,
            system: true,
        };
        account::apply_user(&mut session, &user).map(|verdict| verdict.outcome).map_err(|e| e.to_string())
    };
    // Home and shell are the package's.
    assert_eq!(user(103, 105), Ok(Outcome::Unchanged));
    let words = user(64_831, 64_831).unwrap_err();
    assert!(words.starts_with("this image has it with uid 103; Kiln's images have 64831."), "{words}");
    assert!(user(103, 64_831).unwrap_err().contains("gid 105"));
}

/// What comes later is not touched, and the bundle does not count as applied.
#[test]
fn the_rest_of_a_bundle_can_wait() {
    let fixture = Fixture::new();
    let resources = [file("/etc/a", "a\n"), file("/etc/b", "b\n"), file("/etc/c", "c\n")];
    let before = Some("file:/etc/b".to_string());
    let options = ApplyOptions { dry_run: false, root: fixture.root.path().into(), before };
    let report = apply(&bundle(&resources), &options, &mut |_| ());
    assert!(report.ok() && fixture.path("/etc/a").exists() && !fixture.path("/etc/b").exists());
    assert!(!fixture.path("/etc/c").exists());
    assert!(state::applied(fixture.root.path()).is_none());
    assert_eq!(fixture.apply(&resources).changed(), 2);
    assert!(state::applied(fixture.root.path()).is_some());
}

struct Fixture {
    root: tempfile::TempDir,
}

impl Fixture {
    /// `root` is whoever runs the tests, so that ownership can be set.
    fn new() -> Self {
        let fixture = Fixture { root: tempfile::tempdir().unwrap() };
        let owner = state::process_owner();
        fixture.write("etc/passwd", &format!("root:x:{}:{}::/root:/bin/sh\n", owner.uid, owner.gid));
        fixture.write("etc/group", &format!("root:x:{}:\n", owner.gid));
        fixture
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    fn mode(&self, path: &str) -> u32 {
        std::fs::metadata(self.path(path)).unwrap().permissions().mode() & 0o7777
    }

    fn run(&self, resources: &[Resource], dry_run: bool) -> ApplyReport {
        let options = ApplyOptions { dry_run, root: self.root.path().into(), before: None };
        let mut seen = 0;
        let report = apply(&bundle(resources), &options, &mut |step| {
            seen += usize::from(matches!(step, Turn::Ended(_)));
        });
        assert_eq!(seen, report.resources.len());
        report
    }

    fn apply(&self, resources: &[Resource]) -> ApplyReport {
        self.run(resources, false)
    }

    /// Every path below the root with its content, to see that nothing moved.
    fn snapshot(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn visit(directory: &std::path::Path, all: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                all.push((path.clone(), std::fs::read(&path).unwrap_or_default()));
                if path.is_dir() && !path.is_symlink() {
                    visit(&path, all);
                }
            }
        }
        let mut all = Vec::new();
        visit(self.root.path(), &mut all);
        all.sort();
        all
    }
}

fn bundle(resources: &[Resource]) -> Bundle {
    Bundle {
        kiln: None,
        format: kiln_wire::Version,
        cluster: "demo".into(),
        node: "c1".into(),
        role: "compute".into(),
        resources: resources.to_vec(),
    }
}

fn file(path: &str, content: &str) -> Resource {
    Resource::File(make::file(path, content))
}

fn secret(path: &str, content: &str) -> Resource {
    Resource::File(File { secret: true, mode: 0o600, ..make::file(path, content) })
}

fn link(path: &str, target: &str) -> Resource {
    Resource::Link(Link { path: path.into(), target: target.into() })
}

fn directory(path: &str, mode: u32) -> Resource {
    Resource::Directory(Directory { path: path.into(), mode, owner: "root".into(), group: "root".into() })
}

fn command(name: &str, argv: &[&str]) -> Command {
    Command {
        name: name.into(),
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        stdin: None,
        unless: None,
        when_changed: Vec::new(),
        retry_seconds: 0,
        needs: Vec::new(),
    }
}

fn outcomes(report: &ApplyReport) -> Vec<Outcome> {
    report.resources.iter().map(|report| report.outcome).collect()
}

#[test]
fn content_that_its_program_refuses_is_not_written() {
    let fixture = Fixture::new();
    let checked = |content: &str| {
        let check = ["grep", "-q", "good", "{}"].map(String::from).to_vec();
        [Resource::File(File { check, ..make::file("/etc/slurm/slurm.conf", content) })]
    };
    assert_eq!(outcomes(&fixture.apply(&checked("good\n"))), [Outcome::Changed]);
    let refused = fixture.apply(&checked("bad\n"));
    assert_eq!(outcomes(&refused), [Outcome::Failed]);
    assert!(refused.resources[0].summary.contains("left as it was"), "{:?}", refused.resources[0]);
    assert_eq!(fixture.read("/etc/slurm/slurm.conf"), "good\n");
}

#[test]
fn everything_is_made_once() {
    let fixture = Fixture::new();
    let resources = [
        directory("/var/spool/slurm", 0o750),
        file("/etc/slurm/slurm.conf", "ClusterName=demo\n"),
        secret("/etc/munge/munge.key", "k"),
        link("/etc/localtime", "/usr/share/zoneinfo/UTC"),
        Resource::File(File { base64: true, ..make::file("/etc/bytes", "AAEC/w==") }),
    ];
    let first = fixture.apply(&resources);
    assert!(first.ok() && first.count(Outcome::Changed) == 5, "{first:?}");
    assert_eq!(fixture.mode("/var/spool/slurm"), 0o750);
    assert_eq!(fixture.mode("/var/spool"), 0o755);
    assert_eq!(fixture.mode("/etc/munge/munge.key"), 0o600);
    assert_eq!(std::fs::read(fixture.path("/etc/bytes")).unwrap(), [0, 1, 2, 255]);
    assert_eq!(
        std::fs::read_link(fixture.path("/etc/localtime")).unwrap().to_str(),
        Some("/usr/share/zoneinfo/UTC")
    );

    let second = fixture.apply(&resources);
    assert_eq!(second.count(Outcome::Unchanged), 5, "{second:?}");
    let applied = state::applied(fixture.root.path()).unwrap();
    assert_eq!((applied.digest, applied.result), (bundle(&resources).digest(), AppliedResult::Ok));
    assert_eq!(fixture.mode("/var/lib/kiln/applied.json"), 0o644);
}

#[test]
fn a_dry_run_reports_the_same_and_does_nothing() {
    let fixture = Fixture::new();
    fixture.apply(&[file("/etc/old", "old\n"), file("/etc/a", "1\n")]);
    let marker = fixture.path("/ran");
    let resources = [
        file("/etc/a", "2\n"),
        file("/etc/new/b", "b\n"),
        link("/etc/l", "a"),
        directory("/srv/d", 0o700),
        Resource::Command(command("touch", &["touch", marker.to_str().unwrap()])),
    ];
    let before = fixture.snapshot();
    let dry = fixture.run(&resources, true);
    assert_eq!(fixture.snapshot(), before);
    let wet = fixture.apply(&resources);
    assert_eq!(outcomes(&dry), outcomes(&wet));
    let diffs = |report: &ApplyReport| report.resources.iter().map(|r| r.diff.clone()).collect::<Vec<_>>();
    assert_eq!(diffs(&dry), diffs(&wet));
}

#[test]
fn diffs_show_text_mode_and_owner() {
    let fixture = Fixture::new();
    fixture.apply(&[file("/etc/a", "1\n2\n")]);
    let report = fixture.apply(&[Resource::File(File { mode: 0o600, ..make::file("/etc/a", "1\n3\n") })]);
    let only = &report.resources[0];
    assert_eq!(only.summary, "content, mode: 0644 -> 0600");
    assert_eq!(
        only.diff.as_deref(),
        Some("mode: 0644 -> 0600\n--- /etc/a\n+++ /etc/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n")
    );
    let report = fixture.apply(&[file("/etc/a", "1\n3\n")]);
    assert_eq!(report.resources[0].diff.as_deref(), Some("mode: 0600 -> 0644\n"));
}

#[test]
fn secrets_appear_nowhere() {
    let fixture = Fixture::new();
    fixture.apply(&[secret("/etc/key", "FIRSTSECRET")]);
    let said = ["sh", "-c", "cat >&2; echo stdout; exit 3"];
    let resources = [
        secret("/etc/key", "SECONDSECRET"),
        Resource::File(File { secret: true, base64: true, ..make::file("/etc/bad", "NOTBASE64SECRET!") }),
        Resource::Command(Command { stdin: Some("password=INPUTSECRET\n".into()), ..command("c", &said) }),
    ];
    let report = fixture.apply(&resources);
    assert_eq!(outcomes(&report), [Outcome::Changed, Outcome::Failed, Outcome::Failed]);
    let json = serde_json::to_string(&report).unwrap();
    assert!(!json.contains("SECRET"), "{json}");
    assert!(report.resources[2].summary.contains("[hidden]"));
    for state in ["/var/lib/kiln/applied.json", "/var/lib/kiln/manifest.json"] {
        assert!(!fixture.read(state).contains("SECRET"));
    }
}

#[test]
fn what_left_the_bundle_is_removed_and_nothing_else() {
    let fixture = Fixture::new();
    fixture.write("etc/conf.d/mine", "mine");
    fixture.apply(&[
        directory("/etc/conf.d", 0o755),
        file("/etc/conf.d/a", "a"),
        link("/etc/b", "a"),
        file("/etc/c", "c"),
    ]);
    let marker = fixture.path("/ran");
    let reload = Command {
        when_changed: vec!["directory:/etc/conf.d".into()],
        ..command("reload", &["touch", marker.to_str().unwrap()])
    };
    let next = [directory("/etc/conf.d", 0o755), file("/etc/c", "c"), Resource::Command(reload)];
    let report = fixture.apply(&next);
    let removed: Vec<&str> =
        report.with(Outcome::Changed).filter(|r| r.summary == "removed").map(|r| r.id.as_str()).collect();
    assert_eq!(removed, ["file:/etc/b", "file:/etc/conf.d/a"]);
    assert!(!fixture.path("/etc/conf.d/a").exists() && fixture.path("/etc/conf.d/mine").exists());
    assert!(marker.exists(), "a removal in a directory is a change of it");
    assert_eq!(fixture.apply(&next).count(Outcome::Unchanged), 3);
}

#[test]
fn links_at_the_end_are_replaced_not_followed() {
    let fixture = Fixture::new();
    fixture.write("etc/shadow", "keep");
    std::os::unix::fs::symlink("shadow", fixture.path("/etc/x")).unwrap();
    let report = fixture.apply(&[file("/etc/x", "new")]);
    assert_eq!(report.resources[0].summary, "replaced a symbolic link");
    assert_eq!((fixture.read("/etc/shadow"), fixture.read("/etc/x")), ("keep".into(), "new".into()));
}

#[test]
fn a_failure_stops_only_those_that_depend_on_it() {
    use Outcome::{Changed, Failed, Skipped};
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.path("/etc/taken")).unwrap();
    let first = Command { when_changed: vec!["file:/etc/taken".into()], ..command("first", &["true"]) };
    let second = Command { when_changed: vec!["command:first".into()], ..command("second", &["true"]) };
    let report = fixture.apply(&[
        file("/etc/taken", "x"),
        Resource::Command(first),
        Resource::Command(second),
        file("/etc/after", "x"),
        Resource::File(File { owner: "nobody-here".into(), ..make::file("/etc/owned", "x") }),
    ]);
    assert_eq!(outcomes(&report), [Failed, Skipped, Skipped, Changed, Failed]);
    assert_eq!(report.resources[1].summary, "file:/etc/taken failed");
    assert_eq!(state::applied(fixture.root.path()).unwrap().result, AppliedResult::Failed);
}

/// What comes after it might be written to the directory below the mount point.
#[test]
fn a_mount_that_fails_ends_the_apply() {
    use Outcome::{Changed, Failed, Skipped};
    let fixture = Fixture::new();
    let mount = |target: &str| {
        let source = MountSource::Volume("demo-state".into());
        Resource::Mount(Mount { target: target.into(), source, read_only: false, format: true, quota: false })
    };
    let marker = fixture.path("/ran");
    let after = [
        directory("/state/slurmctld", 0o700),
        file("/etc/after", "x"),
        Resource::Command(command("new database", &["touch", marker.to_str().unwrap()])),
        mount("/home"),
    ];
    let bad = [&[file("/etc/before", "x"), mount("/bad place")], after.as_slice()].concat();
    let report = fixture.apply(&bad);
    assert_eq!(outcomes(&report), [Changed, Failed, Skipped, Skipped, Skipped, Skipped]);
    assert_eq!(report.resources[5].summary, "mount:/bad place failed");
    assert!(!fixture.path("/state").exists() && !marker.exists());
    assert_eq!(state::applied(fixture.root.path()).unwrap().result, AppliedResult::Failed);
    // With the volume there, nothing is left out.
    let report = fixture.apply(&after);
    assert_eq!(report.count(Failed), 0);
    assert!(fixture.path("/state/slurmctld").exists() && marker.exists());
}

/// A list whose change restarts a service is written only together with the file it was made from.
#[test]
fn a_file_that_is_refused_does_not_use_up_the_restart_it_calls_for() {
    use Outcome::{Changed, Failed, Skipped, Unchanged};
    let fixture = Fixture::new();
    let log = fixture.path("/restarts");
    let restart = Command {
        when_changed: vec!["file:/etc/restart".into()],
        ..command("restart", &["sh", "-c", &format!("echo restart >>{}", log.display())])
    };
    let resources = |conf: &str, list: &str| {
        let check = ["grep", "-q", "good", "{}"].map(String::from).to_vec();
        [
            Resource::File(File { check, ..make::file("/etc/conf", conf) }),
            Resource::File(File { needs: vec!["file:/etc/conf".into()], ..make::file("/etc/restart", list) }),
            Resource::Command(restart.clone()),
            file("/etc/other", list),
        ]
    };
    fixture.apply(&resources("good 1", "1"));
    let report = fixture.apply(&resources("typo 2", "2"));
    assert_eq!(outcomes(&report), [Failed, Skipped, Skipped, Changed]);
    assert_eq!(report.resources[1].summary, "file:/etc/conf failed");
    assert_eq!((fixture.read("/etc/restart"), fixture.read("/restarts")), ("1".into(), "restart\n".into()));
    assert_eq!(outcomes(&fixture.apply(&resources("good 2", "2"))), [Changed, Changed, Changed, Unchanged]);
    assert_eq!(fixture.read("/restarts"), "restart\nrestart\n");
    assert_eq!(fixture.apply(&resources("good 2", "2")).count(Unchanged), 4);
}

#[test]
fn what_needs_everything_waits_until_nothing_fails() {
    use Outcome::{Changed, Failed, Skipped};
    let slurmd = |fixture: &Fixture| {
        let path = fixture.path("/started").display().to_string();
        let needs = vec![EVERYTHING.into()];
        Resource::File(File { needs, ..make::file("/started", &path) })
    };
    let fixture = Fixture::new();
    let report = fixture.apply(&[
        Resource::Command(command("site commands", &["false"])),
        file("/etc/a", "a"),
        slurmd(&fixture),
    ]);
    assert_eq!(outcomes(&report), [Failed, Changed, Skipped]);
    assert_eq!(report.resources[2].summary, "command:site commands failed");
    let report = fixture.apply(&[file("/etc/a", "a"), slurmd(&fixture)]);
    assert!(report.ok() && fixture.path("/started").exists());

    // What an earlier bundle had and this one lacks is part of it, too.
    let fixture = Fixture::new();
    fixture.apply(&[file("/etc/old/a", "a")]);
    std::fs::remove_dir_all(fixture.path("/etc/old")).unwrap();
    fixture.write("etc/old", "a file where a directory was");
    let report = fixture.apply(&[slurmd(&fixture)]);
    assert_eq!(outcomes(&report), [Failed, Skipped], "{report:?}");
}

/// Sealed bundles on a share, and those of an older deploy host, do not have every field of today's.
#[test]
fn a_bundle_of_an_older_kiln_is_applied() {
    let old = r#"{"cluster": "demo", "node": "c1", "role": "compute", "resources": [
        {"kind": "file", "path": "/etc/a", "content": "a", "mode": 420, "owner": "root", "group": "root",
         "secret": false, "base64": false},
        {"kind": "service", "unit": "slurmd.service", "enabled": false, "running": true,
         "restart_on": ["file:/etc/a"], "reload_on": []}]}"#;
    let bundle: Bundle = serde_json::from_str(old).unwrap();
    let fixture = Fixture::new();
    assert_eq!(outcomes(&fixture.apply(&bundle.resources)), [Outcome::Changed, Outcome::Skipped]);
    assert!(!serde_json::to_string(&bundle).unwrap().contains("needs"), "its digest stays the same");
}

#[test]
fn commands_run_when_they_must() {
    let fixture = Fixture::new();
    let marker = fixture.path("/marker");
    let marker = marker.to_str().unwrap();
    let unless = Command {
        unless: Some(vec!["test".into(), "-e".into(), marker.into()]),
        ..command("make", &["touch", marker])
    };
    let react = Command { when_changed: vec!["file:/etc/a".into()], ..command("react", &["true"]) };
    let resources = [file("/etc/a", "1"), Resource::Command(unless), Resource::Command(react)];
    assert_eq!(fixture.apply(&resources).count(Outcome::Changed), 3);
    assert_eq!(fixture.apply(&resources).count(Outcome::Unchanged), 3);
    let always = [Resource::Command(command("always", &["true"]))];
    assert_eq!(fixture.apply(&always).count(Outcome::Changed), 2, "the command, and the file that went");
}

#[test]
fn a_reaction_that_failed_is_still_owed() {
    let fixture = Fixture::new();
    let marker = fixture.path("/ready");
    let react = Command {
        when_changed: vec!["file:/etc/a".into()],
        ..command("react", &["test", "-e", marker.to_str().unwrap()])
    };
    let resources = [file("/etc/a", "1"), Resource::Command(react)];
    assert_eq!(outcomes(&fixture.apply(&resources)), [Outcome::Changed, Outcome::Failed]);
    std::fs::write(&marker, "").unwrap();
    assert_eq!(outcomes(&fixture.apply(&resources)), [Outcome::Unchanged, Outcome::Changed]);
    assert_eq!(outcomes(&fixture.apply(&resources)), [Outcome::Unchanged, Outcome::Unchanged]);
}

#[test]
fn commands_are_tried_again_and_explain_themselves() {
    let fixture = Fixture::new();
    let counter = fixture.path("/count");
    let script = format!("echo x >> {0}; test $(wc -l < {0}) -ge 3", counter.display());
    let retried = Command { retry_seconds: 120, ..command("retried", &["sh", "-c", &script]) };
    assert!(fixture.apply(&[Resource::Command(retried)]).ok());
    let report = fixture.apply(&[Resource::Command(command("bad", &["ls", "/no/such/thing"]))]);
    assert!(report.resources[0].summary.contains("No such file"), "{report:?}");
    let missing = fixture
        .apply(&[Resource::Command(Command { retry_seconds: 60, ..command("gone", &["/no/program"]) })]);
    assert_eq!(missing.count(Outcome::Failed), 1);
}

#[test]
fn sixty_unchanged_resources_stay_as_they_are() {
    let fixture = Fixture::new();
    let resources: Vec<Resource> =
        (0..60).map(|n| file(&format!("/etc/many/{n}"), &"line\n".repeat(100))).collect();
    fixture.apply(&resources);
    assert_eq!(fixture.apply(&resources).count(Outcome::Unchanged), 60);
}
