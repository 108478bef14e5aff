//! Instances: launched, changed, terminated, each a while after the answer.

use serde_json::{Value, json};

use super::COMPARTMENT;
use super::answer::{Answer, Outcome, busy, invalid, lacks, not_found, refuse};
use super::network::{free_address, take_address};
use super::route::Request;
use super::world::{DOMAINS, Resource, World, check_tags, now};

pub fn shapes() -> Vec<Value> {
    let flexible = json!({
        "shape": "VM.Standard.E5.Flex", "isFlexible": true, "processorDescription": "2.4 GHz AMD EPYC 9J14", "ocpus": 1.0,
        "memoryInGBs": 12.0, "gpus": 0, "billingType": "PAID",
        "quotaNames": ["standard-e5-core-count", "standard-e5-memory-count"],
        "ocpuOptions": { "min": 1.0, "max": 94.0 },
        "memoryOptions": { "minInGBs": 1.0, "maxInGBs": 1049.0, "defaultPerOcpuInGBs": 12.0 },
    });
    let fixed = json!({
        "shape": "VM.Standard2.1", "isFlexible": false, "processorDescription": "2.0 GHz Intel Xeon", "ocpus": 1.0,
        "memoryInGBs": 15.0, "gpus": 0, "billingType": "PAID", "quotaNames": ["standard2-core-count"],
    });
    let metal = json!({
        "shape": "BM.HPC2.36", "isFlexible": false, "processorDescription": "3.0 GHz Intel Xeon", "ocpus": 36.0,
        "memoryInGBs": 384.0, "gpus": 0, "rdmaPorts": 1, "billingType": "PAID", "quotaNames": ["hpc2-36-count"],
    });
    vec![flexible, fixed, metal]
}

