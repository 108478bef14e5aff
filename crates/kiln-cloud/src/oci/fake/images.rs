//! Images, made from instances or imported from objects.

use serde_json::{Value, json};

use super::answer::{Answer, Outcome, busy, invalid, lacks, not_found};
use super::compute::shapes;
use super::route::Request;
use super::world::{Resource, World};

/// What an imported image goes with by itself.
const FITS: &str = "VM.Standard2.1";

pub fn create(world: &mut World, request: &Request<'_>) -> Outcome {
    if request.body.get("imageSourceDetails").is_some() {
        return import(world, request);
    }
    let instance = request.text("instanceId")?.to_string();
    let state = world.need("instances", &instance)?.state().to_string();
    if !["RUNNING", "STOPPED"].contains(&state.as_str()) {
        return Err(busy(format!("The instance is {state}")));
    }
    let id = begin(world, request, "PROVISIONING")?;
    world.set("instances", &instance, "lifecycleState", json!("CREATING_IMAGE"));
    let (image, before) = (id.clone(), state);
    world.after(2, move |world| {
        world.set("images", &image, "lifecycleState", json!("AVAILABLE"));
        world.set("instances", &instance, "lifecycleState", json!(before));
    });
    world.need("images", &id).map(Resource::show)
}

fn begin(world: &mut World, request: &Request<'_>, state: &str) -> Result<String, Answer> {
    let mut value = world.common("image", &request.body)?;
    for (field, new) in [
        ("lifecycleState", json!(state)),
        ("createImageAllowed", json!(true)),
        ("operatingSystem", json!("Debian")),
        ("operatingSystemVersion", json!("12")),
        ("sizeInMBs", json!(47_694)),
        ("launchMode", json!("PARAVIRTUALIZED")),
    ] {
        value[field] = new;
    }
    let id = world.add("images", value);
    world.remember(request, "images", &id);
    Ok(id)
}

/// The object has to stay until it is over, and has to be a disk.
fn import(world: &mut World, request: &Request<'_>) -> Outcome {
    let source = &request.body["imageSourceDetails"];
    if (&source["sourceType"], &source["sourceImageType"]) != (&json!("objectStorageTuple"), &json!("QCOW2"))
    {
        return Err(invalid("imageSourceDetails"));
    }
    let word = |name: &str| source[name].as_str().map(String::from).ok_or_else(|| lacks(name));
    let (bucket, object) = (word("bucketName")?, word("objectName")?);
    let is_there = |world: &World| world.buckets.get(&bucket).is_some_and(|all| all.contains_key(&object));
    if !is_there(world) {
        return Err(not_found());
    }
    let id = begin(world, request, "IMPORTING")?;
    world.fits.insert(id.clone(), [FITS.to_string()].into());
    let image = id.clone();
    world.after(2, move |world| {
        let content = world.buckets.get(&bucket).and_then(|all| all.get(&object));
        let is_disk = content.is_some_and(|object| object.bytes.starts_with(b"QFI\xfb"));
        let state = if is_disk { "AVAILABLE" } else { "DELETED" };
        world.set("images", &image, "lifecycleState", json!(state));
    });
    world.need("images", &id).map(Resource::show)
}

/// From now on it goes with a shape. The documents do not say which are refused; here it is bare metal.
pub fn fit(world: &mut World, id: &str, shape: &str) -> Outcome {
    world.need("images", id)?;
    if shape.starts_with("BM.") || !shapes().iter().any(|known| known["shape"] == shape) {
        return Err(invalid(format!("Shape {shape} does not go with the image's launch mode")));
    }
    world.fits.entry(id.to_string()).or_default().insert(shape.to_string());
    Ok(Answer::json(json!({ "imageId": id, "shape": shape })))
}

pub fn check(world: &World, id: &str, shape: &str) -> Result<(), Answer> {
    let image = world.need("images", id)?;
    if image.state() != "AVAILABLE" {
        return Err(invalid("the image is not available"));
    }
    match world.fits.get(id) {
        Some(fits) if !fits.contains(shape) => {
            Err(invalid(format!("Shape {shape} is not valid for image {id}.")))
        }
        _ => Ok(()),
    }
}

pub fn delete(world: &mut World, id: &str) -> Outcome {
    world.need("images", id)?;
    world.set("images", id, "lifecycleState", Value::from("DELETED"));
    Ok(Answer::empty())
}
