//! Service limits: what each availability domain may have, and has.

use serde_json::{Value, json};

use super::answer::{Answer, Outcome, invalid, lacks, not_found, refuse};
use super::compute::shapes;
use super::route::Request;
use super::world::{DOMAINS, World};
use super::{COMPARTMENT, TENANCY};

const SERVICE: &str = "compute";

/// What a tenancy has that nobody has asked for more.
pub fn usual() -> Vec<(String, u64)> {
    [
        ("standard-e5-core-count", 10_000),
        ("standard-e5-memory-count", 160_000),
        ("standard2-core-count", 100),
        ("hpc2-36-count", 10),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into()
}

pub fn route(world: &World, request: &Request<'_>, parts: &[&str]) -> Outcome {
    match (request.method.as_str(), parts) {
        ("GET", ["limitValues"]) => values(world, request),
        ("GET", ["services", service, "limits", name, "resourceAvailability"]) if *service == SERVICE => {
            availability(world, request, name)
        }
        _ => Err(not_found()),
    }
}

fn values(world: &World, request: &Request<'_>) -> Outcome {
    let query = |name: &str| request.query.get(name).ok_or_else(|| lacks(name));
    if query("serviceName")? != SERVICE {
        return Err(invalid("serviceName"));
    }
    // Limits are the tenancy's; a compartment has quotas.
    if query("compartmentId")? != TENANCY {
        return Err(not_found());
    }
    let wanted = request.query.get("name");
    let named = world.limits.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name));
    let all: Vec<Value> = named
        .flat_map(|(name, value)| {
            DOMAINS.map(|domain| {
                json!({ "name": name, "scopeType": "AD", "availabilityDomain": domain, "value": value })
            })
        })
        .collect();
    Ok(world.cut(&all, request))
}

fn availability(world: &World, request: &Request<'_>, name: &str) -> Outcome {
    let most = *world.limits.get(name).ok_or_else(not_found)?;
    let compartment = request.query.get("compartmentId").ok_or_else(|| lacks("compartmentId"))?;
    if ![COMPARTMENT, TENANCY].contains(&compartment.as_str()) {
        return Err(not_found());
    }
    let domain = request.query.get("availabilityDomain").ok_or_else(|| lacks("availabilityDomain"))?;
    let used = used(world, name, domain);
    Ok(Answer::json(json!({ "used": used, "available": most.saturating_sub(used) })))
}

/// By instances that are there.
fn used(world: &World, name: &str, domain: &str) -> u64 {
    let counted: Vec<Value> = shapes().into_iter().filter(|shape| counts(shape, name)).collect();
    let there = world.list("instances").iter().filter(|r| r.is_there()).map(|r| &r.value);
    let here = there.filter(|value| value["availabilityDomain"] == domain);
    let here = here.filter(|value| counted.iter().any(|shape| shape["shape"] == value["shape"]));
    here.map(|value| taken(name, &value["shapeConfig"])).sum()
}

fn counts(shape: &Value, name: &str) -> bool {
    shape["quotaNames"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
}

/// `size`: as an instance shows it.
fn taken(name: &str, size: &Value) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes of machines")]
    let number = |field: &str| size[field].as_f64().unwrap_or(1.0).ceil() as u64;
    match name {
        _ if name.ends_with("-core-count") => number("ocpus"),
        _ if name.ends_with("-memory-count") => number("memoryInGBs"),
        _ => 1,
    }
}

/// That one more instance is within every limit of its shape.
pub fn check(world: &World, shape: &Value, domain: &str, size: &Value) -> Result<(), Answer> {
    let exceeded = |name: &&String| {
        let most = world.limits.get(*name).copied().unwrap_or(u64::MAX);
        counts(shape, name) && used(world, name, domain) + taken(name, size) > most
    };
    match world.limits.keys().find(exceeded) {
        Some(name) => {
            Err(refuse(400, "LimitExceeded", format!("The following service limits were exceeded: {name}.")))
        }
        None => Ok(()),
    }
}
