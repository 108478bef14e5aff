//! GPUs: what of them slurm.conf says, and gres.conf, which slurmctld hands out to every slurmd.

use std::fmt::Write as _;

use kiln_spec::{Detect, GpuSpec, Group, ImageSoftware, ImageSource, ImageSpec, Software, Spec, hostlist};

use super::value_of;
use crate::inputs::Inventory;

/// The GPUs of a node, for Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGpus {
    pub count: u32,
    /// The type that jobs ask for.
    pub kind: Option<String>,
    devices: Devices,
}

/// How slurmd comes to know them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Devices {
    Files(String),
    Detect(Detect),
}

impl NodeGpus {
    /// As `Gres` of a `NodeName` line.
    pub fn gres(&self) -> String {
        match &self.kind {
            Some(kind) => format!("gpu:{kind}:{}", self.count),
            None => format!("gpu:{}", self.count),
        }
    }

    /// What gres.conf says of nodes with such GPUs.
    fn line(&self) -> String {
        let kind = self.kind.as_ref().map(|kind| format!(" Type={kind}")).unwrap_or_default();
        match &self.devices {
            Devices::Files(files) => format!("Name=gpu{kind} File={files}"),
            Devices::Detect(plugin) => format!("AutoDetect={}", plugin.name()),
        }
    }
}

/// The GPUs that jobs can ask a node for: what the file says, else what the cloud says of the flavor. `None` as well where
/// `node_config` has a `Gres`: the site arranges it all.
pub fn gpus(spec: &Spec, group: &Group, node: &str, inventory: &Inventory) -> Option<NodeGpus> {
    if value_of(&group.node_config(node), "Gres").is_some() {
        return None;
    }
    let member = group.members().find(|member| member.name == node)?;
    let image = member.image;
    let said = group.gpus(node);
    // slurmd does not start where a device file is missing, as it is without a driver.
    if said.is_none() && !has_gpu_driver(spec, image) {
        return None;
    }
    let told = inventory.nodes.get(node).and_then(|facts| facts.gpus.as_ref());
    let nothing = GpuSpec::default();
    let said = said.unwrap_or(&nothing);
    let count = said.count.or(told.map(|(count, _)| *count)).filter(|count| *count > 0)?;
    let kind = said.kind.clone().or_else(|| told.and_then(|(_, model)| model.clone()));
    let devices = if let Some(plugin) = said.detect {
        Devices::Detect(plugin)
    } else if let Some(files) = &said.files {
        Devices::Files(files.clone())
    } else if let Some(plugin) = plugin(spec, image).filter(|_| !member.elastic) {
        // slurmctld must know the devices of nodes that are not there.
        Devices::Detect(plugin)
    } else {
        Devices::Files(usual_files(kind.as_deref(), count))
    };
    Some(NodeGpus { count, kind, devices })
}

fn usual_files(kind: Option<&str>, count: u32) -> String {
    let is_amd = kind
        .and_then(|kind| kind.strip_prefix("mi"))
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let (name, first) = if is_amd { ("/dev/dri/renderD", 128) } else { ("/dev/nvidia", 0) };
    match count {
        1 => format!("{name}{first}"),
        _ => format!("{name}[{first}-{}]", first + count - 1),
    }
}

/// The image, and those of the file that it is built on.
fn lineage<'s>(spec: &'s Spec, image: &str) -> Vec<&'s ImageSpec> {
    let mut all: Vec<&ImageSpec> = Vec::new();
    let mut next = Some(image);
    while let Some(found) = next.and_then(|name| spec.images.get(name)) {
        // The file was checked for circles; this ends all the same.
        if all.iter().any(|image| image.name == found.name) {
            break;
        }
        all.push(found);
        next = match &found.source {
            ImageSource::Image(name) => Some(name.as_str()),
            ImageSource::Cloud(_) | ImageSource::Prebuilt(_) | ImageSource::System(_) => None,
        };
    }
    all
}

fn packages<'s>(spec: &'s Spec, image: &str) -> impl Iterator<Item = &'s str> {
    let lineage = lineage(spec, image);
    let of_sets = lineage.clone().into_iter().flat_map(|image| &image.software).filter_map(|set| match set {
        ImageSoftware::Site(name) => spec.software.get(name),
        ImageSoftware::Kiln(_) => None,
    });
    let of_sets = of_sets.flat_map(|set| set.packages.iter().chain([&set.name]));
    lineage.into_iter().flat_map(|image| &image.packages).chain(of_sets).map(String::as_str)
}

