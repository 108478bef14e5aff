//! Shapes, and sizes of flexible ones: `VM.Standard.E5.Flex.16.128` has 16 OCPUs and 128 GB.

use serde::Deserialize;
use serde_json::{Value, json};

use super::driver::Driver;
use super::region::Service::Core;
use super::wire::ShapeConfig;
use crate::{CpuTopology, Error, Flavor, Gpus, Result, gpus};

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireShape {
    pub shape: String,
    #[serde(default)]
    processor_description: Option<String>,
    #[serde(default)]
    ocpus: Option<f64>,
    #[serde(default, rename = "memoryInGBs")]
    memory: Option<f64>,
    #[serde(default)]
    gpus: Option<u32>,
    #[serde(default)]
    gpu_description: Option<String>,
    #[serde(default)]
    rdma_ports: Option<u32>,
    #[serde(default)]
    is_flexible: Option<bool>,
    #[serde(default)]
    ocpu_options: Option<Range>,
    #[serde(default)]
    memory_options: Option<MemoryRange>,
    /// The limits of the tenancy that instances of it count against.
    #[serde(default)]
    pub quota_names: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Range {
    #[serde(default)]
    min: Option<f64>,
    #[serde(default)]
    max: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemoryRange {
    #[serde(default, rename = "minInGBs")]
    min: Option<f64>,
    #[serde(default, rename = "maxInGBs")]
    max: Option<f64>,
    #[serde(default, rename = "defaultPerOcpuInGBs")]
    default_per_ocpu: Option<f64>,
}

impl WireShape {
    fn is_flexible(&self) -> bool {
        self.is_flexible == Some(true)
    }

    /// Its instances reach one another over RDMA.
    pub(super) fn has_rdma(&self) -> bool {
        self.rdma_ports.is_some_and(|ports| ports > 0)
    }

    /// How much of a limit one instance takes. What a limit counts, only its name says.
    pub(super) fn takes(&self, limit: &str, size: Option<ShapeConfig>) -> u64 {
        let own = ShapeConfig { ocpus: self.ocpus.unwrap_or(1.0), memory: self.memory.unwrap_or(1.0) };
        let size = size.unwrap_or(own);
        let number = if limit.contains("core-count") {
            whole(size.ocpus.ceil())
        } else if limit.contains("memory-count") {
            whole(size.memory.ceil())
        } else if limit.contains("gpu") {
            self.gpus.unwrap_or(1)
        } else {
            1
        };
        number.max(1).into()
    }

    fn is_arm(&self) -> bool {
        let text = self.processor_description.as_deref().unwrap_or_default().to_lowercase();
        text.contains("ampere") || self.shape.contains(".A1.") || self.shape.contains(".A2.")
    }

    fn flavor(&self, name: &str, ocpus: f64, memory: f64) -> Flavor {
        // A core has two threads on x86 and one on Ampere's processors; an OCPU is a core. Of A2 and later, it is two.
        let threads = if self.is_arm() { 1 } else { 2 };
        let cores = whole(ocpus).max(1);
        let mut features = vec![format!("shape={}", self.shape)];
        features.push(format!("arch={}", if self.is_arm() { "aarch64" } else { "x86_64" }));
        if let Some(gpus) = self.gpus.filter(|gpus| *gpus > 0) {
            features.push(format!("gpus={gpus}"));
            if let Some(what) = &self.gpu_description {
                features.push(format!("gpu={}", word(what)));
            }
        }
        if self.has_rdma() {
            features.push("rdma".into());
        }
        Flavor {
            name: name.to_string(),
            cpus: cores * threads,
            memory_mib: u64::from(whole(memory * 1024.0)),
            features,
            topology: Some(CpuTopology { sockets: 1, cores, threads }),
            gpus: Gpus::new(self.gpus.unwrap_or(0), self.gpu_description.as_deref().and_then(gpus::model)),
        }
    }

    /// Of those that come in any size, a ladder: what people begin with.
    fn flavors(&self) -> Vec<Flavor> {
        if !self.is_flexible() {
            let (ocpus, memory) = (self.ocpus.unwrap_or(1.0), self.memory.unwrap_or(1.0));
            return vec![self.flavor(&self.shape, ocpus, memory)];
        }
        let most = self.ocpu_options.and_then(|range| range.max).unwrap_or(1.0);
        let per_ocpu = self.memory_options.and_then(|range| range.default_per_ocpu).unwrap_or(16.0);
        let steps = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0].into_iter().filter(|ocpus| *ocpus <= most);
        steps
            .map(|ocpus| {
                let size = ShapeConfig { ocpus, memory: ocpus * per_ocpu };
                self.flavor(&name_of(&self.shape, size), size.ocpus, size.memory)
            })
            .collect()
    }

    fn has(&self, size: ShapeConfig) -> bool {
        let within = |value: f64, min: Option<f64>, max: Option<f64>| {
            value >= min.unwrap_or(1.0) && value <= max.unwrap_or(f64::MAX)
        };
        let ocpus = self.ocpu_options.is_none_or(|range| within(size.ocpus, range.min, range.max));
        ocpus && self.memory_options.is_none_or(|range| within(size.memory, range.min, range.max))
    }
}

impl Driver {
    pub async fn flavors(&self) -> Result<Vec<Flavor>> {
        let all = self.list_shapes().await?;
        let mut flavors: Vec<Flavor> = all.iter().flat_map(WireShape::flavors).collect();
        flavors.sort_by(|a, b| (a.cpus, a.memory_mib, &a.name).cmp(&(b.cpus, b.memory_mib, &b.name)));
        *self.known.shapes.lock().await = all;
        Ok(flavors)
    }

    /// All that have a name, and those of these names, whatever their sizes.
    pub async fn flavors_named(&self, names: &[String]) -> Result<Vec<Flavor>> {
        let mut flavors = self.flavors().await?;
        let shapes = self.known.shapes.lock().await;
        for name in names {
            let known = flavors.iter().any(|flavor| flavor.name == *name);
            let Some((shape, size)) = split(name).filter(|_| !known) else { continue };
            if let Some(found) = shapes.iter().find(|s| s.is_flexible() && s.shape == shape && s.has(size)) {
                flavors.push(found.flavor(name, size.ocpus, size.memory));
            }
        }
        Ok(flavors)
    }

    /// The names of those for this kind of processor.
    pub(super) async fn shapes_for(&self, is_arm: bool) -> Result<Vec<String>> {
        let all = self.list_shapes().await?;
        let mut names: Vec<String> =
            all.iter().filter(|shape| shape.is_arm() == is_arm).map(|shape| shape.shape.clone()).collect();
        names.dedup();
        Ok(names)
    }

    /// One for each availability domain that has it, so some come more than once.
    async fn list_shapes(&self) -> Result<Vec<WireShape>> {
        let mut all: Vec<WireShape> = self.client.list(Core, &self.in_compartment("shapes")).await?;
        all.sort_by(|a, b| a.shape.cmp(&b.shape));
        all.dedup_by(|a, b| a.shape == b.shape);
        Ok(all)
    }

    /// As a launch wants them: the shape's name, and the size of a flexible one.
    pub(super) async fn shape(&self, flavor: &str) -> Result<(String, Option<Value>)> {
        let (shape, size) = self.sized_shape(flavor).await?;
        let config = |size: ShapeConfig| json!({ "ocpus": size.ocpus, "memoryInGBs": size.memory });
        Ok((shape.shape, size.map(config)))
    }

    /// The shape of a flavor, and the size of a flexible one.
    pub(super) async fn sized_shape(&self, flavor: &str) -> Result<(WireShape, Option<ShapeConfig>)> {
        let mut known = self.known.shapes.lock().await;
        if known.is_empty() {
            *known = self.list_shapes().await?;
        }
        if let Some(fixed) = known.iter().find(|shape| shape.shape == flavor && !shape.is_flexible()) {
            return Ok((fixed.clone(), None));
        }
        let found = split(flavor).and_then(|(name, size)| {
            let shape = known.iter().find(|shape| shape.shape == name && shape.is_flexible())?;
            Some((shape, size))
        });
        let Some((shape, size)) = found else { return Err(Error::not_found("shape", flavor.to_string())) };
        if !shape.has(size) {
            return Err(Error::refused(format!("{} does not come in the size of {flavor}", shape.shape)));
        }
        Ok((shape.clone(), Some(size)))
    }
}

/// The name of the flavor that an instance has.
pub(super) fn flavor_of(shape: &str, size: Option<ShapeConfig>) -> String {
    match size {
        Some(size) if shape.ends_with(".Flex") => name_of(shape, size),
        _ => shape.to_string(),
    }
}

fn name_of(shape: &str, size: ShapeConfig) -> String {
    format!("{shape}.{}.{}", size.ocpus, size.memory)
}

/// `SHAPE.OCPUS.GB`
fn split(flavor: &str) -> Option<(&str, ShapeConfig)> {
    let (rest, memory) = flavor.rsplit_once('.')?;
    let (shape, ocpus) = rest.rsplit_once('.')?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0).map(f64::from);
    Some((shape, ShapeConfig { ocpus: number(ocpus)?, memory: number(memory)? }))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes of machines")]
fn whole(number: f64) -> u32 {
    number.max(0.0).floor() as u32
}

/// What Slurm takes as a feature.
fn word(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = text.chars().map(plain).collect();
    words.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(json: &str) -> WireShape {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_flexible_shape_has_its_size_in_its_name() {
        let (name, size) = split("VM.Standard.E5.Flex.16.128").unwrap();
        assert_eq!((name, size.ocpus, size.memory), ("VM.Standard.E5.Flex", 16.0, 128.0));
        assert_eq!(flavor_of(name, Some(size)), "VM.Standard.E5.Flex.16.128");
        assert_eq!(flavor_of("BM.HPC2.36", Some(size)), "BM.HPC2.36");
        for wrong in ["VM.Standard.E5.Flex", "VM.Standard.E5.Flex.0.4", "x", ""] {
            assert!(split(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_what_the_shape_offers() {
        let flex = shape(
            r#"{"shape": "VM.Standard.A1.Flex", "isFlexible": true, "processorDescription": "3.0 GHz Ampere Altra",
                "ocpuOptions": {"min": 1, "max": 4}, "memoryOptions": {"minInGBs": 1, "maxInGBs": 32, "defaultPerOcpuInGBs": 6}}"#,
        );
        let names: Vec<String> = flex.flavors().into_iter().map(|flavor| flavor.name).collect();
        assert_eq!(
            names,
            ["VM.Standard.A1.Flex.1.6", "VM.Standard.A1.Flex.2.12", "VM.Standard.A1.Flex.4.24"]
        );
        assert!(flex.has(ShapeConfig { ocpus: 3.0, memory: 32.0 }));
        assert!(!flex.has(ShapeConfig { ocpus: 5.0, memory: 32.0 }));
        assert!(!flex.has(ShapeConfig { ocpus: 4.0, memory: 33.0 }));
        assert_eq!(flex.flavors()[1].cpus, 2);
    }

    #[test]
    fn a_limit_counts_what_its_name_says() {
        let flex = shape(r#"{"shape": "VM.Standard.E5.Flex", "isFlexible": true}"#);
        let size = Some(ShapeConfig { ocpus: 16.0, memory: 128.0 });
        assert_eq!(flex.takes("standard-e5-core-count", size), 16);
        assert_eq!(flex.takes("standard-e5-memory-count", size), 128);
        let fixed = shape(r#"{"shape": "VM.Standard2.4", "ocpus": 4, "memoryInGBs": 60}"#);
        assert_eq!(fixed.takes("standard2-core-count", None), 4);
        let gpu = shape(r#"{"shape": "BM.GPU4.8", "ocpus": 64, "gpus": 8}"#);
        assert_eq!(gpu.takes("gpu4-count", None), 8);
        assert_eq!(shape(r#"{"shape": "BM.HPC2.36", "ocpus": 36}"#).takes("hpc2-36-count", None), 1);
    }

    #[test]
    fn a_shape_says_what_its_instances_have() {
        let gpu = shape(
            r#"{"shape": "BM.GPU4.8", "ocpus": 64, "memoryInGBs": 2048, "gpus": 8, "gpuDescription": "NVIDIA® A100",
                "rdmaPorts": 16, "processorDescription": "2.9 GHz AMD EPYC"}"#,
        );
        let [flavor] = gpu.flavors().try_into().unwrap();
        assert_eq!((flavor.cpus, flavor.memory_mib), (128, 2_097_152));
        assert_eq!(flavor.features, ["shape=BM.GPU4.8", "arch=x86_64", "gpus=8", "gpu=nvidia-a100", "rdma"]);
        assert_eq!(flavor.gpus, Gpus::new(8, Some("a100".into())));
    }
}
