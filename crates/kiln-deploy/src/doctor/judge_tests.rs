use std::collections::BTreeMap;

use kiln_cloud::{Expiry, Flavor, Instance, InstanceStatus, Labels, Quota, Volume, VolumeStatus};
use kiln_wire::Version;
use kiln_wire::checkup::{CheckupReport, ServiceProblem};
use kiln_wire::health::FindingReport;
use kiln_wire::labels;

use super::*;
use crate::checkup::Examinations;
use crate::observe::Observed;
use crate::status::{NodeStatus, StatusReport};

const GIB: u64 = 1 << 30;
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn spec() -> Spec {
    let text = "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.s]\nnodes = \"s-0\"\n\
                [compute.e]\nnodes = \"e-[0-3]\"\nflavor = \"small\"\nelastic = {}\n";
    kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn instance(name: &str) -> Instance {
    Instance {
        id: name.into(),
        name: name.into(),
        status: InstanceStatus::Active,
        image: Some("image".into()),
        flavor: "small".into(),
        address: None,
        public_address: None,
        labels: Labels::from([(labels::NODE.to_string(), name.to_string())]),
        volumes: Vec::new(),
        created: NOW,
        built: None,
    }
}

fn whole() -> Observed {
    let flavor = Flavor {
        name: "small".into(),
        cpus: 2,
        memory_mib: 1024,
        features: vec![],
        topology: None,
        gpus: None,
    };
    Observed {
        instances: vec![instance("control"), instance("s-0")],
        flavors: vec![flavor],
        ..Observed::default()
    }
}

fn answer(slurm: &str) -> Examined {
    let report = CheckupReport {
        format: Version,
        time: NOW,
        slurm: Some(slurm.into()),
        problems: Vec::new(),
        places: Vec::new(),
        services: Vec::new(),
        certificates: Vec::new(),
    };
    Examined { report, clock_ahead: SignedDuration::ZERO }
}

fn examined() -> Examinations {
    let all = ["control", "s-0"].map(|node| (node.to_string(), Ok(answer("slurm-wlm 22.05.8"))));
    BTreeMap::from(all)
}

fn node(name: &str, verdict: &str, wrong: bool) -> NodeStatus {
    NodeStatus {
        node: name.into(),
        role: "compute".into(),
        group: "compute.s".into(),
        cloud: "active".into(),
        address: None,
        public_address: None,
        image: None,
        slurm: None,
        reason: None,
        verdict: verdict.into(),
        wrong,
        since: None,
        due: None,
        actions: Vec::new(),
    }
}

fn status() -> StatusReport {
    StatusReport {
        sleep: crate::Sleep::Awake,
        cluster: "c".into(),
        observed: NOW,
        slurm_error: None,
        kilnd_error: None,
        failing_groups: Vec::new(),
        nodes: vec![node("s-0", "ok", false)],
        strays: Vec::new(),
    }
}

fn stray(subject: &str) -> FindingReport {
    FindingReport {
        subject: subject.into(),
        rule: "stray".into(),
        text: "belongs to no node".into(),
        since: NOW,
        is_early: false,
        due: None,
        actions: Vec::new(),
    }
}

fn evidence(observed: &Observed) -> Evidence<'_> {
    Evidence {
        observed,
        status: status(),
        examined: examined(),
        quotas: Ok(Vec::new()),
        expiries: Ok(Vec::new()),
        certificates: Ok(Vec::new()),
        now: NOW,
    }
}

fn shown(evidence: &Evidence<'_>) -> Vec<String> {
    let all = findings(&spec(), evidence);
    all.iter().map(|f| format!("{} {}: {}", f.severity.word(), f.subject, f.text)).collect()
}

#[test]
fn nothing_is_said_of_a_whole_cluster() {
    assert_eq!(shown(&evidence(&whole())), [""; 0]);
}

#[test]
fn what_nodes_say_of_themselves() {
    let observed = whole();
    let mut found = evidence(&observed);
    let control = found.examined.get_mut("control").unwrap().as_mut().unwrap();
    let problem = |service: &str, text: &str| ServiceProblem { service: service.into(), text: text.into() };
    control.report.problems =
        vec![problem("kiln", "runs another kiln"), problem("slurmctld", "slurmctld.service is failed")];
    control.report.places =
        vec![Place { path: "/home".into(), bytes: 10 * GIB, free_bytes: GIB / 2, files: 9, free_files: 9 }];
    let certificate = |name: &str, ends| CertificateReport { name: name.into(), ends };
    control.report.certificates = vec![
        certificate("the directory", Some(NOW + SignedDuration::from_hours(24))),
        certificate("rest", Some(NOW + SignedDuration::from_hours(24 * 365))),
        certificate("lost", None),
    ];
    control.clock_ahead = SignedDuration::from_secs(-7);
    found.examined.insert("s-0".into(), Err("s-0 could not be reached over SSH: timed out".into()));
    assert_eq!(
        shown(&found),
        [
            "broken control: slurmctld.service is failed",
            "broken s-0: could not be reached over SSH: timed out",
            "broken control: certificate of lost: cannot be read",
            "warning control: runs another kiln",
            "warning control: the file system of /home is nearly full: 512 MiB of 10240 MiB left",
            "warning control: its clock is 7 s behind this host's",
            "warning control: certificate of the directory: ends at 1970-01-02 00:00 UTC",
        ]
    );
}

