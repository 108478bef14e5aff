//! Flavors: how many CPUs, how much memory, and what else a job could choose a node by.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::driver::Driver;
use super::session::Service::Compute;
use crate::{CpuTopology, Error, Flavor, Gpus, Result, gpus};

#[derive(Debug, Clone, Deserialize)]
pub(super) struct WireFlavor {
    id: String,
    name: String,
    vcpus: u32,
    ram: u64,
    /// Absent where the cloud does not let users see them.
    #[serde(default)]
    extra_specs: BTreeMap<String, String>,
}

impl From<&WireFlavor> for Flavor {
    fn from(flavor: &WireFlavor) -> Flavor {
        Flavor {
            name: flavor.name.clone(),
            cpus: flavor.vcpus,
            memory_mib: flavor.ram,
            features: features(&flavor.name, &flavor.extra_specs),
            topology: topology(flavor.vcpus, &flavor.extra_specs),
            gpus: gpus_of(&flavor.extra_specs),
        }
    }
}

impl Driver {
    pub async fn flavors(&self) -> Result<Vec<Flavor>> {
        let all = self.list_flavors().await?;
        let mut flavors: Vec<Flavor> = all.iter().map(Flavor::from).collect();
        // Nova has them in the order of their ids, which mean nothing.
        flavors.sort_by(|a, b| (a.cpus, a.memory_mib, &a.name).cmp(&(b.cpus, b.memory_mib, &b.name)));
        *self.known.flavors.lock().await = all;
        Ok(flavors)
    }

    async fn list_flavors(&self) -> Result<Vec<WireFlavor>> {
        self.client.list(Compute, "/flavors/detail", "flavors").await
    }

    pub(super) async fn flavor_id(&self, name: &str) -> Result<String> {
        let mut known = self.known.flavors.lock().await;
        if !known.iter().any(|f| f.name == name) {
            *known = self.list_flavors().await?;
        }
        let found = known.iter().find(|f| f.name == name).map(|f| f.id.clone());
        found.ok_or_else(|| Error::not_found("flavor", name.to_string()))
    }
}

