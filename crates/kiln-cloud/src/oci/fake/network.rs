//! VCNs and what is in them.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use super::answer::{Answer, Outcome, busy, invalid, lacks, not_found, refuse};
use super::route::{Request, kind_of};
use super::world::{Resource, World};

/// Collection, the word in its ids, and what a new one must say.
const MADE: &[(&str, &str, &[&str])] = &[
    ("vcns", "vcn", &["cidrBlocks"]),
    ("subnets", "subnet", &["vcnId", "cidrBlock"]),
    ("internetGateways", "internetgateway", &["vcnId", "isEnabled"]),
    ("natGateways", "natgateway", &["vcnId"]),
    ("routeTables", "routetable", &["vcnId", "routeRules"]),
    ("securityLists", "securitylist", &["vcnId", "ingressSecurityRules", "egressSecurityRules"]),
    ("networkSecurityGroups", "networksecuritygroup", &["vcnId"]),
    ("publicIps", "publicip", &["lifetime"]),
];

pub fn create(world: &mut World, request: &Request<'_>, collection: &str) -> Outcome {
    let found = MADE.iter().find(|(kind, ..)| *kind == collection);
    let (kind, word, needed) = *found.ok_or_else(not_found)?;
    if let Some(missing) = needed.iter().find(|field| request.body.get(**field).is_none()) {
        return Err(lacks(missing));
    }
    let mut value = world.common(word, &request.body)?;
    if let Some(vcn) = request.body["vcnId"].as_str() {
        world.need("vcns", vcn)?;
        value["vcnId"] = json!(vcn);
    }
    for field in needed.iter().chain(&["routeTableId", "securityListIds"]) {
        if let Some(given) = request.body.get(*field) {
            value[*field] = given.clone();
        }
    }
    let more: Vec<(&str, Value)> = match kind {
        "vcns" => {
            let first = request.body["cidrBlocks"][0].clone();
            vec![("cidrBlock", first)]
        }
        "subnets" => {
            check_subnet(world, &request.body)?;
            let cidr = net(&request.body["cidrBlock"])?;
            let router = Ipv4Addr::from(u32::from(cidr.network()) + 1);
            vec![("virtualRouterIp", json!(router)), ("virtualRouterMac", json!("00:00:17:00:00:01"))]
        }
        "publicIps" => vec![("scope", json!("REGION")), ("ipAddress", json!("192.0.2.253"))],
        "natGateways" => vec![("blockTraffic", json!(false)), ("natIp", json!("192.0.2.254"))],
        _ => vec![],
    };
    for (field, new) in more {
        value[field] = new;
    }
    value["lifecycleState"] = json!("PROVISIONING");
    let id = world.add(kind, value);
    world.remember(request, kind, &id);
    world.later(1, kind, &id, "PROVISIONING", "AVAILABLE");
    world.need(kind, &id).map(Resource::show)
}

fn net(value: &Value) -> Result<Ipv4Net, Answer> {
    let parsed = value.as_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| invalid(format!("{value} is not a valid CIDR block")))
}

fn check_subnet(world: &World, body: &Value) -> Result<(), Answer> {
    let cidr = net(&body["cidrBlock"])?;
    if let Some(place) = world.place.filter(|place| *place != cidr) {
        return Err(invalid(format!("Instances boot in {place} here, and nowhere else")));
    }
    let vcn = world.need("vcns", body["vcnId"].as_str().unwrap_or_default())?;
    let blocks = vcn.value["cidrBlocks"].as_array().cloned().unwrap_or_default();
    if !blocks.iter().filter_map(|block| net(block).ok()).any(|block| block.contains(&cidr)) {
        return Err(invalid("The subnet is not in the VCN"));
    }
    let of_vcn = |r: &&super::world::Resource| r.is_there() && r.value["vcnId"] == body["vcnId"];
    let mut others = world.list("subnets").iter().filter(of_vcn);
    if others
        .any(|other| net(&other.value["cidrBlock"]).is_ok_and(|o| o.contains(&cidr) || cidr.contains(&o)))
    {
        return Err(invalid("The subnet overlaps with another one"));
    }
    Ok(())
}

pub fn delete(world: &mut World, collection: &str, id: &str) -> Outcome {
    let kind = kind_of(collection).filter(|kind| MADE.iter().any(|(made, ..)| made == kind));
    let kind = kind.ok_or_else(not_found)?;
    world.need(kind, id)?;
    if let Some(by) = user_of(world, kind, id) {
        return Err(refuse(409, "Conflict", format!("{id} is used by {by}")));
    }
    world.set(kind, id, "lifecycleState", json!("TERMINATING"));
    world.later(1, kind, id, "TERMINATING", "TERMINATED");
    Ok(Answer::empty())
}

