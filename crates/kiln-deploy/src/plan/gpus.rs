//! What the cloud says of GPUs and what the file says, where the two do not agree.

use kiln_cloud::Gpus;
use kiln_site::{gpus_of_gres, has_gpu_driver};
use kiln_spec::{Group, Node, Spec, hostlist};

use super::node::group_label;
use crate::bundles::flavor_gpus;
use crate::observe::Observed;

/// One line for all nodes of a group that differ in the same way.
pub fn notes(spec: &Spec, observed: &Observed) -> Vec<String> {
    let mut notes: Vec<(String, String, Vec<&str>)> = Vec::new();
    for group in &spec.compute {
        for node in group.members() {
            let Some(text) = note(spec, group, &node, observed) else { continue };
            let label = group_label(&node);
            match notes.iter_mut().find(|(of, known, _)| *of == label && *known == text) {
                Some((.., names)) => names.push(node.name),
                None => notes.push((label, text, vec![node.name])),
            }
        }
    }
    let line = |(label, text, names): (String, String, Vec<&str>)| {
        format!("{label}: {}: {text}", hostlist::fold(names))
    };
    notes.into_iter().map(line).collect()
}

fn note(spec: &Spec, group: &Group, node: &Node<'_>, observed: &Observed) -> Option<String> {
    observed.flavors.iter().find(|flavor| flavor.name == node.flavor)?;
    let told = flavor_gpus(spec, node, node.flavor, observed);
    let of_flavor = |gpus: &Gpus| format!("flavor {} has {}", node.flavor, words(gpus));
    let config = group.node_config(node.name);
    let gres = config.iter().find(|(key, _)| key.eq_ignore_ascii_case("Gres")).map(|(_, gres)| gres);
    match (gres, group.gpus(node.name), told) {
        (Some(gres), _, Some(told)) if gpus_of_gres(gres) != told.count => {
            Some(format!("{}, and the file says Gres={gres}, which counts", of_flavor(&told)))
        }
        (None, Some(said), Some(told)) => {
            let count = said.count.unwrap_or(told.count);
            let kind = said.kind.clone().or_else(|| told.model.clone());
            let differs = count != told.count || (told.model.is_some() && kind != told.model);
            let said = Gpus { count, model: kind };
            differs.then(|| format!("{}, and the file says {}, which counts", of_flavor(&told), words(&said)))
        }
        (None, Some(said), None) if said.count.is_none() => Some(format!(
            "the file leaves the number of GPUs to the cloud, which says nothing of flavor {}; set `count` in `gpus`",
            node.flavor
        )),
        (None, None, Some(told)) if !has_gpu_driver(spec, node.image) => Some(format!(
            "{}, which jobs cannot ask for, because image {} has no driver; add the software `nvidia` to it, or set `gpus`",
            of_flavor(&told),
            node.image
        )),
        _ => None,
    }
}

/// `4 GPUs (a100)`
fn words(gpus: &Gpus) -> String {
    let count = if gpus.count == 1 { "1 GPU".to_string() } else { format!("{} GPUs", gpus.count) };
    gpus.model.as_ref().map_or_else(|| count.clone(), |model| format!("{count} ({model})"))
}

#[cfg(test)]
mod tests {
    use kiln_cloud::Flavor;

    use super::*;

    #[test]
    fn the_file_and_the_cloud_may_not_agree() {
        let flavor = |name: &str, gpus: Option<Gpus>| Flavor {
            name: name.into(),
            cpus: 8,
            memory_mib: 1024,
            features: vec![],
            topology: None,
            gpus,
        };
        let observed = Observed {
            flavors: vec![
                flavor("a", Gpus::new(4, Some("a100".into()))),
                flavor("b", Gpus::new(2, Some("a100".into()))),
                flavor("c", None),
            ],
            ..Observed::default()
        };
        let told = |group: &str| {
            let text = format!(
                "[cluster]\nname = \"c\"\n[cloud]\nkind = \"openstack\"\ncloud = \"x\"\nexternal_network = \"p\"\nsubnet = \"10.0.0.0/24\"\n[image.default]\nsource = \"debian-12\"\nsystem = \"bookworm\"\n\
                 [image.gpu]\nsource = \"default\"\nsoftware = [\"nvidia\"]\n[compute.g]\nnodes = \"g-[0-1]\"\n{group}\n"
            );
            let spec = kiln_spec::parse(&text, "f").unwrap_or_else(|e| panic!("{e}"));
            notes(&spec, &observed).join("\n")
        };
        let with_driver = "image = \"gpu\"\nflavor = \"a\"\n";
        assert_eq!(told(with_driver), "");
        assert_eq!(told(&format!("{with_driver}gpus = {{}}")), "");
        assert_eq!(told("image = \"default\"\nflavor = \"c\""), "");
        assert_eq!(
            told("image = \"default\"\nflavor = \"a\""),
            "compute.g: g-[0-1]: flavor a has 4 GPUs (a100), which jobs cannot ask for, because image default has no driver; \
             add the software `nvidia` to it, or set `gpus`"
        );
        assert_eq!(
            told(&format!("{with_driver}gpus = {{ count = 1 }}")),
            "compute.g: g-[0-1]: flavor a has 4 GPUs (a100), and the file says 1 GPU (a100), which counts"
        );
        assert_eq!(
            told(&format!("{with_driver}node_config = {{ Gres = \"gpu:h100:2\" }}")),
            "compute.g: g-[0-1]: flavor a has 4 GPUs (a100), and the file says Gres=gpu:h100:2, which counts"
        );
        // As many as the smallest of its flavors has.
        assert_eq!(
            told(&format!("{with_driver}elastic = {{ flavors = [\"b\"] }}\ngpus = {{ count = 4 }}")),
            "compute.g: g-[0-1]: flavor a has 2 GPUs (a100), and the file says 4 GPUs (a100), which counts"
        );
        assert_eq!(
            told("image = \"gpu\"\nflavor = \"c\"\ngpus = {}"),
            "compute.g: g-[0-1]: the file leaves the number of GPUs to the cloud, which says nothing of flavor c; \
             set `count` in `gpus`"
        );
    }
}
