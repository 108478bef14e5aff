//! `./dev bench oci`: Kiln beside Oracle's SDK for Python with 20 threads and beside the `oci` command in a loop, all against
//! the fake of Oracle's services, each of whose answers takes 50 ms. Prints a table and judges nothing.
//!
//! Each launches instances of one image and shape in the same subnet and waits by listing until all run. They are not equal in
//! what they do besides: Kiln reads the whole cluster before and after, gives each launch a retry token and the identity of a
//! node, learns the addresses, and sends at most 20 calls a second, so as not to be throttled. The others do none of that.
//! `KILN_BENCH_INSTANCES` says how many, 100 unless told; the command, which takes long to start, gets a tenth of them.

#![allow(clippy::unwrap_used, reason = "a measurement ends where something is wrong")]

#[path = "../tests/lab/cluster_dir.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod cluster_dir;
#[path = "../tests/oci/lab.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod lab;
#[path = "../tests/lab/oracle_login.rs"]
mod oracle_login;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use kiln_cloud::oci::fake::COMPARTMENT;
use lab::Lab;
use serde_json::Value;

const CLUSTER: &str = "bench";
const DISTANCE: Duration = Duration::from_millis(50);
/// What a page of Oracle's has at most.
const PAGE: usize = 1000;
const FIRST: &str = "[compute.first]\nnodes = \"first-0\"\nflavor = \"VM.Standard.E5.Flex.1.8\"\n";

struct Row {
    what: String,
    calls: usize,
    wall: f64,
    cpu: f64,
    memory_mib: u64,
}

fn main() {
    // `cargo test --benches` passes no --bench.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let number =
        |name: &str, usual: usize| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let many = number("KILN_BENCH_INSTANCES", 100);
    let lab = Lab::new(CLUSTER, FIRST);
    lab.fake.page(PAGE);
    // Room for them all.
    lab.edit("10.31.0.0/24", "10.32.0.0/20");
    // Network, security groups and the like are not what is measured.
    lab.kiln(&["apply"]);
    lab.fake.distance(DISTANCE);

    let mut rows = vec![kiln(&lab, many)];
    rows.push(timed(&lab, &format!("launch {many}: SDK, 20 threads"), &script(SDK, "python", many)));
    let few = (many / 10).max(1);
    rows.push(timed(&lab, &format!("launch {few}: oci command in a loop"), &script(LOOP, "bash", few)));
    println!("\n{:<36}  {:>6}  {:>9}  {:>9}  {:>9}", "WHAT", "CALLS", "WALL", "CPU", "MEMORY");
    for row in rows {
        let Row { what, calls, wall, cpu, memory_mib } = row;
        println!("{what:<36}  {calls:>6}  {wall:>7.1} s  {cpu:>7.1} s  {memory_mib:>5} MiB");
    }
    quiet(&lab, number("KILN_BENCH_NODES", 1000));
}

fn with_group(lab: &Lab, many: usize) {
    let base = lab.read_file();
    let base = base.split("\n[compute.many]").next().unwrap_or_default();
    lab.write_file(&format!(
        "{base}\n[compute.many]\nnodes = \"many-[1-{many}]\"\nflavor = \"VM.Standard.E5.Flex.1.8\"\n"
    ));
}

fn kiln(lab: &Lab, many: usize) -> Row {
    with_group(lab, many);
    let file = lab.path("cluster.toml").display().to_string();
    let apply = [env!("CARGO_BIN_EXE_kiln"), "--file", &file, "apply", "--yes"].map(String::from);
    timed(lab, &format!("launch {many}: kiln"), &apply)
}