/// Whether an image of the file has a driver of GPUs, by the names of its software.
pub fn has_gpu_driver(spec: &Spec, image: &str) -> bool {
    const WORDS: [&str; 4] = ["nvidia", "cuda", "amdgpu", "rocm"];
    let is_nvidia = |image: &&ImageSpec| image.software.contains(&ImageSoftware::Kiln(Software::Nvidia));
    lineage(spec, image).iter().any(is_nvidia)
        || packages(spec, image).any(|name| WORDS.iter().any(|word| name.contains(word)))
}

/// The plugin of slurmd that an image has a package of.
fn plugin(spec: &Spec, image: &str) -> Option<Detect> {
    const PACKAGES: [(&str, Detect); 2] =
        [("slurm-wlm-nvml-plugin", Detect::Nvml), ("slurm-wlm-rsmi-plugin", Detect::Rsmi)];
    let has = |name: &str| packages(spec, image).any(|package| package == name);
    PACKAGES.into_iter().find(|(name, _)| has(name)).map(|(_, plugin)| plugin)
}

fn all<'s>(spec: &'s Spec, inventory: &Inventory) -> Vec<(&'s str, NodeGpus)> {
    let of_group = |group: &'s Group| {
        let names = group.nodes.iter().map(String::as_str);
        names.filter_map(|name| Some((name, gpus(spec, group, name, inventory)?))).collect::<Vec<_>>()
    };
    spec.compute.iter().flat_map(of_group).collect()
}

/// gres.conf, if there are GPUs that it is to tell of.
pub fn gres_conf(spec: &Spec, inventory: &Inventory) -> Option<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, gpus) in all(spec, inventory) {
        let line = gpus.line();
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, names)) => names.push(name),
            None => lines.push((line, vec![name])),
        }
    }
    if lines.is_empty() {
        return None;
    }
    let mut text = String::from("# Written by Kiln from cluster.toml and what the cloud says of flavors.\n");
    for (line, names) in lines {
        let _ = writeln!(text, "NodeName={} {line}", hostlist::fold(names));
    }
    Some(text)
}

/// What gres.conf says of one node: its slurmd must be restarted when it changes.
pub fn line_of(spec: &Spec, node: &str, inventory: &Inventory) -> Option<String> {
    let group = spec.compute.iter().find(|group| group.nodes.iter().any(|name| name == node))?;
    gpus(spec, group, node, inventory).map(|gpus| format!("{} {}", gpus.gres(), gpus.line()))
}

/// What slurmdbd is to account for: GPUs, and those of each type.
pub fn tracked(spec: &Spec, inventory: &Inventory) -> Vec<String> {
    let mut tracked = Vec::new();
    for (_, gpus) in all(spec, inventory) {
        tracked.push("gres/gpu".to_string());
        tracked.extend(gpus.kind.map(|kind| format!("gres/gpu:{kind}")));
    }
    tracked.sort();
    tracked.dedup();
    tracked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_files_have_their_drivers_names() {
        assert_eq!(usual_files(Some("a100"), 4), "/dev/nvidia[0-3]");
        assert_eq!(usual_files(None, 1), "/dev/nvidia0");
        assert_eq!(usual_files(Some("mi300x"), 8), "/dev/dri/renderD[128-135]");
        assert_eq!(usual_files(Some("mig"), 1), "/dev/nvidia0");
    }

    #[test]
    fn a_driver_is_known_by_its_software() {
        let file = |image: &str| {
            let text = format!(
                "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.g]\nnodes = \"g-0\"\nimage = \"gpu\"\n\
                 [software.drivers]\npackages = [\"rocm-smi\"]\n[software.tools]\npackages = [\"gdb\"]\n\
                 [image.default]\n[image.gpu]\nsource = \"default\"\n{image}\n"
            );
            kiln_spec::parse(&text, "f").unwrap_or_else(|e| panic!("{e}"))
        };
        for (image, wanted) in [
            ("", false),
            ("software = [\"nvidia\"]", true),
            ("software = [\"drivers\"]", true),
            ("software = [\"tools\", \"mpi\"]", false),
            ("packages = [\"nvidia-driver\"]", true),
        ] {
            assert_eq!(has_gpu_driver(&file(image), "gpu"), wanted, "{image}");
        }
        let with_plugin = file("packages = [\"slurm-wlm-nvml-plugin\"]");
        assert_eq!(
            (plugin(&with_plugin, "gpu"), plugin(&with_plugin, "default")),
            (Some(Detect::Nvml), None)
        );
    }
}
