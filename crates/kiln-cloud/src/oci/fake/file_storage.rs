//! File Storage: file systems, mount targets and exports.

use serde_json::{Value, json};

use super::COMPARTMENT;
use super::answer::{Answer, Outcome, busy, invalid, lacks, not_found, refuse};
use super::network::free_address;
use super::route::Request;
use super::world::{DOMAINS, Resource, World, check_tags, now};

struct Kind {
    name: &'static str,
    /// What a listing must say.
    needed: &'static [&'static str],
    /// What a listing may filter by.
    filters: &'static [&'static str],
    /// What only one alone shows.
    alone: &'static [&'static str],
}

const IN_DOMAINS: &[&str] = &["compartmentId", "availabilityDomain"];
const NAMED: &[&str] = &["availabilityDomain", "displayName", "lifecycleState"];

const KINDS: [Kind; 3] = [
    Kind { name: "fileSystems", needed: IN_DOMAINS, filters: NAMED, alone: &[] },
    Kind { name: "mountTargets", needed: IN_DOMAINS, filters: NAMED, alone: &["lifecycleDetails"] },
    Kind {
        name: "exports",
        needed: &[],
        filters: &["exportSetId", "fileSystemId", "lifecycleState"],
        alone: &["exportOptions"],
    },
];

pub fn route(world: &mut World, request: &Request<'_>, parts: &[&str]) -> Outcome {
    let found = KINDS.iter().find(|kind| Some(&kind.name) == parts.first()).ok_or_else(not_found)?;
    let kind = found.name;
    if world.no_file_storage {
        return Err(not_found());
    }
    let method = request.method.as_str();
    if let Some(id) = parts.get(1)
        && let Some(etag) = &request.if_match
        && world.get(kind, id).is_some_and(|resource| resource.etag.to_string() != *etag)
    {
        return Err(refuse(412, "NoEtagMatch", "The if-match header does not match the etag."));
    }
    match (method, parts) {
        ("GET", [_]) => list(world, request, found),
        ("GET", [_, id]) => world.get(kind, id).map(Resource::show).ok_or_else(not_found),
        ("POST", [_]) => match world.repeated(request) {
            Some(outcome) => outcome,
            None => create(world, request, kind),
        },
        ("PUT", [_, id]) => update(world, request, kind, id),
        ("DELETE", [_, id]) => delete(world, kind, id),
        _ => Err(not_found()),
    }
}

fn list(world: &World, request: &Request<'_>, kind: &Kind) -> Outcome {
    if let Some(missing) = kind.needed.iter().find(|name| !request.query.contains_key(**name)) {
        return Err(lacks(missing));
    }
    let among = ["compartmentId", "exportSetId", "fileSystemId"];
    if kind.name == "exports" && !among.iter().any(|name| request.query.contains_key(*name)) {
        return Err(lacks("compartmentId, exportSetId or fileSystemId"));
    }
    if request.query.get("compartmentId").is_some_and(|compartment| compartment != COMPARTMENT) {
        return Err(not_found());
    }
    let wanted = |name: &str| request.query.get(name).map(String::as_str);
    let matches = |value: &Value| {
        kind.filters
            .iter()
            .all(|name| wanted(name).is_none_or(|wanted| value[*name].as_str() == Some(wanted)))
    };
    let all = world.list(kind.name).iter().map(|r| r.value.clone()).filter(matches);
    let summary = |mut value: Value| {
        if let Some(object) = value.as_object_mut() {
            object.retain(|field, _| !kind.alone.contains(&field.as_str()));
        }
        value
    };
    Ok(world.cut(&all.map(summary).collect::<Vec<_>>(), request))
}

fn create(world: &mut World, request: &Request<'_>, kind: &'static str) -> Outcome {
    let mut value = match kind {
        "exports" => export(world, request)?,
        _ => placed(world, request, kind)?,
    };
    value["lifecycleState"] = json!("CREATING");
    let id = world.add(kind, value);
    world.remember(request, kind, &id);
    world.later(1, kind, &id, "CREATING", "ACTIVE");
    world.need(kind, &id).map(Resource::show)
}

/// A file system or a mount target.
fn placed(world: &mut World, request: &Request<'_>, kind: &str) -> Result<Value, Answer> {
    let domain = request.text("availabilityDomain")?.to_string();
    if !DOMAINS.contains(&domain.as_str()) {
        return Err(invalid(format!("availabilityDomain {domain}")));
    }
    let word = if kind == "fileSystems" { "filesystem" } else { "mounttarget" };
    let mut value = world.common(word, &request.body)?;
    value["availabilityDomain"] = json!(domain);
    if kind == "fileSystems" {
        value["meteredBytes"] = json!(8192);
        return Ok(value);
    }
    let subnet = request.text("subnetId")?.to_string();
    let groups = request.body["nsgIds"].clone();
    for group in groups.as_array().into_iter().flatten() {
        world.need("networkSecurityGroups", group.as_str().unwrap_or_default())?;
    }
    let ip = join_subnet(world, &value, &subnet, &groups)?;
    value["exportSetId"] = json!(world.ocid("exportset"));
    value["privateIpIds"] = json!([ip]);
    value["subnetId"] = json!(subnet);
    value["nsgIds"] = groups;
    value["lifecycleDetails"] = json!("");
    Ok(value)
}

