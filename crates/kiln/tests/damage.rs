//! Everything that Kiln reads and did not just write itself, damaged in every way: nothing may panic or hang. Each sample is
//! whole first, so that damage is done to what would be read.
//!
//! `KILN_DAMAGE_SECONDS` goes on for that long with each reader (`./dev damage`).

use std::fs;
use std::time::{Duration, Instant};

use kiln_wire::{BackupList, Bundle, FleetFile, Format as _, UserData};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Reads a sample whole, which must succeed, then damaged.
fn damage(sample: &str, read: impl Fn(&[u8]) -> bool) {
    assert!(read(sample.as_bytes()), "the sample itself cannot be read");
    let seconds = std::env::var("KILN_DAMAGE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds));
    let length = sample.len();
    // What is special to one of the formats, and what no format expects.
    let piece = prop_oneof![
        "[\\[\\]{}\"':,=|+*\\-\\\\/#\n\t a0-9.é😀-]{0,8}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..6),
        Just(b"18446744073709551616".to_vec()),
        Just(b"[0-99999999999]".to_vec()),
        Just("[".repeat(200).into_bytes()),
    ];
    let cuts = proptest::collection::vec((0..=length, 0..40_usize, piece), 1..4);
    let mut cases = 0;
    loop {
        let config = Config { cases: 512, failure_persistence: None, ..Config::default() };
        let run = TestRunner::new(config).run(&cuts, |cuts| {
            let mut bytes = sample.as_bytes().to_vec();
            for (at, cut, piece) in cuts {
                let at = at.min(bytes.len());
                bytes.splice(at..(at + cut).min(bytes.len()), piece);
            }
            read(&bytes);
            Ok(())
        });
        run.unwrap_or_else(|error| panic!("{error}"));
        cases += 512;
        if start.elapsed() >= limit {
            break;
        }
    }
    println!("{cases} cases in {:.0} s", start.elapsed().as_secs_f64());
}

/// As [`damage`], for readers of text.
fn damage_text(sample: &str, read: impl Fn(&str) -> bool) {
    damage(sample, |bytes| read(&String::from_utf8_lossy(bytes)));
}

#[test]
fn the_cluster_file() {
    damage_text(include_str!("../../kiln-spec/tests/full.toml"), |text| {
        kiln_spec::parse(text, "cluster.toml").map_err(|errors| errors.render(true)).is_ok()
    });
}

#[test]
fn hostlists() {
    damage_text("n[1-3,007-010]m[0-1],a-0,rack[1-2]-node[00-15]", |text| {
        kiln_spec::hostlist::expand(text).is_ok()
    });
}

#[test]
fn what_scontrol_shows() {
    let nodes = "NodeName=a Arch=x86_64 CPUAlloc=2 NodeAddr=10.0.0.1 State=MIXED+CLOUD+REBOOT_REQUESTED \
                 BootTime=2026-01-02T03:04:05 SlurmdStartTime=None Extra=kiln-bundle:0123\n\
                 NodeName=b State=DOWN*+DRAIN BootTime=None Reason=Not responding, truly [slurm@2026-01-01T00:00:00]\n";
    damage_text(nodes, |text| !kiln_slurm::parse_nodes(text).is_empty());
}

#[test]
fn what_squeue_and_sacct_show() {
    damage_text("12|RUNNING|kiln:4:n-0|None\n13_[1-5%2]|PENDING||Priority\n", |text| {
        !kiln_slurm::parse_squeue(text, "|").is_empty()
    });
    damage_text("CANCELLED by 0\n", |text| kiln_slurm::parse_sacct(text).is_some());
}

/// As real clusters have printed it.
#[test]
fn what_slurm_says_of_jobs_and_limits() {
    let history = include_str!("../../kiln-slurm/src/captured/22.05-job.txt");
    damage_text(history, |text| {
        let jobs = kiln_slurm::parse_history(text, "|x9|");
        jobs.iter().any(|job| job.efficiency().cpu.is_some() && kiln_slurm::ended::how(&job.record).is_some())
    });
    let share = include_str!("../../kiln-slurm/src/captured/24.11-share.txt");
    damage_text(share, |text| kiln_slurm::share(text, "1", "standard-0").is_some());
    damage_text(include_str!("../../kiln-slurm/src/captured/24.11-qos.txt"), |text| {
        !kiln_slurm::qos(text).is_empty()
    });
    damage_text(include_str!("../../kiln-slurm/src/captured/22.05-reservations.txt"), |text| {
        !kiln_slurm::reservations(text).is_empty() || !kiln_slurm::licenses(text).is_empty()
    });
}

#[test]
fn what_slurm_tells_a_hook() {
    let file = r#"{"all_nodes_resume": "n-[0-3]", "jobs": [{"job_id": 12, "nodes_resume": "n-[0-1]", "extra": null},
        {"job_id": 13, "nodes": "n-[2-3]", "nodes_alloc": "n-[0-3]"}]}"#;
    damage(file, |bytes| !kiln_slurm::resume_file::jobs(bytes).is_empty());
}

