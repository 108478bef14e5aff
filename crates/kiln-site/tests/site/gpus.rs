//! GPUs and switches, from the file and from what the cloud says.

use kiln_site::{Inventory, site};
use kiln_slurm::Release;
use kiln_spec::Spec;
use kiln_wire::bundle::Resource;

use super::{content, inventory, keys, secrets};

const EXAMPLE: &str = include_str!("../../../../docs/examples/gpu.toml");

struct Conf {
    slurm: String,
    gres: Option<String>,
    topology: Option<String>,
}

/// What control has of a file. The flavors of the nodes in `gpu` have four GPUs.
fn conf(text: &str, change: impl FnOnce(&Spec, &mut Inventory)) -> Conf {
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let mut inventory = inventory(&spec, Release::new(24, 11, 5));
    for (name, facts) in &mut inventory.nodes {
        if name.starts_with("gpu-") {
            facts.gpus = Some((4, Some("a100".into())));
        }
    }
    change(&spec, &mut inventory);
    let secrets = secrets();
    let site = site(&spec, &inventory, &secrets);
    let ids: Vec<String> =
        site.bundle("control", &keys("control")).unwrap().resources.iter().map(Resource::id).collect();
    let has = |path: &str| ids.contains(&format!("file:{path}")).then(|| content(&site, "control", path));
    Conf {
        slurm: content(&site, "control", "/etc/slurm/slurm.conf"),
        gres: has("/etc/slurm/gres.conf"),
        topology: has("/etc/slurm/topology.conf"),
    }
}

fn lines<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    text.lines().filter(|line| line.starts_with(start)).collect()
}

fn gres_of(text: &str) -> (String, String) {
    let conf = conf(text, |_, _| {});
    let node = lines(&conf.slurm, "NodeName=gpu-").join("\n");
    let gres = node.split(' ').find(|word| word.starts_with("Gres=")).unwrap_or_default().to_string();
    (gres, conf.gres.map(|text| lines(&text, "NodeName=").join("\n")).unwrap_or_default())
}

#[test]
fn what_the_cloud_says_becomes_gres() {
    let conf = conf(EXAMPLE, |_, _| {});
    assert!(lines(&conf.slurm, "NodeName=gpu-")[0].contains(" Gres=gpu:a100:4 "), "{}", conf.slurm);
    assert!(!lines(&conf.slurm, "NodeName=cpu-")[0].contains("Gres"), "{}", conf.slurm);
    for line in [
        "GresTypes=gpu",
        "AccountingStorageTRES=gres/gpu,gres/gpu:a100",
        "SelectType=select/cons_tres",
        "TopologyPlugin=topology/tree",
    ] {
        assert!(conf.slurm.lines().any(|l| l == line), "no {line} in\n{}", conf.slurm);
    }
    assert_eq!(
        lines(&conf.gres.unwrap(), "NodeName="),
        ["NodeName=gpu-[0-3] Name=gpu Type=a100 File=/dev/nvidia[0-3]"]
    );
    assert_eq!(
        lines(&conf.topology.unwrap(), "SwitchName="),
        [
            "SwitchName=rack-7 Nodes=gpu-[0-3]",
            "SwitchName=rack-8 Nodes=cpu-[0-7]",
            "SwitchName=core Switches=rack-7,rack-8",
        ]
    );
}

#[test]
fn the_file_counts_before_the_cloud() {
    let group = "flavor = \"gpu.a100x4\"\n";
    let with = |keys: &str| gres_of(&EXAMPLE.replace(group, &format!("{group}{keys}\n")));
    let own = |gres: &str, line: &str| (gres.to_string(), line.to_string());
    assert_eq!(
        with("gpus = { count = 2 }"),
        own("Gres=gpu:a100:2", "NodeName=gpu-[0-3] Name=gpu Type=a100 File=/dev/nvidia[0-1]")
    );
    assert_eq!(
        with("gpus = { type = \"mi300x\" }"),
        own("Gres=gpu:mi300x:4", "NodeName=gpu-[0-3] Name=gpu Type=mi300x File=/dev/dri/renderD[128-131]")
    );
    assert_eq!(
        with("gpus = { detect = \"nvml\" }"),
        own("Gres=gpu:a100:4", "NodeName=gpu-[0-3] AutoDetect=nvml")
    );
    assert_eq!(with("gpus = { count = 0 }"), own("", ""));
    assert_eq!(with("node_config = { Gres = \"gpu:x:1\" }"), own("Gres=gpu:x:1", ""));
    // No driver: slurmd would wait for device files that never come.
    assert_eq!(gres_of(&EXAMPLE.replace("software = [\"nvidia\"]\n", "")), own("", ""));
    let plugin = EXAMPLE.replace("[\"nvidia\"]\n", "[\"nvidia\"]\npackages = [\"slurm-wlm-nvml-plugin\"]\n");
    assert_eq!(gres_of(&plugin), own("Gres=gpu:a100:4", "NodeName=gpu-[0-3] AutoDetect=nvml"));
    // slurmctld must know the devices of nodes that are not there.
    let elastic = plugin.replace(group, &format!("{group}elastic = {{}}\n"));
    assert_eq!(
        gres_of(&elastic),
        own("Gres=gpu:a100:4", "NodeName=gpu-[0-3] Name=gpu Type=a100 File=/dev/nvidia[0-3]")
    );
}

#[test]
fn a_site_may_arrange_it_all() {
    let own = format!(
        "{EXAMPLE}\n[slurm.config]\nGresTypes = \"gpu,nic\"\nTopologyPlugin = \"topology/default\"\n\
         [[role.control.file]]\npath = \"/etc/slurm/gres.conf\"\ncontent = \"own\\n\"\n"
    );
    let conf = conf(&own, |_, _| {});
    assert!(conf.slurm.contains("\nGresTypes=gpu,nic\n"), "{}", conf.slurm);
    assert_eq!((conf.gres.as_deref(), conf.topology), (Some("own\n"), None));
}

/// The cloud says where some nodes are. A node of an elastic group is elsewhere each time.
#[test]
fn nodes_are_where_the_cloud_says() {
    let text = EXAMPLE.replace("switch = \"core/rack-7\"", "").replace("switch = \"core/rack-8\"", "");
    assert!(conf(&text, |_, _| {}).topology.is_none());
    let told = conf(&text, |_, inventory| {
        for (node, block) in [("gpu-0", "local-a"), ("gpu-1", "local-a"), ("gpu-2", "local-b")] {
            let path = ["island-x", block].map(String::from).to_vec();
            inventory.nodes.get_mut(node).unwrap().switch = Some(path);
        }
    });
    assert_eq!(
        lines(&told.topology.unwrap(), "SwitchName="),
        [
            "SwitchName=local-a Nodes=gpu-[0-1]",
            "SwitchName=local-b Nodes=gpu-2",
            "SwitchName=island-x Switches=local-a,local-b",
            "SwitchName=kiln-elsewhere Nodes=gpu-3,cpu-[0-7]",
            "SwitchName=kiln-top Switches=island-x,kiln-elsewhere",
        ]
    );
}
