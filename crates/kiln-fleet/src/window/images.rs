//! Images, as the cloud lists them and their manifests describe them.

use kiln_image::Manifest;
use kiln_web::view::{Image, ImageDetail, Package};
use kiln_wire::Format as _;
use kiln_wire::labels::image as property;

/// `None`: not one that Kiln has built.
pub fn detail(image: kiln_cloud::Image) -> Option<ImageDetail> {
    let manifest = Manifest::from_json(image.properties.get(property::MANIFEST)?.as_bytes()).ok();
    let (descent, software, built, packages) = match manifest {
        // Of another release of Kiln.
        None => (Vec::new(), Vec::new(), image.created, Vec::new()),
        Some(manifest) => {
            let descent: Vec<String> = if manifest.descent.is_empty() {
                vec![manifest.source]
            } else {
                manifest.descent.into_iter().map(|ancestor| ancestor.image).collect()
            };
            (descent, manifest.software, manifest.built, manifest.packages)
        }
    };
    let mut packages: Vec<Package> = packages
        .into_iter()
        .map(|package| Package { name: package.name, version: package.version })
        .collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    let image = Image {
        id: image.id,
        name: image.name,
        built: Some(built),
        size_mib: image.size_bytes >> 20,
        descent,
        software,
        packages: packages.len(),
        is_test: image.properties.contains_key(property::TEST),
    };
    Some(ImageDetail { image, packages })
}