pub fn launch(world: &mut World, request: &Request<'_>) -> Outcome {
    let body = &request.body;
    let domain = request.text("availabilityDomain")?.to_string();
    let mut value = world.common("instance", body)?;
    if !DOMAINS.contains(&domain.as_str()) {
        return Err(invalid(format!("availabilityDomain {domain}")));
    }
    let shape = request.text("shape")?.to_string();
    let known = shapes().into_iter().find(|known| known["shape"] == shape.as_str());
    let known = known.ok_or_else(|| invalid(format!("Shape {shape} is not valid")))?;
    let config = &body["shapeConfig"];
    if (known["isFlexible"] == true) != config.is_object() {
        return Err(invalid(format!("shapeConfig of shape {shape}")));
    }
    let image = body["sourceDetails"]["imageId"].as_str().ok_or_else(|| lacks("sourceDetails.imageId"))?;
    super::images::check(world, image, &shape)?;
    check_metadata(&body["metadata"])?;
    super::identity::check_defined(world, body)?;
    let ocpus = config["ocpus"].as_f64().or(known["ocpus"].as_f64()).unwrap_or(1.0);
    let memory = config["memoryInGBs"].as_f64().or(known["memoryInGBs"].as_f64()).unwrap_or(1.0);
    let size = json!({ "ocpus": ocpus, "memoryInGBs": memory, "vcpus": 2 });
    super::limits::check(world, &known, &domain, &size)?;
    if world.full.contains(&(domain.clone(), shape.clone())) {
        return Err(refuse(500, "InternalError", "Out of host capacity."));
    }
    let vnic = &body["createVnicDetails"];
    let subnet = vnic["subnetId"].as_str().ok_or_else(|| lacks("createVnicDetails.subnetId"))?.to_string();
    let address = match vnic["privateIp"].as_str() {
        Some(address) => take_address(world, &subnet, address)?,
        None => free_address(world, &subnet)?,
    };
    for group in vnic["nsgIds"].as_array().into_iter().flatten() {
        world.need("networkSecurityGroups", group.as_str().unwrap_or_default())?;
    }
    for attachment in body["launchVolumeAttachments"].as_array().into_iter().flatten() {
        let volume = world.need("volumes", attachment["volumeId"].as_str().unwrap_or_default())?;
        if volume.value["availabilityDomain"] != domain.as_str() {
            return Err(invalid("The volume is in another availability domain"));
        }
    }
    let compute_cluster = super::compute_clusters::joined(world, body, &known, &domain)?;
    for (field, new) in [
        ("availabilityDomain", json!(domain)),
        ("faultDomain", json!("FAULT-DOMAIN-1")),
        ("region", json!("phx")),
        ("lifecycleState", json!("PROVISIONING")),
        ("launchMode", json!("PARAVIRTUALIZED")),
        ("shape", json!(shape)),
        ("shapeConfig", size),
        ("imageId", json!(image)),
        ("sourceDetails", body["sourceDetails"].clone()),
        ("metadata", body["metadata"].clone()),
        ("extendedMetadata", json!({})),
        ("instanceOptions", body.get("instanceOptions").cloned().unwrap_or(json!({}))),
    ] {
        value[field] = new;
    }
    let (image, name) = (image.to_string(), value["displayName"].clone());
    let id = world.add("instances", value);
    world.remember(request, "instances", &id);
    world.clustered.extend(compute_cluster.map(|cluster| (id.clone(), cluster)));
    if world.lags {
        world.unlisted.insert(id.clone());
    }
    let work = begin(world, "LaunchInstance", &id);
    if world.quietly_full.contains(&(domain.clone(), shape.clone())) {
        fail_later(world, &id, &work, "OutOfHostCapacity", "Out of host capacity.");
        let shown = world.need("instances", &id).map(Resource::show)?;
        return Ok(shown.with("opc-work-request-id", work));
    }
    let vnic_id = world.ocid("vnic");
    let public = (vnic["assignPublicIp"] == true).then(|| match world.place {
        Some(_) => address.clone(),
        None => format!("192.0.2.{}", world.next() % 250 + 1),
    });
    let vnic = json!({
        "id": vnic_id, "availabilityDomain": domain, "compartmentId": COMPARTMENT, "displayName": name,
        "lifecycleState": "AVAILABLE", "isPrimary": true, "nsgIds": vnic["nsgIds"], "privateIp": address,
        "publicIp": public, "subnetId": subnet, "timeCreated": now(), "freeformTags": {}, "definedTags": {},
    });
    let ip = json!({
        "id": world.ocid("privateip"), "compartmentId": COMPARTMENT, "availabilityDomain": domain, "displayName": name,
        "ipAddress": address, "isPrimary": true, "subnetId": subnet, "vnicId": vnic_id, "timeCreated": now(),
        "freeformTags": {}, "definedTags": {},
    });
    world.add("privateIps", ip);
    world.add("vnics", vnic);
    let attachment = attach(world, "vnicattachment", &domain, &id, "ATTACHING");
    let attachment = with(attachment, [("vnicId", json!(vnic_id)), ("subnetId", json!(subnet))]);
    let attachment = world.add("vnicAttachments", attachment);
    world.later(1, "vnicAttachments", &attachment, "ATTACHING", "ATTACHED");
    if let Some((code, message)) = world.breaks.clone() {
        fail_later(world, &id, &work, &code, &message);
    } else {
        new_boot_volume(world, &id, &domain, &image);
        for volume in body["launchVolumeAttachments"].as_array().into_iter().flatten() {
            let attachment = attach(world, "volumeattachment", &domain, &id, "ATTACHED");
            let more = [
                ("volumeId", volume["volumeId"].clone()),
                ("attachmentType", json!("paravirtualized")),
                ("isReadOnly", json!(volume["isReadOnly"] == true)),
            ];
            world.add("volumeAttachments", with(attachment, more));
        }
        world.later(2, "instances", &id, "PROVISIONING", "RUNNING");
        let work = work.clone();
        world.after(2, move |world| end(world, &work, None));
    }
    let shown = world.need("instances", &id).map(Resource::show)?;
    Ok(shown.with("opc-work-request-id", work))
}

/// A launch that was accepted comes to nothing, and only its work request says why.
fn fail_later(world: &mut World, id: &str, work: &str, code: &str, message: &str) {
    let [id, work, code, message] = [id, work, code, message].map(String::from);
    world.after(2, move |world| {
        end(world, &work, Some((&code, &message)));
        remove(world, &id);
    });
}

/// As a map of strings that is not too large.
fn check_metadata(metadata: &Value) -> Result<(), Answer> {
    let Some(all) = metadata.as_object() else { return Err(invalid("metadata")) };
    if !all.values().all(Value::is_string) || metadata.to_string().len() > 32_000 {
        return Err(invalid("metadata: more than 32000 bytes, or not text"));
    }
    Ok(())
}

fn attach(world: &mut World, word: &str, domain: &str, instance: &str, state: &str) -> Value {
    json!({
        "id": world.ocid(word), "availabilityDomain": domain, "compartmentId": COMPARTMENT, "instanceId": instance,
        "lifecycleState": state, "timeCreated": now(),
    })
}

fn with<const N: usize>(mut value: Value, more: [(&str, Value); N]) -> Value {
    for (field, new) in more {
        value[field] = new;
    }
    value
}

