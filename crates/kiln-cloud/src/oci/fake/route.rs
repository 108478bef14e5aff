//! Which part of the fake answers which request.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome, lacks, not_found, refuse};
use super::verify::Caller;
use super::world::{Resource, World, check_tags};
use super::{
    capacity, compute, compute_clusters, compute_hosts, file_storage, identity, images, limits, network,
    objects, principal, storage,
};

/// A request, taken apart.
pub struct Request<'a> {
    pub method: &'a Method,
    /// After the version: `["instances", "ocid1..."]`.
    pub parts: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub body: Value,
    pub bytes: &'a [u8],
    pub token: Option<String>,
    pub if_match: Option<String>,
    pub caller: Caller,
}

impl<'a> Request<'a> {
    pub fn new(
        method: &'a Method,
        uri: &Uri,
        headers: &HeaderMap,
        bytes: &'a [u8],
        caller: Caller,
    ) -> Request<'a> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(String::from);
        let parts = uri.path().split('/').filter(|part| !part.is_empty()).map(decode).collect();
        let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        Request {
            method,
            parts,
            query: pairs.map(|(key, value)| (key.to_string(), decode(value))).collect(),
            body: serde_json::from_slice(bytes).unwrap_or_default(),
            bytes,
            token: text("opc-retry-token"),
            if_match: text("if-match"),
            caller,
        }
    }

    pub fn text(&self, field: &str) -> Result<&str, Answer> {
        self.body[field].as_str().ok_or_else(|| lacks(field))
    }
}

fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let hex: String = bytes.by_ref().take(2).map(char::from).collect();
        out.extend(u8::from_str_radix(&hex, 16).ok());
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub fn route(world: &mut World, request: &Request<'_>) -> Outcome {
    let parts: Vec<&str> = request.parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["v1", "x509"] => principal::token(world, request),
        _ if request.caller == Caller::Instance && !principal::may(world, request, &parts) => {
            Err(not_found())
        }
        ["n", rest @ ..] => objects::route(world, request, rest),
        ["20171215", rest @ ..] => file_storage::route(world, request, rest),
        ["20190729", rest @ ..] => limits::route(world, request, rest),
        ["20160918", rest @ ..] => core(world, request, rest),
        _ => Err(not_found()),
    }
}

fn core(world: &mut World, request: &Request<'_>, parts: &[&str]) -> Outcome {
    let method = request.method.as_str();
    if method == "GET"
        && let [collection] = parts
        && !identity::is_kind(collection)
    {
        return listing(world, request, collection);
    }
    if let ("GET", [collection, id]) = (method, parts)
        && let Some(kind) = kind_of(collection)
    {
        let resource = world.get(kind, id).ok_or_else(not_found)?;
        // Gone things are shown by their ids only where Oracle does so.
        if !resource.is_there() && !["instances", "volumes", "images", "workRequests"].contains(&kind) {
            return Err(not_found());
        }
        return Ok(match kind {
            "workRequests" => Answer::json(without(resource.value.clone(), &["errors"])),
            _ => resource.show(),
        });
    }
    if let Some(id) = parts.get(1)
        && let Some(etag) = &request.if_match
        && let Some(kind) = kind_of(parts[0])
        && world.get(kind, id).is_some_and(|resource| resource.etag.to_string() != *etag)
    {
        return Err(refuse(412, "NoEtagMatch", "The if-match header does not match the etag."));
    }
    if method == "POST"
        && parts.len() == 1
        && let Some(outcome) = world.repeated(request)
    {
        return outcome;
    }
    if parts.first().is_some_and(|collection| identity::is_kind(collection)) {
        return identity::route(world, request, parts);
    }
    match (method, parts) {
        ("POST", ["instances"]) => compute::launch(world, request),
        ("POST", ["instances", id]) => compute::act(world, request, id),
        ("PUT", ["instances", id]) => compute::update(world, request, id),
        ("DELETE", ["instances", id]) => compute::terminate(world, request, id),
        ("GET", ["workRequests", id, "errors"]) => {
            let errors = world.need("workRequests", id)?.value["errors"].clone();
            Ok(world.cut(errors.as_array().map_or(&[], Vec::as_slice), request))
        }
        ("POST", ["instanceConsoleHistories"]) => compute::capture(world, request),
        ("GET", ["instanceConsoleHistories", id, "data"]) => compute::console(world, id),
        ("DELETE", ["instanceConsoleHistories", id]) => {
            world.need("instanceConsoleHistories", id)?;
            world.drop("instanceConsoleHistories", id);
            Ok(Answer::empty())
        }
        ("POST", ["computeCapacityReports"]) => capacity::report(world, request),
        ("POST", ["computeClusters"]) => compute_clusters::create(world, request),
        ("DELETE", ["computeClusters", id]) => compute_clusters::delete(world, id),
        ("POST", ["images"]) => images::create(world, request),
        ("DELETE", ["images", id]) => images::delete(world, id),
        ("PUT", ["images", id, "shapes", shape]) => images::fit(world, id, shape),
        ("DELETE", ["bootVolumes", id]) => storage::delete_boot_volume(world, id),
        ("POST", ["volumes"]) => storage::create(world, request),
        ("PUT", ["volumes", id]) => storage::update(world, request, id),
        ("DELETE", ["volumes", id]) => storage::delete(world, id),
        ("PUT", ["vnics", id]) => network::update_vnic(world, request, id),
        ("POST", ["networkSecurityGroups", id, "actions", "addSecurityRules"]) => {
            network::add_rules(world, request, id)
        }
        ("POST", ["networkSecurityGroups", id, "actions", "removeSecurityRules"]) => {
            network::remove_rules(world, request, id)
        }
        ("GET", ["networkSecurityGroups", id, "securityRules"]) => network::rules(world, request, id),
        ("POST", [collection]) => network::create(world, request, collection),
        ("PUT", [collection, id]) => tag(world, request, collection, id),
        ("DELETE", [collection, id]) => network::delete(world, collection, id),
        _ => Err(not_found()),
    }
}