/// The VNIC of a mount target, which no instance has. Returns its private IP.
fn join_subnet(world: &mut World, target: &Value, subnet: &str, groups: &Value) -> Result<String, Answer> {
    let address = free_address(world, subnet)?;
    let vnic = world.ocid("vnic");
    let vnic = json!({
        "id": vnic, "availabilityDomain": target["availabilityDomain"], "compartmentId": COMPARTMENT,
        "displayName": target["displayName"], "lifecycleState": "AVAILABLE", "isPrimary": true, "nsgIds": groups,
        "privateIp": address, "subnetId": subnet, "timeCreated": now(), "freeformTags": {}, "definedTags": {},
    });
    let vnic = world.add("vnics", vnic);
    let ip = json!({
        "id": world.ocid("privateip"), "compartmentId": COMPARTMENT, "displayName": target["displayName"],
        "availabilityDomain": target["availabilityDomain"], "ipAddress": address, "isPrimary": true, "subnetId": subnet,
        "vnicId": vnic, "timeCreated": now(), "freeformTags": {}, "definedTags": {},
    });
    Ok(world.add("privateIps", ip))
}

fn export(world: &mut World, request: &Request<'_>) -> Result<Value, Answer> {
    let (set, id) = (request.text("exportSetId")?, request.text("fileSystemId")?);
    let path = request.text("path")?;
    let files = world.need("fileSystems", id)?.value.clone();
    let is_set = |r: &&Resource| r.is_there() && r.value["exportSetId"] == set;
    let target = world.list("mountTargets").iter().find(is_set).ok_or_else(not_found)?.value.clone();
    if files["availabilityDomain"] != target["availabilityDomain"] {
        return Err(invalid("The file system is in another availability domain than the mount target"));
    }
    if [&files, &target].iter().any(|one| one["lifecycleState"] != "ACTIVE") {
        return Err(busy("The file system or the mount target is not ACTIVE"));
    }
    if !path.starts_with('/') {
        return Err(invalid(format!("path {path}")));
    }
    let is_taken = |r: &Resource| r.is_there() && r.value["exportSetId"] == set && r.value["path"] == path;
    if world.list("exports").iter().any(is_taken) {
        return Err(refuse(409, "Conflict", format!("The path {path} is exported already")));
    }
    Ok(json!({
        "id": world.ocid("export"), "exportSetId": set, "fileSystemId": id, "path": path, "timeCreated": now(),
        "exportOptions": check_options(&request.body["exportOptions"])?,
    }))
}

/// Each of them says for whom it is.
fn check_options(options: &Value) -> Result<Value, Answer> {
    let all = options.as_array().ok_or_else(|| lacks("exportOptions"))?;
    for one in all {
        let source = one["source"].as_str().ok_or_else(|| lacks("exportOptions.source"))?;
        let is_known = source.parse::<std::net::IpAddr>().is_ok() || source.parse::<ipnet::IpNet>().is_ok();
        if !is_known {
            return Err(invalid(format!("exportOptions.source {source}")));
        }
    }
    Ok(options.clone())
}

fn update(world: &mut World, request: &Request<'_>, kind: &str, id: &str) -> Outcome {
    world.need(kind, id)?;
    check_tags(&request.body)?;
    if let Some(options) = request.body.get("exportOptions") {
        world.set(kind, id, "exportOptions", check_options(options)?);
    }
    for field in ["freeformTags", "displayName"] {
        if let Some(value) = request.body.get(field).filter(|_| kind != "exports") {
            world.set(kind, id, field, value.clone());
        }
    }
    world.need(kind, id).map(Resource::show)
}

/// What is exported cannot go.
fn delete(world: &mut World, kind: &'static str, id: &str) -> Outcome {
    let there = world.need(kind, id)?.value.clone();
    let held =
        |field: &str, by: &Value| world.list("exports").iter().any(|r| r.is_there() && r.value[field] == *by);
    match kind {
        "fileSystems" if held("fileSystemId", &there["id"]) => {
            return Err(busy("The file system is exported"));
        }
        "mountTargets" if held("exportSetId", &there["exportSetId"]) => {
            return Err(busy("The mount target has exports"));
        }
        "mountTargets" => leave_subnet(world, &there),
        _ => {}
    }
    world.set(kind, id, "lifecycleState", json!("DELETING"));
    world.later(1, kind, id, "DELETING", "DELETED");
    Ok(Answer::empty())
}

fn leave_subnet(world: &mut World, target: &Value) {
    let ip = target["privateIpIds"][0].as_str().unwrap_or_default();
    let vnic =
        world.get("privateIps", ip).map(|r| r.value["vnicId"].as_str().unwrap_or_default().to_string());
    world.drop("privateIps", ip);
    world.drop("vnics", &vnic.unwrap_or_default());
}

pub fn access_of(world: &World, path: &str) -> Vec<String> {
    let there = world.list("exports").iter().filter(|r| r.is_there() && r.value["path"] == path);
    let options = there.flat_map(|r| r.value["exportOptions"].as_array().cloned().unwrap_or_default());
    let text = |value: &Value| value.as_str().unwrap_or("-").to_string();
    let line = |one: Value| {
        format!("{} {} {}", text(&one["source"]), text(&one["access"]), text(&one["identitySquash"]))
    };
    options.map(line).collect()
}