const BUNDLE: &str = r#"{"format": 1, "cluster": "demo", "node": "n-0", "role": "compute", "resources": [
    {"kind": "group", "name": "g", "gid": 70, "system": false},
    {"kind": "user", "name": "u", "uid": 7, "gid": 7, "groups": ["g"], "home": "/home/u", "shell": "/bin/sh", "make_home": true},
    {"kind": "directory", "path": "/srv", "mode": 493, "owner": "root", "group": "root"},
    {"kind": "file", "path": "/f", "content": "aGk=", "mode": 384, "owner": "root", "group": "root", "secret": true, "base64": true},
    {"kind": "link", "path": "/l", "target": "/f"},
    {"kind": "command", "name": "c", "argv": ["true"], "stdin": null, "unless": ["false"], "when_changed": ["file:/f"], "retry_seconds": 3},
    {"kind": "service", "unit": "slurmd.service", "enabled": true, "running": true, "restart_on": [], "reload_on": []}]}"#;

#[test]
fn bundles() {
    damage(BUNDLE, |bytes| Bundle::from_json(bytes).is_ok_and(|bundle| !bundle.digest().is_empty()));
}

#[test]
fn sealed_bundles() {
    let bundle = Bundle::from_json(BUNDLE.as_bytes()).expect("a bundle");
    let (node, deploy_host) = (kiln_wire::seal_keypair(&[1; 32]), kiln_wire::seal_keypair(&[9; 32]));
    let sealed = kiln_wire::seal(&bundle, &node.1, &deploy_host.0).expect("sealed");
    let hex = hex::encode(&sealed);
    damage(&hex, |bytes| {
        let bytes = hex::decode(bytes).unwrap_or_else(|_| bytes.to_vec());
        let opened =
            kiln_wire::Opened::new(&bytes, &node.0, &deploy_host.1).and_then(|opened| opened.bundle());
        assert!(opened.is_err() || bytes == sealed, "damage was not seen");
        opened.is_ok()
    });
}

#[test]
fn the_fleet_file() {
    let file = r#"{"cluster": "demo", "cloud": {"kind": "local", "url": "http://10.0.0.1:80", "token": "t"},
        "nodes": {"n-0": {"group": "standard", "image": "i2", "user_data": "s3cret", "ssh_key": "ssh-ed25519 A"}}}"#;
    damage(file, |bytes| FleetFile::from_json(bytes).is_ok());
}

/// Those of the control node, as the deploy host lists them.
#[test]
fn backups() {
    let list = r#"{"format": 1, "directory": "/srv/backup", "backups": [{"format": 1, "name": "20260101T000000Z",
        "time": "2026-01-01T00:00:00Z", "reason": "scheduled", "scheduled": true, "cluster": "demo", "cluster_id": "1a",
        "state_id": "5", "slurm": "22.5.8", "secrets": {"munge-key": "d1"}, "files": {"f": {"bytes": 7, "sha256": "ab"}}}],
        "unreadable": ["x"]}"#;
    damage(list, |bytes| BackupList::from_json(bytes).is_ok_and(|list| !list.backups.is_empty()));
}

const IDENTITY: &str = r#"{"kiln": {"cluster": "demo", "node": "n-0", "role": "compute", "domain": "demo.local", "share": {"nfs": "10.0.0.1:/srv"}}}"#;

#[test]
fn user_data() {
    damage(IDENTITY, |bytes| UserData::from_text(bytes).is_ok_and(|data| data.is_some()));
}

#[test]
fn a_config_drive() {
    let dir = tempfile::tempdir().expect("a directory");
    let sources = kiln_node::metadata::Sources {
        directory: dir.path().into(),
        device: false,
        url: "http://127.0.0.1:1".into(),
        oci_url: "http://127.0.0.1:1".into(),
        patience: Duration::ZERO,
    };
    fs::write(dir.path().join("user_data"), IDENTITY).expect("user data");
    let meta_data = r#"{"uuid": "u", "name": "n-0", "hostname": "n-0.local", "public_keys": {"kiln": "ssh-ed25519 AAAA kiln\n"}}"#;
    damage(meta_data, |bytes| {
        fs::write(dir.path().join("meta_data.json"), bytes).expect("metadata");
        kiln_node::metadata::read_from(&sources).is_ok_and(|metadata| metadata.identity.is_some())
    });
}

#[test]
fn clouds_yaml() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("clouds.yaml");
    let yaml = "clouds:\n  lab:\n    region_name: north\n    interface: internal\n    verify: false\n    auth:\n      \
                auth_url: https://id.example.org:5000\n      username: ada\n      password: \"s3:cret\"\n      \
                project_name: hpc\n      user_domain_name: Default\n      project_domain_name: Default\n";
    damage(yaml, |bytes| {
        fs::write(&path, bytes).expect("clouds.yaml");
        kiln_cloud::testing::read_clouds_yaml(&path, "lab").is_ok()
    });
}