#[test]
fn rooms_and_clocks_have_two_steps() {
    let place = |bytes, free_bytes, files, free_files| {
        room(&Place { path: "/".into(), bytes, free_bytes, files, free_files }).map(|(severity, _)| severity)
    };
    assert_eq!(place(1000 * GIB, 50 * GIB, 0, 0), None);
    assert_eq!(place(100 * GIB, 5 * GIB, 100, 50), Some(Severity::Warning));
    assert_eq!(place(100 * GIB, 50 * GIB, 100, 4), Some(Severity::Warning));
    assert_eq!(place(100 * GIB, 0, 100, 50), Some(Severity::Broken));
    let at = |seconds| clock(SignedDuration::from_secs(seconds)).map(|(severity, _)| severity);
    assert_eq!([at(4), at(-5), at(600)], [None, Some(Severity::Warning), Some(Severity::Broken)]);
}

#[test]
fn that_slurm_does_not_answer_is_said_once() {
    let observed = whole();
    let mut found = evidence(&observed);
    found.status.slurm_error = Some("scontrol: connection refused".into());
    found.status.nodes =
        vec![node("s-0", "Slurm could not be reached", true), node("e-0", "no instance", true)];
    assert_eq!(
        shown(&found),
        ["broken Slurm: could not be reached: scontrol: connection refused", "broken e-0: no instance"]
    );
}

#[test]
fn releases_must_understand_each_other() {
    let with = |slurm: &str| {
        let observed = whole();
        let mut found = evidence(&observed);
        found.examined.insert("s-0".into(), Ok(answer(slurm)));
        shown(&found)
    };
    assert_eq!(with("slurm 21.08.1"), ["note s-0: has Slurm 21.08.1, control has 22.05.8"]);
    let newer = "broken s-0: has Slurm 24.11.3, control has 22.05.8: they do not understand each other";
    assert_eq!(with("slurm 24.11.3"), [newer]);
}

#[test]
fn strays_are_named() {
    let mut observed = whole();
    observed.instances.push(instance("ghost-0"));
    let volume = |name: &str| Volume {
        id: name.into(),
        name: name.into(),
        size_gib: 1,
        labels: Labels::new(),
        attached_to: Vec::new(),
        status: VolumeStatus::Usable,
        served: None,
    };
    observed.volumes = vec![volume("c-state"), volume("c-old")];
    observed.build = Some(instance("c-build"));
    let mut found = evidence(&observed);
    assert_eq!(shown(&found).len(), 2);
    // What kilnd has told is not told twice.
    found.status.strays = vec![stray("ghost-0 (ghost-0)")];
    assert_eq!(shown(&found)[0], "warning ghost-0 (ghost-0): belongs to no node");
    assert_eq!(shown(&found).len(), 2);
    found.status.strays.clear();
    found.now = NOW + SignedDuration::from_hours(4);
    assert_eq!(
        shown(&found),
        [
            "warning ghost-0: an instance that carries this cluster's label belongs to nothing in the file",
            "warning c-old: a volume that carries this cluster's label belongs to nothing in the file",
            "warning c-build: an instance of an image build was left behind",
        ]
    );
}

#[test]
fn quotas_and_credentials() {
    let observed = whole();
    let mut found = evidence(&observed);
    let quota = |kind, limit, used| Quota { kind, limit, used };
    found.quotas = Ok(vec![quota(QuotaKind::Instances, 6, 2), quota(QuotaKind::Cpus, 10, 4)]);
    let hours = |hours| NOW + SignedDuration::from_hours(hours);
    let expiry = |what: &str, at| Expiry { what: what.into(), at };
    found.expiries =
        Ok(vec![expiry("mine", hours(-1)), expiry("kilnd's", hours(48)), expiry("far", hours(9000))]);
    found.certificates =
        Ok(vec![expiry("certificate of id:5000", hours(72)), expiry("certificate of a:1", hours(9000))]);
    assert_eq!(
        shown(&found),
        [
            "broken mine: ended at 1969-12-31 23:00 UTC",
            "warning kilnd's: ends at 1970-01-03 00:00 UTC",
            "warning certificate of id:5000: ends at 1970-01-04 00:00 UTC",
            "note cloud: the quota leaves 6 of 10 CPUs; all nodes that are off or missing would need 8",
        ]
    );
}

#[test]
fn that_the_cluster_sleeps_is_said_once() {
    let observed = whole();
    let mut evidence = evidence(&observed);
    evidence.examined = Examinations::new();
    evidence.status.sleep = crate::Sleep::Asleep { since: Some(NOW) };
    evidence.status.nodes = vec![node("s-0", "asleep", false), node("s-1", "asleep", false)];
    let said = shown(&evidence);
    assert!(said[0].starts_with("note c: is asleep since "), "{said:?}");
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn an_unhealthy_node_is_told_once() {
    let observed = whole();
    let mut found = evidence(&observed);
    let mut ill = node("s-0", "unhealthy: /home is not mounted", true);
    ill.reason = Some("kiln: health: /home is not mounted".into());
    found.status.nodes = vec![ill];
    assert_eq!(shown(&found), ["broken s-0: unhealthy: /home is not mounted"]);
}
