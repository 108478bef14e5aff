//! What the site function writes, as administrators will read it.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod bundles;
mod directory;
mod gpus;
mod monitoring;
mod order;
mod slurm_conf;

use std::collections::BTreeMap;

use kiln_site::{Inventory, NodeFacts, NodeKeys, Secret, Secrets, services, site};
use kiln_slurm::Release;
use kiln_spec::Spec;
use kiln_wire::bundle::{Bundle, EVERYTHING, Resource};

const FILE: &str = r#"
[cluster]
name = "demo"
[cloud]
kind = "local"
[login.login]
nodes = "login-0"
[compute.standard]
nodes = "standard-[0-1]"
features = ["cpu"]
[compute.extra]
nodes = "extra-[0-1]"
node_config = { RealMemory = 500 }
[compute.extra.override."extra-1"]
features = ["big"]
[slurm.config]
SchedulerParameters = ["bf_continue", "defer"]
SlurmctldParameters = ["idle_on_node_suspend"]
SlurmdTimeout = 60
MpiDefault = false
[user.alice]
uid = 2001
groups = ["physics", "video"]
sudo = true
[role.compute]
commands = ["true"]
[[role.compute.file]]
path = "/etc/motd"
content = "hello\n"
"#;

fn spec() -> Spec {
    kiln_spec::parse(FILE, "cluster.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn inventory(spec: &Spec, release: Release) -> Inventory {
    let facts = |at: usize| NodeFacts {
        address: [10, 0, 0, 10 + u8::try_from(at).unwrap()].into(),
        cpus: 2,
        topology: None,
        gpus: None,
        switch: None,
        memory_mib: 2000,
        real_memory_mib: 1900,
        features: Vec::new(),
        ssh_host_public: "ssh-ed25519 BBBB".into(),
    };
    let nodes: BTreeMap<_, _> =
        spec.nodes().enumerate().map(|(at, n)| (n.name.to_string(), facts(at))).collect();
    let architecture = "x86_64".into();
    Inventory { nodes, release, architecture, kiln: "binary".into(), backup_volume: true, exports: None }
}

fn secrets() -> Secrets {
    let value = |secret: &Secret| match secret.name {
        "munge-key" => Ok("TVVOR0U=".into()),
        "database-password" => Ok("DATABASE-SECRET".into()),
        other => Err(format!("{other} is not for nodes")),
    };
    let text = "[cluster]\nname = \"x\"\n[cloud]\nkind = \"local\"\n[compute.x]\nnodes = \"x1\"\n\
                [image.default]\nsource = \"trixie\"\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap();
    Secrets::read(&spec, value, "{ TOKEN-SECRET }".into(), "ssh-ed25519 AAAA kiln".into()).unwrap()
}

fn keys(node: &str) -> NodeKeys {
    NodeKeys {
        seal_key: format!("SEAL-SECRET-{node}").into(),
        seal_recipient: "kiln-seal-0".into(),
        sender_key: "kiln-seal-1".into(),
        ssh_host_key: format!("HOST-SECRET-{node}").into(),
        ssh_host_public: "ssh-ed25519 BBBB".into(),
    }
}

fn bundle(node: &str) -> Bundle {
    let spec = spec();
    let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
    site(&spec, &inventory, &secrets).bundle(node, &keys(node)).unwrap()
}

fn content(site: &kiln_site::Site<'_>, node: &str, path: &str) -> String {
    let bundle = site.bundle(node, &keys(node)).unwrap();
    let file = bundle.resources.into_iter().rev().find_map(|resource| match resource {
        Resource::File(file) if file.path == path => Some(file.content),
        _ => None,
    });
    file.unwrap_or_else(|| panic!("{node} has no {path}"))
}