/// The name under which the world keeps a collection.
pub fn kind_of(collection: &str) -> Option<&'static str> {
    KINDS.iter().find(|(kind, ..)| *kind == collection).map(|(kind, ..)| *kind)
}

/// Collections, what a listing of them must say, and what it may filter by.
const KINDS: &[(&str, &[&str], &[&str])] = &[
    ("availabilityDomains", &["compartmentId"], &[]),
    (
        "bootVolumeAttachments",
        &["availabilityDomain", "compartmentId"],
        &["availabilityDomain", "instanceId"],
    ),
    ("bootVolumes", &[], &["availabilityDomain", "compartmentId"]),
    ("computeClusters", &["compartmentId"], &["availabilityDomain", "displayName"]),
    ("computeHosts", &["compartmentId"], &[]),
    ("images", &["compartmentId"], &["displayName", "lifecycleState"]),
    ("instanceConsoleHistories", &["compartmentId"], &["instanceId"]),
    ("instances", &["compartmentId"], &["availabilityDomain", "displayName", "lifecycleState"]),
    ("internetGateways", &["compartmentId"], &["vcnId", "displayName"]),
    ("natGateways", &["compartmentId"], &["vcnId", "displayName"]),
    ("networkSecurityGroups", &[], &["compartmentId", "vcnId", "displayName"]),
    ("privateIps", &[], &["subnetId", "vnicId"]),
    ("publicIps", &["scope", "compartmentId"], &["scope", "lifetime"]),
    ("routeTables", &["compartmentId"], &["vcnId", "displayName"]),
    ("securityLists", &["compartmentId"], &["vcnId", "displayName"]),
    ("shapes", &["compartmentId"], &["shape"]),
    ("subnets", &["compartmentId"], &["vcnId", "displayName"]),
    ("vcns", &["compartmentId"], &["displayName"]),
    ("vnicAttachments", &["compartmentId"], &["instanceId", "vnicId", "availabilityDomain"]),
    ("vnics", &["nothing lists them"], &[]),
    ("volumeAttachments", &["compartmentId"], &["instanceId", "volumeId", "availabilityDomain"]),
    ("volumes", &[], &["compartmentId", "availabilityDomain", "displayName"]),
    ("workRequests", &["compartmentId"], &["resourceId"]),
];

fn listing(world: &mut World, request: &Request<'_>, collection: &str) -> Outcome {
    let found = KINDS.iter().find(|(kind, ..)| *kind == collection);
    let (kind, needed, filters) = found.ok_or_else(not_found)?;
    if let Some(missing) = needed.iter().find(|name| !request.query.contains_key(**name)) {
        return Err(lacks(missing));
    }
    if *kind == "workRequests" {
        let resource = request.query.get("resourceId");
        let of = |value: &Value| resource.is_none_or(|id| value["resources"][0]["identifier"] == id.as_str());
        let all = world
            .list(kind)
            .iter()
            .map(|r| r.value.clone())
            .filter(of)
            .map(|value| without(value, &["errors", "resources"]));
        return Ok(world.cut(&all.collect::<Vec<_>>(), request));
    }
    if *kind == "computeHosts" {
        return Ok(compute_hosts::list(world, request));
    }
    if *kind == "computeClusters" {
        return compute_clusters::list(world, request, filters);
    }
    world.page(kind, request, filters)
}

/// Some fields are asked for by themselves.
fn without(mut value: Value, fields: &[&str]) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|field, _| !fields.contains(&field.as_str()));
    }
    value
}

/// Tags and names can be changed of everything.
fn tag(world: &mut World, request: &Request<'_>, collection: &str, id: &str) -> Outcome {
    let kind = kind_of(collection).ok_or_else(not_found)?;
    world.need(kind, id)?;
    check_tags(&request.body)?;
    for field in ["freeformTags", "displayName"] {
        if let Some(value) = request.body.get(field) {
            world.set(kind, id, field, json!(value));
        }
    }
    world.need(kind, id).map(Resource::show)
}
