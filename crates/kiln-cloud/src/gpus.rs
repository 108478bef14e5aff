//! The GPUs of a flavor, as far as the cloud's words tell.

use serde::{Deserialize, Serialize};

/// GPUs of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpus {
    pub count: u32,
    /// A word such as `a100`; `None`: the cloud does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Gpus {
    /// `None` of no GPU at all.
    pub fn new(count: u32, model: Option<String>) -> Option<Gpus> {
        (count > 0).then_some(Gpus { count, model })
    }
}

/// Models by their names. Names that clouds make of them have more words: `NVIDIA® A100`, `gpu-a100-80g`, `CUSTOM_GPU_L40S`.
const MODELS: &[&str] = &[
    "a10", "a16", "a2", "a30", "a40", "a100", "a800", "b100", "b200", "b300", "gb200", "gb300", "gh200",
    "h100", "h20", "h200", "k80", "l4", "l40", "l40s", "m60", "p4", "p40", "p100", "rtx6000", "t4", "v100",
];

/// Words that say that something is a GPU without saying which.
const KINDS: &[&str] = &["gpu", "gpus", "nvidia", "tesla", "pgpu", "vgpu"];

/// The model that a name has in it.
pub(crate) fn model(name: &str) -> Option<String> {
    words(name).into_iter().find(|word| is_model(word))
}

/// Whether a name is that of a GPU.
pub(crate) fn is_gpu(name: &str) -> bool {
    words(name).iter().any(|word| KINDS.contains(&word.as_str()) || is_model(word))
}

fn is_model(word: &str) -> bool {
    // AMD's Instinct: MI210, MI300X.
    let instinct = word.strip_prefix("mi").is_some_and(|rest| {
        let digits = rest.trim_end_matches(['x', 'a']);
        digits.len() >= 2 && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    instinct || MODELS.contains(&word)
}

/// In lower case.
fn words(name: &str) -> Vec<String> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clouds_have_models_in_them() {
        for (name, wanted) in [
            ("NVIDIA® A100", Some("a100")),
            ("NVIDIA A10", Some("a10")),
            ("gpu-a100-80g", Some("a100")),
            ("CUSTOM_GPU_L40S", Some("l40s")),
            ("AMD Instinct MI300X", Some("mi300x")),
            ("Tesla V100", Some("v100")),
            ("gpu", None),
            ("nvme", None),
            ("mix", None),
            ("a1000000", None),
        ] {
            assert_eq!(model(name).as_deref(), wanted, "{name}");
        }
        assert!(is_gpu("gpu") && is_gpu("nvidia_big") && is_gpu("h100"));
        assert!(!is_gpu("nvme") && !is_gpu("CUSTOM_BAREMETAL") && !is_gpu("qat"));
    }
}
