//! A compute node is configured for the family of systems that its image in the file is of, before it has that image and after: Slurm
//! may move it much later, and at its first boot it takes what control has for it. Configured for another family, nobody
//! could log in to it: PAM's files are not alike. So an existing node does not get an image of another family.

use kiln_distro::Family;
use kiln_image::Manifest;
use kiln_spec::{Role, Spec};

use super::node::group_label;
use crate::error::{Error, Result};
use crate::observe::Observed;

pub fn check(spec: &Spec, observed: &Observed) -> Result<()> {
    let instances = observed.nodes();
    for node in spec.nodes().filter(|node| node.role == Role::Compute) {
        let wanted = Family::of_image(spec, node.image).name;
        let id = instances.get(node.name).and_then(|instance| instance.image.as_ref());
        let image = id.and_then(|id| observed.images.iter().find(|image| image.id == *id));
        // What is not known is not judged: an image that Kiln has not built.
        if let Some(present) = image.and_then(Manifest::of).filter(|manifest| manifest.family != wanted) {
            return Err(Error::OtherFamily {
                group: group_label(&node),
                present: present.family,
                image: node.image.to_string(),
                wanted,
            });
        }
    }
    Ok(())
}
