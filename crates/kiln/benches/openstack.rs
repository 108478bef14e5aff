//! `./dev bench openstack`: Kiln beside the official client in a loop and beside Python's openstacksdk with 20 threads,
//! all against the same services in one run. Prints a table and judges nothing.
//!
//! Each makes servers of one image and flavor with one port in the same network, one security group, a key pair,
//! metadata, user data of about the same size and a config drive, and then rebuilds them to another image with user data
//! again; each waits by listing until all are active. They are not equal in what they do besides. Kiln makes the ports itself,
//! all in one request with description and security group, tags the servers, looks for names that are taken, and
//! reads the whole cluster before and after, as `apply` does. The others leave the port to Nova and look at nothing.
//! `KILN_BENCH_SERVERS` says how many, 100 unless told.

#![allow(clippy::unwrap_used, reason = "a measurement ends where something is wrong")]

#[path = "../../kiln-cloud/tests/openstack/client.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod client;
#[path = "../tests/lab/cluster_dir.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod cluster_dir;
#[path = "../tests/openstack/lab.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
mod lab;
#[path = "../tests/lab/project.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod project;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use kiln_cloud::{Cloud, Rebuild, openstack::Settings};
use lab::{Lab, openstack};
use serde_json::Value;

struct Row {
    what: String,
    wall: f64,
    cpu: f64,
    memory_mib: u64,
}

const CLUSTER: &str = "bench";

fn main() {
    // `cargo test --benches` passes no --bench and must not make servers.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let many: usize = std::env::var("KILN_BENCH_SERVERS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let groups = "[compute.first]\nnodes = \"first-0\"\nflavor = \"tiny\"\n";
    let lab = Lab::new(CLUSTER, groups);
    // Room for them all, beside those of the others.
    lab.edit("10.41.0.0/24", "10.42.0.0/20");
    let outcome = std::panic::catch_unwind(|| measure(&lab, many));
    // Theirs first: they are in Kiln's network.
    timed("delete", &script_command(SDK, "delete", many));
    lab.kiln(&["destroy", "--yes"]);
    let Ok((rows, decisions)) = outcome else { std::process::exit(1) };
    println!("\n{:<46}  {:>9}  {:>9}  {:>9}", "WHAT", "WALL", "CPU", "MEMORY");
    for row in rows {
        println!("{:<46}  {:>7.1} s  {:>7.1} s  {:>5} MiB", row.what, row.wall, row.cpu, row.memory_mib);
    }
    println!("\nOne reboot-hook decision (look at the server, compare, have it rebuilt):");
    for (who, time) in decisions {
        println!("  {who:<44}  {:>7.0} ms", time.as_secs_f64() * 1000.0);
    }
}