/// Only what a flavor promises of every server: what it merely prefers or forbids is no reason to choose it.
fn features(name: &str, extra_specs: &BTreeMap<String, String>) -> Vec<String> {
    let mut features = vec![format!("shape={name}")];
    for (key, value) in extra_specs {
        let Some((space, what)) = key.split_once(':') else { continue };
        match space {
            // `trait` and `resources` may have a suffix, the name of a group of requests.
            _ if space.starts_with("trait") && value == "required" => {
                features.push(match what.strip_prefix("HW_ARCH_") {
                    Some(architecture) => format!("arch={}", architecture.to_lowercase()),
                    None => format!("trait={what}"),
                });
            }
            _ if space.starts_with("resources") && ["VGPU", "PGPU"].contains(&what) && value != "0" => {
                features.push(what.to_lowercase());
            }
            "pci_passthrough" if what == "alias" => {
                // `a100:2,nvme:1`: names that the cloud's administrators gave, with how many of each.
                let names = value.split(',').filter_map(|one| one.split(':').next()).map(str::trim);
                features.extend(names.filter(|name| !name.is_empty()).map(|name| format!("pci={name}")));
            }
            "hw" if what == "cpu_policy" && value == "dedicated" => {
                features.push("cpu_policy=dedicated".into());
            }
            "capabilities" if what == "cpu_info:arch" && is_word(value) => {
                features.push(format!("arch={}", value.to_lowercase()));
            }
            _ => {}
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    features.retain(|feature| seen.insert(feature.clone()));
    features
}

/// GPUs, by the names that the cloud's administrators gave to devices, resources and traits. GPUs of several models are
/// counted together, without one.
fn gpus_of(extra_specs: &BTreeMap<String, String>) -> Option<Gpus> {
    let mut found: Vec<(u32, Option<String>)> = Vec::new();
    for (key, value) in extra_specs {
        let Some((space, what)) = key.split_once(':') else { continue };
        if space == "pci_passthrough" && what == "alias" {
            for one in value.split(',') {
                let (name, count) = one.trim().split_once(':').unwrap_or((one.trim(), "1"));
                if gpus::is_gpu(name) {
                    found.push((count.trim().parse().unwrap_or(1), gpus::model(name)));
                }
            }
        }
        // One machine of Ironic, whatever is in it, is one of its resource class.
        let is_machine = what.to_ascii_uppercase().contains("BAREMETAL");
        if space.starts_with("resources") && !is_machine && gpus::is_gpu(what) {
            found.push((value.trim().parse().unwrap_or(0), gpus::model(what)));
        }
    }
    found.retain(|(count, _)| *count > 0);
    let mut required =
        extra_specs.iter().filter(|(key, value)| key.starts_with("trait") && *value == "required");
    let by_trait = required.find_map(|(key, _)| gpus::model(key.split_once(':')?.1));
    let first = found.first()?.1.clone();
    let model = first.filter(|first| found.iter().all(|(_, other)| other.as_ref() == Some(first)));
    let none_named = found.iter().all(|(_, model)| model.is_none());
    Gpus::new(found.iter().map(|(count, _)| count).sum(), model.or(by_trait.filter(|_| none_named)))
}

/// What the flavor fixes of its servers' CPUs. Nova fills in what is left open with as many sockets as there can be.
fn topology(cpus: u32, extra_specs: &BTreeMap<String, String>) -> Option<CpuTopology> {
    let number = |key: &str| extra_specs.get(key)?.parse::<u32>().ok().filter(|number| *number > 0);
    let given = ["hw:cpu_sockets", "hw:cpu_cores", "hw:cpu_threads"].map(number);
    let topology = match given {
        [None, None, None] => return None,
        [Some(sockets), Some(cores), threads] => {
            CpuTopology { sockets, cores, threads: threads.unwrap_or(cpus / (sockets * cores).max(1)) }
        }
        [Some(sockets), None, threads] => {
            let threads = threads.unwrap_or(1);
            CpuTopology { sockets, cores: cpus / (sockets * threads).max(1), threads }
        }
        [None, cores, threads] => {
            let (cores, threads) = (cores.unwrap_or(1), threads.unwrap_or(1));
            CpuTopology { sockets: cpus / (cores * threads).max(1), cores, threads }
        }
    };
    (topology.sockets * topology.cores * topology.threads == cpus).then_some(topology)
}

/// And not a comparison, such as `<in> x86_64`.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features_of(extra_specs: &[(&str, &str)]) -> Vec<String> {
        let specs = extra_specs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string()));
        features("hpc.16", &specs.collect())
    }

    #[test]
    fn a_flavor_may_fix_sockets_cores_and_threads() {
        let of = |specs: &[(&str, &str)]| {
            let specs = specs.iter().map(|(key, value)| (format!("hw:cpu_{key}"), (*value).to_string()));
            topology(8, &specs.collect()).map(|t| (t.sockets, t.cores, t.threads))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("threads", "2")]), Some((4, 1, 2)));
        assert_eq!(of(&[("sockets", "1"), ("threads", "2")]), Some((1, 4, 2)));
        assert_eq!(of(&[("sockets", "2"), ("cores", "2"), ("threads", "2")]), Some((2, 2, 2)));
        assert_eq!(of(&[("sockets", "2"), ("cores", "2")]), Some((2, 2, 2)));
        assert_eq!(of(&[("cores", "8")]), Some((1, 8, 1)));
        // A flavor that Nova would refuse, and what is not a number.
        assert_eq!(of(&[("sockets", "3"), ("cores", "2"), ("threads", "2")]), None);
        assert_eq!(of(&[("threads", "many")]), None);
    }

    #[test]
    fn a_flavor_says_what_its_servers_have() {
        assert_eq!(features_of(&[]), ["shape=hpc.16"]);
        let specs = [
            ("hw:cpu_policy", "dedicated"),
            ("pci_passthrough:alias", "a100:2, nvme:1"),
            ("resources:VGPU", "1"),
            ("trait:HW_ARCH_X86_64", "required"),
            ("trait:HW_CPU_X86_AVX512F", "required"),
            ("trait_net:CUSTOM_INFINIBAND", "required"),
        ];
        let expected = [
            "shape=hpc.16",
            "cpu_policy=dedicated",
            "pci=a100",
            "pci=nvme",
            "vgpu",
            "arch=x86_64",
            "trait=HW_CPU_X86_AVX512F",
            "trait=CUSTOM_INFINIBAND",
        ];
        assert_eq!(features_of(&specs), expected);
    }

    #[test]
    fn a_flavor_says_which_gpus_its_servers_have() {
        let of = |specs: &[(&str, &str)]| {
            let specs = specs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string()));
            gpus_of(&specs.collect()).map(|gpus| (gpus.count, gpus.model))
        };
        let some = |count: u32, model: &str| Some((count, Some(model.to_string())));
        assert_eq!(of(&[("pci_passthrough:alias", "a100:4, nvme:1")]), some(4, "a100"));
        assert_eq!(of(&[("pci_passthrough:alias", "gpu-h100-sxm")]), some(1, "h100"));
        assert_eq!(of(&[("pci_passthrough:alias", "gpu:2")]), Some((2, None)));
        assert_eq!(of(&[("pci_passthrough:alias", "a100:2,l4:1")]), Some((3, None)));
        assert_eq!(of(&[("resources:VGPU", "1")]), Some((1, None)));
        assert_eq!(of(&[("resources:VGPU", "1"), ("trait:CUSTOM_NVIDIA_A40", "required")]), some(1, "a40"));
        assert_eq!(of(&[("resources1:PGPU", "2"), ("trait1:CUSTOM_L40S", "forbidden")]), Some((2, None)));
        assert_eq!(of(&[("resources:CUSTOM_GPU_A30", "2")]), some(2, "a30"));
        for none in [
            ("resources:VGPU", "0"),
            ("resources:CUSTOM_BAREMETAL_A100X4", "1"),
            ("resources:CUSTOM_BAREMETAL_GPU", "1"),
            ("pci_passthrough:alias", "nvme:2"),
            ("trait:CUSTOM_GPU_A100", "required"),
            ("aggregate_instance_extra_specs:gpu", "true"),
        ] {
            assert_eq!(of(&[none]), None, "{none:?}");
        }
    }

    #[test]
    fn what_is_not_promised_is_not_told() {
        let specs = [
            ("aggregate_instance_extra_specs:rack", "7"),
            ("capabilities:cpu_info:arch", "<in> x86_64"),
            ("hw:cpu_policy", "shared"),
            ("quota:disk_read_iops_sec", "1000"),
            ("resources:CUSTOM_BAREMETAL", "1"),
            ("resources:VGPU", "0"),
            ("trait:HW_CPU_X86_AVX", "forbidden"),
            ("plain", "1"),
        ];
        assert_eq!(features_of(&specs), ["shape=hpc.16"]);
    }
}
