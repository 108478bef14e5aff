//! Block volumes.

use serde_json::json;

use super::answer::{Answer, Outcome, busy, invalid, lacks};
use super::route::Request;
use super::world::{DOMAINS, Resource, World, check_tags};

pub fn create(world: &mut World, request: &Request<'_>) -> Outcome {
    let domain = request.text("availabilityDomain")?.to_string();
    if !DOMAINS.contains(&domain.as_str()) {
        return Err(invalid(format!("availabilityDomain {domain}")));
    }
    let size = request.body["sizeInGBs"].as_u64().ok_or_else(|| lacks("sizeInGBs"))?;
    if !(50..=32_768).contains(&size) {
        return Err(invalid("sizeInGBs must be between 50 and 32768"));
    }
    let mut value = world.common("volume", &request.body)?;
    value["availabilityDomain"] = json!(domain);
    value["sizeInGBs"] = json!(size);
    value["sizeInMBs"] = json!(size * 1024);
    value["lifecycleState"] = json!("PROVISIONING");
    let id = world.add("volumes", value);
    world.remember(request, "volumes", &id);
    world.later(1, "volumes", &id, "PROVISIONING", "AVAILABLE");
    world.need("volumes", &id).map(Resource::show)
}

pub fn update(world: &mut World, request: &Request<'_>, id: &str) -> Outcome {
    let there = world.need("volumes", id)?;
    check_tags(&request.body)?;
    if let Some(size) = request.body["sizeInGBs"].as_u64() {
        if there.value["sizeInGBs"].as_u64() > Some(size) {
            return Err(invalid("A volume cannot become smaller"));
        }
        if there.state() != "AVAILABLE" {
            return Err(busy("The volume is not AVAILABLE"));
        }
        world.set("volumes", id, "sizeInGBs", json!(size));
        world.set("volumes", id, "sizeInMBs", json!(size * 1024));
    }
    if let Some(tags) = request.body.get("freeformTags") {
        world.set("volumes", id, "freeformTags", tags.clone());
    }
    world.need("volumes", id).map(Resource::show)
}

pub fn delete_boot_volume(world: &mut World, id: &str) -> Outcome {
    world.need("bootVolumes", id)?;
    let of = |a: &Resource| a.is_there() && a.value["bootVolumeId"] == id;
    if world.list("bootVolumeAttachments").iter().any(of) {
        return Err(busy("The boot volume is attached"));
    }
    world.set("bootVolumes", id, "lifecycleState", json!("TERMINATED"));
    Ok(Answer::empty())
}

pub fn delete(world: &mut World, id: &str) -> Outcome {
    world.need("volumes", id)?;
    let held = world.list("volumeAttachments").iter().any(|a| a.is_there() && a.value["volumeId"] == id);
    if held {
        return Err(busy("The volume is attached"));
    }
    world.set("volumes", id, "lifecycleState", json!("TERMINATING"));
    world.later(1, "volumes", id, "TERMINATING", "TERMINATED");
    Ok(Answer::empty())
}
