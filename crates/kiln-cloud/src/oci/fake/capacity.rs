//! Capacity reports.

use serde_json::{Value, json};

use super::TENANCY;
use super::answer::{Answer, Outcome, invalid, lacks, not_found};
use super::compute::shapes;
use super::route::Request;
use super::world::{DOMAINS, World, now};

/// For those who may, which is a right in the tenancy.
pub fn report(world: &World, request: &Request<'_>) -> Outcome {
    let domain = request.text("availabilityDomain")?;
    if !world.reports || request.text("compartmentId")? != TENANCY {
        return Err(not_found());
    }
    if !DOMAINS.contains(&domain) {
        return Err(invalid(format!("availabilityDomain {domain}")));
    }
    let wanted = request.body["shapeAvailabilities"].as_array();
    let wanted = wanted.filter(|all| !all.is_empty()).ok_or_else(|| lacks("shapeAvailabilities"))?;
    let mut found = Vec::new();
    for one in wanted {
        let shape = one["instanceShape"].as_str().ok_or_else(|| lacks("instanceShape"))?;
        let known = shapes().into_iter().find(|known| known["shape"] == shape);
        if known.as_ref().is_some_and(|known| known["isFlexible"] == true)
            && one.get("instanceShapeConfig").is_none()
        {
            return Err(lacks("instanceShapeConfig"));
        }
        let place = (domain.to_string(), shape.to_string());
        let is_full = world.full.contains(&place) || world.quietly_full.contains(&place);
        let (status, count): (&str, Value) = match known {
            None => ("HARDWARE_NOT_SUPPORTED", Value::Null),
            Some(_) if is_full => ("OUT_OF_HOST_CAPACITY", Value::Null),
            Some(_) => ("AVAILABLE", json!(7)),
        };
        let mut answer = one.clone();
        answer["availabilityStatus"] = json!(status);
        answer["availableCount"] = count;
        found.push(answer);
    }
    Ok(Answer::json(json!({
        "compartmentId": TENANCY, "availabilityDomain": domain, "shapeAvailabilities": found, "timeCreated": now(),
    })))
}
