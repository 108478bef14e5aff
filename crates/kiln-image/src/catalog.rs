//! Finding Kiln's images in a cloud, and reading what was written on them.

use kiln_cloud::{Cloud, Image};

use crate::manifest::Manifest;
use crate::recipe::Recipe;

/// Names of image properties.
pub mod property {
    pub const RECIPE: &str = "kiln_recipe";
    pub const MANIFEST: &str = "kiln_manifest";
    /// The name the image has in the file it was built from.
    pub const NAME: &str = "kiln_image";
}

/// Every image that Kiln built, newest first.
pub async fn images_of_kiln(cloud: &Cloud) -> kiln_cloud::Result<Vec<Image>> {
    let mut images = cloud.images().await?;
    images.retain(is_of_kiln);
    images.sort_by_key(|image| std::cmp::Reverse(image.created));
    Ok(images)
}

pub fn is_of_kiln(image: &Image) -> bool {
    image.properties.contains_key(property::RECIPE)
}

/// The newest image built from just this recipe.
pub fn built_image<'a>(images: &'a [Image], recipe: &Recipe) -> Option<&'a Image> {
    let digest = recipe.digest();
    images.iter().find(|image| image.properties.get(property::RECIPE) == Some(&digest))
}

impl Manifest {
    pub fn of(image: &Image) -> Option<Manifest> {
        serde_json::from_str(image.properties.get(property::MANIFEST)?).ok()
    }
}