/// kilnd looks at the cluster in regular intervals; while nothing happens, that is all it asks of the cloud.
fn quiet(lab: &Lab, nodes: usize) {
    lab.fake.distance(Duration::ZERO);
    with_group(lab, nodes);
    lab.kiln(&["apply", "--yes"]);
    let every = kiln_spec::parse(&lab.read_file(), "cluster.toml").unwrap().reconcile.every;
    let (all, calls) = lab.behind(async |cloud| {
        // Addresses and boot volumes are known after the first.
        cloud.instances(CLUSTER).await?;
        lab.fake.take_calls();
        let all = cloud.instances(CLUSTER).await?.len();
        Ok((all, lab.fake.take_calls().len()))
    });
    let minute = u32::try_from(calls).map_or(0.0, f64::from) * 60.0 / every.as_secs_f64();
    println!(
        "\n{all} nodes that are up: {calls} calls for each look, every {} s: {minute:.0} calls a minute",
        every.as_secs()
    );
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

fn timed(lab: &Lab, what: &str, command: &[String]) -> Row {
    lab.fake.take_calls();
    let output = Command::new(client("python"))
        .args(["-c", WATCH])
        .args(command)
        .envs(lab.environment.iter().map(|(name, value)| (name, value)))
        .env("SUPPRESS_LABEL_WARNING", "True")
        .env("FAKE_URL", &lab.fake.url)
        .env("FAKE_COMPARTMENT", COMPARTMENT)
        .output()
        .expect("python runs");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(told["status"], 0, "{what}: {}", String::from_utf8_lossy(&output.stderr));
    let row = Row {
        what: what.to_string(),
        calls: lab.fake.take_calls().len(),
        wall: told["wall"].as_f64().unwrap_or_default(),
        cpu: told["cpu"].as_f64().unwrap_or_default(),
        memory_mib: told["memory"].as_u64().unwrap_or_default() / 1024,
    };
    println!("{}: {:.1} s", row.what, row.wall);
    row
}

fn script(text: &str, program: &str, many: usize) -> Vec<String> {
    let program = if program == "python" { client(program).display().to_string() } else { program.into() };
    let oci = client("oci").display().to_string();
    vec![program, "-c".into(), text.into(), oci, many.to_string()]
}

fn client(program: &str) -> PathBuf {
    let clients = std::env::var_os("KILN_OCI_CLIENTS").expect("KILN_OCI_CLIENTS: `./dev bench oci` sets it");
    PathBuf::from(clients).join("bin").join(program)
}

const SDK: &str = r#"
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
os.environ["OCI_PYTHON_SDK_NO_SERVICE_IMPORTS"] = "1"
import oci
from oci.core import ComputeClient, VirtualNetworkClient, models
many, place = int(sys.argv[2]), os.environ["FAKE_COMPARTMENT"]
config = oci.config.from_file(os.environ["OCI_CLI_CONFIG_FILE"])
compute = ComputeClient(config, service_endpoint=os.environ["FAKE_URL"])
networks = VirtualNetworkClient(config, service_endpoint=os.environ["FAKE_URL"])
everything = oci.pagination.list_call_get_all_results
subnet = everything(networks.list_subnets, place).data[0].id
image = everything(compute.list_images, place).data[0].id
def launch(n):
    compute.launch_instance(models.LaunchInstanceDetails(
        availability_domain="Fake:PHX-AD-1", compartment_id=place, display_name="sdk-%d" % n,
        shape="VM.Standard.E5.Flex", shape_config=models.LaunchInstanceShapeConfigDetails(ocpus=1.0, memory_in_gbs=8.0),
        metadata={"user_data": "e30="}, source_details=models.InstanceSourceViaImageDetails(image_id=image),
        create_vnic_details=models.CreateVnicDetails(subnet_id=subnet, assign_public_ip=False)))
with ThreadPoolExecutor(20) as pool:
    list(pool.map(launch, range(many)))
def running():
    all = everything(compute.list_instances, place).data
    return len([i for i in all if i.display_name.startswith("sdk-") and i.lifecycle_state == "RUNNING"])
while running() < many:
    time.sleep(1)
"#;

/// As an administrator would write it.
const LOOP: &str = r#"
set -euo pipefail
oci=$0 many=$1 place=$FAKE_COMPARTMENT
subnet=$("$oci" network subnet list --compartment-id "$place" --query 'data[0].id' --raw-output)
image=$("$oci" compute image list --compartment-id "$place" --query 'data[0].id' --raw-output)
for n in $(seq "$many"); do
    "$oci" compute instance launch --availability-domain Fake:PHX-AD-1 --compartment-id "$place" \
        --display-name "cli-$n" --shape VM.Standard.E5.Flex --shape-config '{"ocpus": 1, "memoryInGBs": 8}' \
        --image-id "$image" --subnet-id "$subnet" --assign-public-ip false --user-data-file /dev/null
done
query='length(data[?starts_with("display-name", `cli-`) && "lifecycle-state"==`RUNNING`])'
until [ "$("$oci" compute instance list --all --compartment-id "$place" --query "$query")" = "$many" ]; do
    sleep 1
done
"#;