fn new_boot_volume(world: &mut World, instance: &str, domain: &str, image: &str) {
    let volume = json!({
        "id": world.ocid("bootvolume"), "availabilityDomain": domain, "compartmentId": COMPARTMENT, "imageId": image,
        "lifecycleState": "AVAILABLE", "sizeInGBs": 50, "sizeInMBs": 51_200, "timeCreated": now(), "freeformTags": {},
        "definedTags": {}, "displayName": "boot volume",
    });
    let volume = world.add("bootVolumes", volume);
    let attachment = attach(world, "instance", domain, instance, "ATTACHED");
    world.add("bootVolumeAttachments", with(attachment, [("bootVolumeId", json!(volume))]));
}

/// Boot volume and its attachment go.
fn drop_boot_volume(world: &mut World, instance: &str) {
    for volume in detach_boot_volume(world, instance) {
        world.set("bootVolumes", &volume, "lifecycleState", json!("TERMINATED"));
    }
}

/// The volumes that it had.
fn detach_boot_volume(world: &mut World, instance: &str) -> Vec<String> {
    let of = |r: &&Resource| r.value["instanceId"] == instance && r.is_there();
    let all = world.list("bootVolumeAttachments").iter().filter(of);
    let all: Vec<Value> = all.map(|r| r.value.clone()).collect();
    for attachment in &all {
        world.set("bootVolumeAttachments", text(&attachment["id"]), "lifecycleState", json!("DETACHED"));
    }
    all.iter().map(|attachment| text(&attachment["bootVolumeId"]).to_string()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Everything that is the instance's own; it stays in the listing.
fn remove(world: &mut World, id: &str) {
    drop_boot_volume(world, id);
    for kind in ["vnicAttachments", "volumeAttachments"] {
        let own: Vec<Value> = world
            .list(kind)
            .iter()
            .filter(|r| r.value["instanceId"] == id)
            .map(|r| r.value.clone())
            .collect();
        for attachment in own {
            world.set(kind, text(&attachment["id"]), "lifecycleState", json!("DETACHED"));
            let vnic = text(&attachment["vnicId"]).to_string();
            world.drop("vnics", &vnic);
            let ips = world
                .list("privateIps")
                .iter()
                .filter(|r| !vnic.is_empty() && r.value["vnicId"] == vnic.as_str());
            let ips: Vec<String> = ips.map(|r| r.id().to_string()).collect();
            for ip in ips {
                world.drop("privateIps", &ip);
            }
        }
    }
    world.set("instances", id, "lifecycleState", json!("TERMINATED"));
}

fn begin(world: &mut World, operation: &str, resource: &str) -> String {
    let value = json!({
        "id": world.ocid("coreservicesworkrequest"), "compartmentId": COMPARTMENT, "operationType": operation,
        "status": "IN_PROGRESS", "percentComplete": 0.0, "timeAccepted": now(), "errors": [],
        "resources": [{ "actionType": "IN_PROGRESS", "entityType": "instance", "identifier": resource }],
    });
    world.add("workRequests", value)
}

fn end(world: &mut World, work: &str, fault: Option<(&str, &str)>) {
    if let Some((code, message)) = fault {
        let error = json!([{ "code": code, "message": message, "timestamp": now() }]);
        world.set("workRequests", work, "errors", error);
    }
    let status = if fault.is_some() { "FAILED" } else { "SUCCEEDED" };
    world.set("workRequests", work, "status", json!(status));
    world.set("workRequests", work, "percentComplete", json!(100.0));
    world.set("workRequests", work, "timeFinished", json!(now()));
}

pub fn act(world: &mut World, request: &Request<'_>, id: &str) -> Outcome {
    let action = request.query.get("action").ok_or_else(|| lacks("action"))?.clone();
    let state = world.need("instances", id)?.state().to_string();
    let (from, on_the_way, to): (&str, &'static str, &'static str) = match action.as_str() {
        "START" => ("STOPPED", "STARTING", "RUNNING"),
        "STOP" | "SOFTSTOP" => ("RUNNING", "STOPPING", "STOPPED"),
        "RESET" | "SOFTRESET" => ("RUNNING", "STARTING", "RUNNING"),
        _ => return Err(invalid(format!("action {action}"))),
    };
    if state != from {
        return Err(busy(format!("The instance is {state}, which does not allow {action}")));
    }
    if from == to {
        *world.resets.entry(id.to_string()).or_default() += 1;
    }
    world.set("instances", id, "lifecycleState", json!(on_the_way));
    world.later(2, "instances", id, on_the_way, to);
    world.need("instances", id).map(Resource::show)
}

pub fn update(world: &mut World, request: &Request<'_>, id: &str) -> Outcome {
    let there = world.need("instances", id)?.value.clone();
    check_tags(&request.body)?;
    if let Some(metadata) = request.body.get("metadata") {
        check_metadata(metadata)?;
        for fixed in ["user_data", "ssh_authorized_keys"] {
            if metadata.get(fixed) != there["metadata"].get(fixed) {
                return Err(invalid(format!("The metadata field {fixed} cannot be changed after launch")));
            }
        }
    }
    let source = request.body.get("sourceDetails");
    let mut work = None;
    if let Some(source) = source {
        if text(&there["shape"]).starts_with("BM.") {
            return Err(invalid("Boot volume replacement is not supported for bare metal instances"));
        }
        let image = source["imageId"].as_str().ok_or_else(|| lacks("sourceDetails.imageId"))?.to_string();
        super::images::check(world, &image, text(&there["shape"]))?;
        let state = text(&there["lifecycleState"]).to_string();
        if !["RUNNING", "STOPPED"].contains(&state.as_str()) {
            return Err(busy(format!("The instance is {state}")));
        }
        let request = begin(world, "UpdateInstance", id);
        replace_root(world, id, &there, image, state == "RUNNING", &request);
        work = Some(request);
    }
    for field in ["freeformTags", "displayName", "metadata"] {
        if let Some(value) = request.body.get(field) {
            world.set("instances", id, field, value.clone());
        }
    }
    let shown = world.need("instances", id).map(Resource::show)?;
    Ok(match work {
        Some(work) => shown.with("opc-work-request-id", work),
        None => shown,
    })
}

/// Off, another boot volume, and as before.
fn replace_root(world: &mut World, id: &str, there: &Value, image: String, was_on: bool, work: &str) {
    let (id, work, domain) =
        (id.to_string(), work.to_string(), text(&there["availabilityDomain"]).to_string());
    // For a moment nothing is to be seen of it.
    world.after(1, move |world| {
        if was_on {
            world.set("instances", &id, "lifecycleState", json!("STOPPING"));
        }
        let breaks = world.breaks.clone();
        world.after(2, move |world| {
            if let Some((code, message)) = &breaks {
                end(world, &work, Some((code, message)));
                world.set(
                    "instances",
                    &id,
                    "lifecycleState",
                    json!(if was_on { "RUNNING" } else { "STOPPED" }),
                );
                return;
            }
            world.set("instances", &id, "lifecycleState", json!("STOPPED"));
            drop_boot_volume(world, &id);
            new_boot_volume(world, &id, &domain, &image);
            let source = json!({ "sourceType": "image", "imageId": image });
            world.set("instances", &id, "sourceDetails", source);
            world.set("instances", &id, "imageId", json!(image));
            world.after(1, move |world| {
                end(world, &work, None);
                if was_on {
                    world.set("instances", &id, "lifecycleState", json!("STARTING"));
                    world.later(1, "instances", &id, "STARTING", "RUNNING");
                }
            });
        });
    });
}

pub fn terminate(world: &mut World, request: &Request<'_>, id: &str) -> Outcome {
    let there = world.get("instances", id).ok_or_else(not_found)?;
    match there.state() {
        "TERMINATED" | "TERMINATING" => return Ok(Answer::empty()),
        "CREATING_IMAGE" => return Err(busy("The instance is CREATING_IMAGE")),
        _ => {}
    }
    let keep = request.query.get("preserveBootVolume").is_some_and(|keep| keep == "true");
    world.set("instances", id, "lifecycleState", json!("TERMINATING"));
    let owned = id.to_string();
    world.after(2, move |world| {
        if keep {
            detach_boot_volume(world, &owned);
        }
        remove(world, &owned);
    });
    Ok(Answer::empty())
}

pub fn capture(world: &mut World, request: &Request<'_>) -> Outcome {
    let instance = world.need("instances", request.text("instanceId")?)?.value.clone();
    let value = json!({
        "id": world.ocid("consolehistory"), "availabilityDomain": instance["availabilityDomain"],
        "compartmentId": COMPARTMENT, "displayName": "console history", "instanceId": instance["id"],
        "lifecycleState": "REQUESTED", "timeCreated": now(), "definedTags": {},
        "freeformTags": request.body.get("freeformTags").cloned().unwrap_or(json!({})),
    });
    let id = world.add("instanceConsoleHistories", value);
    world.remember(request, "instanceConsoleHistories", &id);
    world.later(1, "instanceConsoleHistories", &id, "REQUESTED", "SUCCEEDED");
    world.need("instanceConsoleHistories", &id).map(Resource::show)
}

pub fn console(world: &mut World, id: &str) -> Outcome {
    let history = world.need("instanceConsoleHistories", id)?;
    if history.state() != "SUCCEEDED" {
        return Err(busy("The history is not there yet"));
    }
    let name = world.need("instances", text(&history.value["instanceId"]))?.value["displayName"].clone();
    Ok(Answer::bytes(format!("booting\n{} login:\n", text(&name)).into_bytes()))
}
