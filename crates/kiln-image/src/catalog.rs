//! Finds Kiln's images in a cloud and reads their properties.

use kiln_cloud::{Cloud, Image};
use kiln_wire::Format as _;
use kiln_wire::labels::image as property;

use crate::manifest::Manifest;
use crate::recipe::Recipe;

/// Every image that Kiln built, uploaded or left half made, newest first.
pub async fn images_of_kiln(cloud: &Cloud) -> kiln_cloud::Result<Vec<Image>> {
    let mut images = cloud.images().await?;
    images.retain(is_of_kiln);
    images.sort_by_key(|image| std::cmp::Reverse(image.created));
    Ok(images)
}

pub fn is_of_kiln(image: &Image) -> bool {
    [property::RECIPE, property::MADE_BY].iter().any(|name| image.properties.contains_key(*name))
}

/// What an image without a manifest of its own is.
pub fn origin(image: &Image) -> Option<&'static str> {
    let recipe = image.properties.get(property::RECIPE);
    match image.properties.get(property::MADE_BY)?.as_str() {
        "upload" => Some("uploaded"),
        _ if recipe.is_none_or(|recipe| recipe == "unfinished") => Some("unfinished"),
        _ => None,
    }
}

/// The newest image built from just this recipe.
pub fn built_image<'a>(images: &'a [Image], recipe: &Recipe) -> Option<&'a Image> {
    let digest = recipe.digest();
    images.iter().find(|image| image.properties.get(property::RECIPE) == Some(&digest))
}

impl Manifest {
    pub fn of(image: &Image) -> Option<Manifest> {
        let manifest = Manifest::from_json(image.properties.get(property::MANIFEST)?.as_bytes()).ok()?;
        // One that is not whole yet may have that of the image it is made from.
        (image.properties.get(property::RECIPE) == Some(&manifest.recipe)).then_some(manifest)
    }
}
