//! Images, made from instances.

use serde_json::json;

use super::answer::{Answer, Outcome, busy};
use super::route::Request;
use super::world::{Resource, World};

pub fn create(world: &mut World, request: &Request<'_>) -> Outcome {
    let instance = request.text("instanceId")?.to_string();
    let state = world.need("instances", &instance)?.state().to_string();
    if !["RUNNING", "STOPPED"].contains(&state.as_str()) {
        return Err(busy(format!("The instance is {state}")));
    }
    let mut value = world.common("image", &request.body)?;
    for (field, new) in [
        ("lifecycleState", json!("PROVISIONING")),
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
    world.set("instances", &instance, "lifecycleState", json!("CREATING_IMAGE"));
    let (image, before) = (id.clone(), state);
    world.after(2, move |world| {
        world.set("images", &image, "lifecycleState", json!("AVAILABLE"));
        world.set("instances", &instance, "lifecycleState", json!(before));
    });
    world.need("images", &id).map(Resource::show)
}

pub fn delete(world: &mut World, id: &str) -> Outcome {
    world.need("images", id)?;
    world.set("images", id, "lifecycleState", json!("DELETED"));
    Ok(Answer::empty())
}