/// What cannot be without it.
fn user_of(world: &World, kind: &str, id: &str) -> Option<String> {
    let any = |other: &str, is: &dyn Fn(&Value) -> bool| {
        let found = world.list(other).iter().find(|r| r.is_there() && is(&r.value));
        found.map(|r| r.id().to_string())
    };
    let lists = |field: &'static str| {
        move |value: &Value| value[field].as_array().is_some_and(|all| all.iter().any(|one| one == id))
    };
    match kind {
        "vcns" => MADE.iter().skip(1).find_map(|(other, ..)| any(other, &|value| value["vcnId"] == id)),
        "subnets" => any("vnics", &|value| value["subnetId"] == id),
        "routeTables" => any("subnets", &|value| value["routeTableId"] == id),
        "securityLists" => any("subnets", &lists("securityListIds")),
        "networkSecurityGroups" => any("vnics", &lists("nsgIds")),
        "internetGateways" | "natGateways" => any("routeTables", &|value| {
            let rules = value["routeRules"].as_array();
            rules.is_some_and(|rules| rules.iter().any(|rule| rule["networkEntityId"] == id))
        }),
        _ => None,
    }
}

/// An address that was asked for.
pub fn take_address(world: &World, subnet: &str, address: &str) -> Result<String, Answer> {
    let cidr = net(&world.need("subnets", subnet)?.value["cidrBlock"])?;
    let parsed: Ipv4Addr = address.parse().map_err(|_| invalid(format!("privateIp {address}")))?;
    if !cidr.contains(&parsed) || is_reserved(cidr, parsed) {
        return Err(invalid(format!("The IP address {address} cannot be used in {cidr}")));
    }
    if is_taken(world, subnet, address) {
        return Err(refuse(
            409,
            "Conflict",
            format!("The requested private IP {address} is already in use."),
        ));
    }
    Ok(address.to_string())
}

pub fn free_address(world: &World, subnet: &str) -> Result<String, Answer> {
    let cidr = net(&world.need("subnets", subnet)?.value["cidrBlock"])?;
    let mut free = cidr.hosts().filter(|a| !is_reserved(cidr, *a)).map(|a| a.to_string());
    free.find(|address| !is_taken(world, subnet, address)).ok_or_else(|| busy("The subnet is full"))
}

/// The first two and the last are Oracle's.
fn is_reserved(cidr: Ipv4Net, address: Ipv4Addr) -> bool {
    u32::from(address) < u32::from(cidr.network()) + 2 || address == cidr.broadcast()
}

fn is_taken(world: &World, subnet: &str, address: &str) -> bool {
    let of = |value: &Value| value["subnetId"] == subnet && value["ipAddress"] == address;
    world.list("privateIps").iter().any(|ip| of(&ip.value))
}

pub fn update_vnic(world: &mut World, request: &Request<'_>, id: &str) -> Outcome {
    world.need("vnics", id)?;
    for field in ["routeTableId", "nsgIds"] {
        if let Some(value) = request.body.get(field) {
            world.set("vnics", id, field, value.clone());
        }
    }
    world.need("vnics", id).map(Resource::show)
}

/// Rules are kept apart: a group does not show them.
fn kept(group: &str) -> String {
    format!("rules of {group}")
}

pub fn rules_of(world: &World, group: &str) -> Vec<Value> {
    let all = world.get("securityRules", &kept(group)).map(|r| r.value["rules"].clone());
    all.and_then(|all| all.as_array().cloned()).unwrap_or_default()
}

pub fn rules(world: &mut World, request: &Request<'_>, group: &str) -> Outcome {
    world.need("networkSecurityGroups", group)?;
    Ok(world.cut(&rules_of(world, group), request))
}

/// The same rule twice is two rules.
pub fn add_rules(world: &mut World, request: &Request<'_>, group: &str) -> Outcome {
    world.need("networkSecurityGroups", group)?;
    let new = request.body["securityRules"].as_array().cloned().ok_or_else(|| lacks("securityRules"))?;
    if new.len() > 25 {
        return Err(invalid("securityRules: at most 25"));
    }
    let mut added = Vec::new();
    for mut rule in new {
        let egress = rule["direction"] == "EGRESS";
        let peer = if egress { "destination" } else { "source" };
        for field in ["direction", "protocol", peer] {
            if !rule[field].is_string() {
                return Err(lacks(field));
            }
        }
        rule["id"] = json!(format!("{:06X}", world.next()));
        rule["isValid"] = json!(true);
        rule["timeCreated"] = json!(super::world::now());
        added.push(rule);
    }
    let mut all = rules_of(world, group);
    all.extend(added.clone());
    keep(world, group, &all);
    Ok(Answer::json(json!({ "securityRules": added })))
}

pub fn remove_rules(world: &mut World, request: &Request<'_>, group: &str) -> Outcome {
    world.need("networkSecurityGroups", group)?;
    let gone = request.body["securityRuleIds"].as_array().cloned().ok_or_else(|| lacks("securityRuleIds"))?;
    let mut all = rules_of(world, group);
    all.retain(|rule| !gone.contains(&rule["id"]));
    keep(world, group, &all);
    Ok(Answer::empty())
}

fn keep(world: &mut World, group: &str, all: &[Value]) {
    let id = kept(group);
    world.drop("securityRules", &id);
    // Not a thing of its own.
    world.add("securityRules", json!({ "id": id, "rules": all, "lifecycleState": "TERMINATED" }));
}
