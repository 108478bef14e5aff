//! The metadata service, which knows by its address which instance asks.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::answer::Answer;
use super::verify::instance_document;
use super::world::{Resource, World};
use super::{REGION, TENANCY};

/// Without the header it might be somebody else's request that an instance was made to send.
pub fn answer(world: &World, from: IpAddr, target: &str, authorization: Option<&str>) -> Answer {
    if !target.starts_with("/opc/v2/") {
        return Answer { status: 404, ..Answer::default() };
    }
    if authorization != Some("Bearer Oracle") {
        return Answer { status: 401, ..Answer::default() };
    }
    let document = match target {
        "/opc/v2/instance/region" => Some(Answer::bytes(b"phx".to_vec())),
        "/opc/v2/instance/" => instance_at(world, from).map(|instance| Answer::json(describe(instance))),
        _ => target
            .strip_prefix("/opc/v2/identity/")
            .and_then(instance_document)
            .map(|text| Answer::bytes(text.into_bytes())),
    };
    document.unwrap_or(Answer { status: 404, ..Answer::default() })
}

fn instance_at(world: &World, address: IpAddr) -> Option<&Resource> {
    let address = address.to_string();
    let vnic = world.list("vnics").iter().find(|r| r.value["privateIp"] == address.as_str())?;
    let attachments = world.list("vnicAttachments").iter();
    let mut own = attachments.filter(|r| r.is_there() && r.value["vnicId"] == vnic.id());
    world.get("instances", own.next()?.value["instanceId"].as_str()?)
}

fn describe(instance: &Resource) -> Value {
    let value = &instance.value;
    let mut document = json!({
        "hostname": value["displayName"], "image": value["imageId"], "canonicalRegionName": REGION, "tenantId": TENANCY,
    });
    for field in [
        "id",
        "displayName",
        "availabilityDomain",
        "faultDomain",
        "compartmentId",
        "region",
        "shape",
        "shapeConfig",
        "metadata",
        "freeformTags",
        "definedTags",
    ] {
        document[field] = value[field].clone();
    }
    document
}
