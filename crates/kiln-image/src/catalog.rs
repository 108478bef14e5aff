//! Finds Kiln's images in a cloud and reads their properties.

use kiln_cloud::{Cloud, Image};
use kiln_wire::Format as _;
use kiln_wire::labels::image as property;

use crate::manifest::{Ancestor, Manifest};
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

/// The image that stands for this recipe: the one that was built from it or promoted to it last.
pub fn built_image<'a>(images: &'a [Image], recipe: &Recipe) -> Option<&'a Image> {
    standing(images, &recipe.digest()).into_iter().next()
}

/// All images that stand for the recipe with this digest or have done so: the present one first, then the former ones.
pub fn standing<'a>(images: &'a [Image], digest: &str) -> Vec<&'a Image> {
    let mut all: Vec<(jiff::Timestamp, &Image)> =
        images.iter().filter_map(|image| Some((stands_since(image, digest)?, image))).collect();
    all.sort_by_key(|(since, _)| std::cmp::Reverse(*since));
    all.into_iter().map(|(_, image)| image).collect()
}

/// Images that a cluster has built under this name of its file, from whatever recipe: the newest first. Without those that are not
/// whole, and those that were only a test.
pub fn built_as<'a>(images: &'a [Image], name: &str, cluster_id: &str) -> Vec<&'a Image> {
    let has = |image: &Image, key: &str, value: &str| image.properties.get(key).is_some_and(|v| v == value);
    let of_name = |image: &&Image| {
        has(image, property::NAME, name)
            && has(image, property::BUILT_FOR, cluster_id)
            && origin(image).is_none()
            && !is_test(image)
    };
    let mut all: Vec<&Image> = images.iter().filter(of_name).collect();
    all.sort_by_key(|image| std::cmp::Reverse(image.created));
    all
}

fn stands_since(image: &Image, digest: &str) -> Option<jiff::Timestamp> {
    let property = |name: &str| image.properties.get(name).map(String::as_str);
    let promoted = property(property::STANDS_FOR).and_then(|text| text.split_once(' '));
    if let Some((of, since)) = promoted
        && of == digest
    {
        return since.parse().ok();
    }
    let built = property(property::RECIPE) == Some(digest) && property(property::TEST).is_none();
    built.then_some(image.created)
}

/// The property that makes an image stand for a recipe from now on.
pub fn promotion(digest: &str) -> (String, String) {
    (property::STANDS_FOR.to_string(), format!("{digest} {}", jiff::Timestamp::now()))
}

/// The images that one with this manifest was built on, the nearest first. Manifests of old name only the nearest, so
/// the others are found as far as they are there.
pub fn descent(images: &[Image], manifest: &Manifest) -> Vec<Ancestor> {
    if !manifest.descent.is_empty() {
        return manifest.descent.clone();
    }
    let source = images.iter().find(|image| image.name == manifest.source);
    // An image is younger than its source, so this ends. Names could be given twice.
    let below: Vec<Image> =
        images.iter().filter(|i| source.is_some_and(|s| i.created < s.created)).cloned().collect();
    match source {
        Some(image) => line(&below, image),
        None => {
            vec![Ancestor { image: manifest.source.clone(), recipe: None, built: None, software: Vec::new() }]
        }
    }
}

/// An image and those that it was built on.
pub fn line(images: &[Image], image: &Image) -> Vec<Ancestor> {
    let manifest = Manifest::of(image);
    let first = Ancestor {
        image: image.name.clone(),
        recipe: manifest.as_ref().map(|m| m.recipe.clone()),
        built: manifest.as_ref().map(|m| m.built),
        software: manifest.as_ref().map(|m| m.software.clone()).unwrap_or_default(),
    };
    let below = manifest.map(|manifest| descent(images, &manifest)).unwrap_or_default();
    [first].into_iter().chain(below).collect()
}

pub fn is_test(image: &Image) -> bool {
    image.properties.contains_key(property::TEST) && !image.properties.contains_key(property::STANDS_FOR)
}

impl Manifest {
    pub fn of(image: &Image) -> Option<Manifest> {
        let manifest = Manifest::from_json(image.properties.get(property::MANIFEST)?.as_bytes()).ok()?;
        // One that is not whole yet may have that of the image it is made from.
        (image.properties.get(property::RECIPE) == Some(&manifest.recipe)).then_some(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, second: i64, properties: &[(&str, &str)]) -> Image {
        Image {
            id: name.into(),
            name: name.into(),
            labels: kiln_cloud::Labels::new(),
            properties: properties.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            size_bytes: 0,
            created: jiff::Timestamp::from_second(second).unwrap(),
        }
    }

    fn names(images: &[Image], digest: &str) -> String {
        let all: Vec<&str> = standing(images, digest).into_iter().map(|image| image.name.as_str()).collect();
        all.join(" ")
    }

    #[test]
    fn the_image_that_was_built_or_promoted_last_stands_for_a_recipe() {
        let mut images = vec![
            image("new", 20, &[(property::RECIPE, "r")]),
            image("old", 10, &[(property::RECIPE, "r")]),
            image("other", 30, &[(property::RECIPE, "q")]),
            image("test", 40, &[(property::RECIPE, "r"), (property::TEST, "yes")]),
        ];
        assert_eq!(names(&images, "r"), "new old");
        assert!(is_test(&images[3]));
        let (key, value) = promotion("r");
        images[3].properties.insert(key.clone(), value);
        assert_eq!(names(&images, "r"), "test new old");
        assert!(!is_test(&images[3]));
        // Back again, and one of another recipe.
        let at = |second: i64| format!("r {}", jiff::Timestamp::from_second(second).unwrap());
        images[3].properties.insert(key.clone(), at(50));
        images[1].properties.insert(key.clone(), at(60));
        images[2].properties.insert(key.clone(), at(55));
        assert_eq!(names(&images, "r"), "old other test new");
        assert_eq!(names(&images, "q"), "other");
        // One that is not whole yet says of everything that it is unfinished.
        images[0].properties.insert(key, "unfinished".into());
        assert_eq!(names(&images[..1], "r"), "new");
    }
    #[test]
    fn images_of_older_recipes_are_found_by_name() {
        let of = |name: &str, second: i64, more: &[(&str, &str)]| {
            let always = [(property::NAME, "default"), (property::BUILT_FOR, "id")];
            image(name, second, &[&always, more].concat())
        };
        let images = [
            of("old", 10, &[(property::RECIPE, "q")]),
            of("new", 20, &[(property::RECIPE, "r")]),
            of("test", 30, &[(property::RECIPE, "r"), (property::TEST, "yes")]),
            of("half", 40, &[(property::RECIPE, "unfinished"), (property::MADE_BY, "build")]),
            of("theirs", 50, &[(property::RECIPE, "r"), (property::BUILT_FOR, "another")]),
            of("tools", 60, &[(property::RECIPE, "r"), (property::NAME, "tools")]),
        ];
        let found: Vec<&str> = built_as(&images, "default", "id").iter().map(|i| i.name.as_str()).collect();
        assert_eq!(found, ["new", "old"]);
    }
}
