//! Compute clusters.

use serde_json::{Value, json};

use super::answer::{Answer, Content, Outcome, invalid, refuse};
use super::route::Request;
use super::world::{DOMAINS, Resource, World};

const KIND: &str = "computeClusters";

pub fn create(world: &mut World, request: &Request<'_>) -> Outcome {
    let domain = request.text("availabilityDomain")?.to_string();
    if !DOMAINS.contains(&domain.as_str()) {
        return Err(invalid(format!("availabilityDomain {domain}")));
    }
    let mut value = world.common("computecluster", &request.body)?;
    value["availabilityDomain"] = json!(domain);
    value["lifecycleState"] = json!("ACTIVE");
    let id = world.add(KIND, value);
    world.remember(request, KIND, &id);
    world.need(KIND, &id).map(Resource::show)
}

/// Not a bare list, as most others.
pub fn list(world: &World, request: &Request<'_>, filters: &[&str]) -> Outcome {
    world.page(KIND, request, filters).map(in_items)
}

pub fn in_items(mut page: Answer) -> Answer {
    page.body = page.body.map(|body| match body {
        Content::Json(items) => Content::Json(json!({ "items": items })),
        bytes @ Content::Bytes(_) => bytes,
    });
    page
}

/// The one that a launch names, which must be in the same place and be for its shape.
pub fn joined(world: &World, body: &Value, shape: &Value, domain: &str) -> Result<Option<String>, Answer> {
    let Some(id) = body["computeClusterId"].as_str() else { return Ok(None) };
    let cluster = world.need(KIND, id)?;
    if cluster.value["availabilityDomain"] != domain {
        return Err(invalid("The compute cluster is in another availability domain"));
    }
    if shape["rdmaPorts"].as_u64().is_none_or(|ports| ports == 0) {
        return Err(invalid("The shape cannot be in a compute cluster"));
    }
    Ok(Some(id.to_string()))
}

pub fn delete(world: &mut World, id: &str) -> Outcome {
    world.need(KIND, id)?;
    let is_in =
        |r: &Resource| r.is_there() && world.clustered.get(r.id()).is_some_and(|cluster| cluster == id);
    if world.list("instances").iter().any(is_in) {
        return Err(refuse(409, "IncorrectState", "The compute cluster has instances"));
    }
    world.set(KIND, id, "lifecycleState", json!("DELETED"));
    Ok(Answer::empty())
}