fn measure(lab: &Lab, many: usize) -> (Vec<Row>, Vec<(&'static str, Duration)>) {
    let mut rows = Vec::new();
    // Network, security groups and the like are not what is measured.
    lab.kiln(&["apply"]);
    rows.extend(kiln(lab, many));
    let decisions = decisions();
    lab.edit(&kiln_group(many, "image-b"), "");
    lab.kiln(&["apply", "--yes"]);
    for (name, script) in [("openstack client in a loop", CLIENT_LOOP), ("openstacksdk, 20 threads", SDK)] {
        for verb in ["create", "rebuild"] {
            let row = timed(&format!("{verb} {many}: {name}"), &script_command(script, verb, many));
            println!("{}: {:.1} s", row.what, row.wall);
            rows.push(row);
        }
        timed("", &script_command(SDK, "delete", many));
    }
    rows.sort_by_key(|row| row.what.starts_with("rebuild"));
    (rows, decisions)
}

fn kiln_group(many: usize, image: &str) -> String {
    format!(
        "\n[image.many]\nprebuilt = \"{image}\"\n\n[compute.many]\nnodes = \"many-[1-{many}]\"\nflavor = \"tiny\"\n\
         image = \"many\"\nimage_update = \"apply\"\n"
    )
}

fn kiln(lab: &Lab, many: usize) -> Vec<Row> {
    let text = lab.read_file();
    let text = text.replace("[control]\n", "[control]\nimage = \"default\"\n");
    let text =
        text.replace("flavor = \"small\"\n\n[compute", "flavor = \"small\"\nimage = \"default\"\n\n[compute");
    let text = text.replace("nodes = \"first-0\"\n", "nodes = \"first-0\"\nimage = \"default\"\n");
    lab.write_file(&(text + &kiln_group(many, "image-a")));
    let file = lab.path("cluster.toml").display().to_string();
    let apply = [env!("CARGO_BIN_EXE_kiln"), "--file", &file, "apply", "--yes"].map(String::from);
    let create = timed(&format!("create {many}: kiln"), &apply);
    println!("{}: {:.1} s", create.what, create.wall);
    lab.edit(&kiln_group(many, "image-a"), &kiln_group(many, "image-b"));
    let rebuild = timed(&format!("rebuild {many}: kiln"), &apply);
    println!("{}: {:.1} s", rebuild.what, rebuild.wall);
    vec![create, rebuild]
}

/// kilnd holds its token and its connections; the client starts anew each time.
fn decisions() -> Vec<(&'static str, Duration)> {
    const TIMES: u32 = 5;
    let rows = openstack(&["server list --tags kiln_cluster=bench --long"]).remove(0);
    let rows: Vec<&Value> = rows.as_array().expect("a list").iter().collect();
    let ids: Vec<String> = (rows.iter())
        .filter(|row| row["Name"].as_str().is_some_and(|n| n.starts_with("many-")))
        .filter_map(|row| row["ID"].as_str().map(String::from))
        .take(2 * TIMES as usize)
        .collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let cloud =
        Cloud::openstack(&Settings { cloud: Some("demo".into()), ..Settings::default() }).expect("a cloud");
    let ours = runtime.block_on(async {
        let image = cloud.find_image("image-a").await.expect("the image").id;
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE5H4qOYcgAdZgHuEXeN5Vz5KJV6hLh0xCRfpM0T5Bdr kiln";
        // The key pair is known after the first.
        let decide = async |id: &str| {
            let instance = cloud.instance(id).await.expect("the server");
            assert_ne!(instance.image.as_ref(), Some(&image));
            let labels = instance.labels.clone();
            let rebuild =
                Rebuild { image: image.clone(), user_data: "u".into(), ssh_key: key.into(), labels };
            cloud.rebuild(id, rebuild).await.expect("rebuilt");
        };
        decide(&ids[0]).await;
        let start = Instant::now();
        for id in &ids[1..TIMES as usize] {
            decide(id).await;
        }
        start.elapsed() / (TIMES - 1)
    });
    let start = Instant::now();
    for id in &ids[TIMES as usize..] {
        for arguments in
            [vec!["server", "show", id, "-f", "json"], vec!["server", "rebuild", "--image", "image-a", id]]
        {
            let output = lab::client().args(arguments).env("OS_CLOUD", "demo").output().expect("the client");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    vec![("kiln", ours), ("openstack client, two runs", start.elapsed() / TIMES)]
}

/// What a child and its children took, as the system counted it.
const WATCH: &str = "
import json, resource, subprocess, sys, time
start = time.monotonic()
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=sys.stderr).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({'status': status, 'wall': time.monotonic() - start, 'cpu': used.ru_utime + used.ru_stime,
                  'memory': used.ru_maxrss}))
";

fn timed(what: &str, command: &[String]) -> Row {
    let output = Command::new(venv("python"))
        .args(["-c", WATCH])
        .args(command)
        .env("OS_CLOUD", "demo")
        .output()
        .expect("python runs");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(told["status"], 0, "{what}: {}", String::from_utf8_lossy(&output.stderr));
    Row {
        what: what.to_string(),
        wall: told["wall"].as_f64().unwrap_or_default(),
        cpu: told["cpu"].as_f64().unwrap_or_default(),
        memory_mib: told["memory"].as_u64().unwrap_or_default() / 1024,
    }
}

fn script_command(script: &str, verb: &str, many: usize) -> Vec<String> {
    let python = script.trim_start().starts_with("import");
    let program = if python { venv("python").display().to_string() } else { "bash".into() };
    let client = venv("openstack").display().to_string();
    vec![program, "-c".into(), script.into(), client, verb.into(), many.to_string(), CLUSTER.into()]
}

fn venv(program: &str) -> PathBuf {
    lab::services().with_file_name("venv").join("bin").join(program)
}

/// As an administrator would write it. Waits by listing, like the others.
const CLIENT_LOOP: &str = r#"
set -euo pipefail
client=$0 verb=$1 many=$2 cluster=$3
data=$(mktemp) && trap 'rm -f "$data"' EXIT
printf '#cloud-config\n# %01000d\n' 0 >"$data"
keys=$("$client" keypair list -f value -c Name)
key=$(grep -m1 "^kiln_${cluster}_" <<<"$keys")
for n in $(seq "$many"); do
    if [ "$verb" = create ]; then
        "$client" server create --image image-a --flavor tiny --network "$cluster" \
            --security-group "$cluster-cluster" --property "bench=$n" --key-name "$key" --user-data "$data" \
            --config-drive True "other-$n" -f value -c id
    else
        "$client" --os-compute-api-version 2.93 server rebuild --image image-b --user-data "$data" "other-$n" \
            -f value -c id
    fi
done
until [ "$("$client" server list --name '^other-' --status ACTIVE -f value -c ID | wc -l)" = "$many" ]; do
    sleep 1
done
"#;

const SDK: &str = r#"
import base64, sys, time
from concurrent.futures import ThreadPoolExecutor
import openstack
verb, many, cluster = sys.argv[2], int(sys.argv[3]), sys.argv[4]
data = base64.b64encode(b'#cloud-config\n# ' + 1000 * b'0').decode()
cloud = openstack.connect()
def mine():
    return [s for s in cloud.compute.servers(name="^other-")]
with ThreadPoolExecutor(20) as pool:
    if verb == "create":
        image, flavor = cloud.image.find_image("image-a").id, cloud.compute.find_flavor("tiny").id
        network = cloud.network.find_network(cluster).id
        key = next(k.name for k in cloud.compute.keypairs() if k.name.startswith(f"kiln_{cluster}_"))
        def create(n):
            cloud.compute.create_server(
                name=f"other-{n}", image_id=image, flavor_id=flavor, networks=[{"uuid": network}],
                security_groups=[{"name": cluster + "-cluster"}], metadata={"bench": str(n)}, key_name=key,
                user_data=data, config_drive=True)
        list(pool.map(create, range(1, many + 1)))
    elif verb == "rebuild":
        image = cloud.image.find_image("image-b").id
        list(pool.map(lambda s: cloud.compute.rebuild_server(s, image=image, user_data=data), mine()))
    else:
        list(pool.map(cloud.compute.delete_server, mine()))
wanted = 0 if verb == "delete" else many
while len([s for s in mine() if verb == "delete" or s.status == "ACTIVE"]) != wanted:
    time.sleep(1)
"#;
