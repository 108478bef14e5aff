//! Object storage: buckets, objects, and uploads in parts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::COMPARTMENT;
use super::answer::{Answer, Outcome, invalid, not_found, refuse};
use super::route::Request;
use super::world::{World, now};

const NAMESPACE: &str = "fakenamespace";

#[derive(Debug, Clone)]
pub struct Object {
    pub bytes: Vec<u8>,
    pub created: String,
}

/// One that is under way: its parts by their numbers, each with an etag.
#[derive(Debug, Clone)]
pub struct Upload {
    pub bucket: String,
    pub object: String,
    pub created: String,
    parts: BTreeMap<u64, (String, Vec<u8>)>,
}

pub fn route(world: &mut World, request: &Request<'_>, parts: &[&str]) -> Outcome {
    match (request.method.as_str(), parts) {
        ("GET", []) => Ok(Answer::json(json!(NAMESPACE))),
        (_, [namespace, ..]) if *namespace != NAMESPACE => Err(not_found()),
        ("POST", [_, "b"]) => create_bucket(world, request),
        (_, [_, "b", name, ..]) if !world.buckets.contains_key(*name) => Err(no_bucket()),
        ("GET", [_, "b", name]) => Ok(Answer::json(bucket(name))),
        ("DELETE", [_, "b", name]) => {
            let has_objects = world.buckets.get(*name).is_some_and(|objects| !objects.is_empty());
            if has_objects || world.uploads.values().any(|upload| upload.bucket == *name) {
                return Err(refuse(409, "BucketNotEmpty", format!("Bucket named '{name}' is not empty.")));
            }
            world.buckets.remove(*name);
            Ok(Answer::empty())
        }
        ("GET", [_, "b", name, "o"]) => Ok(list(world, request, name)),
        ("PUT", [_, "b", name, "o", object]) => {
            put(world, name, object, request.bytes.to_vec());
            Ok(Answer { status: 200, ..Answer::default() })
        }
        ("GET", [_, "b", name, "o", object]) => {
            let there = world.buckets.get(*name).and_then(|bucket| bucket.get(*object));
            there.map(|object| Answer::bytes(object.bytes.clone())).ok_or_else(no_object)
        }
        ("DELETE", [_, "b", name, "o", object]) => {
            let there = world.buckets.get_mut(*name).and_then(|bucket| bucket.remove(*object));
            there.map(|_| Answer::empty()).ok_or_else(no_object)
        }
        ("GET", [_, "b", name, "u"]) => {
            let all = world.uploads.iter().filter(|(_, upload)| upload.bucket == *name);
            let all: Vec<Value> = all.map(|(id, upload)| show(id, upload)).collect();
            Ok(world.cut(&all, request))
        }
        ("POST", [_, "b", name, "u"]) => {
            let object = request.text("object")?.to_string();
            let id = format!("upload-{}", world.next());
            let upload = Upload { bucket: (*name).into(), object, created: now(), parts: BTreeMap::new() };
            let shown = show(&id, &upload);
            world.uploads.insert(id, upload);
            Ok(Answer::json(shown))
        }
        (method, [_, "b", name, "u", object]) => part(world, request, method, name, object),
        _ => Err(not_found()),
    }
}

fn create_bucket(world: &mut World, request: &Request<'_>) -> Outcome {
    let name = request.text("name")?.to_string();
    if request.text("compartmentId")? != COMPARTMENT {
        return Err(not_found());
    }
    if world.buckets.contains_key(&name) {
        let message =
            format!("Either the bucket '{name}' already exists or you are not authorized to create it");
        return Err(refuse(409, "BucketAlreadyExists", message));
    }
    world.buckets.insert(name.clone(), BTreeMap::new());
    Ok(Answer::json(bucket(&name)))
}

/// Pages begin with the name that the one before ended at.
fn list(world: &World, request: &Request<'_>, bucket: &str) -> Answer {
    let word = |name: &str| request.query.get(name).map(String::as_str).unwrap_or_default();
    let all = world.buckets.get(bucket).into_iter().flatten();
    let mut wanted: Vec<(&String, &Object)> =
        all.filter(|(name, _)| name.starts_with(word("prefix")) && name.as_str() >= word("start")).collect();
    let next = wanted.get(world.page).map(|(name, _)| (*name).clone());
    wanted.truncate(world.page);
    let show = |(name, object): (&String, &Object)| json!({ "name": name, "size": object.bytes.len(), "timeCreated": object.created });
    let objects: Vec<Value> = wanted.into_iter().map(show).collect();
    let mut listing = json!({ "objects": objects, "prefixes": [] });
    if let Some(next) = next {
        listing["nextStartWith"] = json!(next);
    }
    Answer::json(listing)
}

/// Of an upload: one more, all of them, or none.
fn part(world: &mut World, request: &Request<'_>, method: &str, bucket: &str, object: &str) -> Outcome {
    let id = request.query.get("uploadId").cloned().unwrap_or_default();
    let none = || refuse(404, "NoSuchUpload", "The upload was not found");
    let serial = world.next();
    let upload =
        world.uploads.get_mut(&id).filter(|upload| upload.bucket == bucket && upload.object == object);
    let upload = upload.ok_or_else(none)?;
    match method {
        "PUT" => {
            let number = request.query.get("uploadPartNum").and_then(|text| text.parse::<u64>().ok());
            let number = number.filter(|number| (1..=10_000).contains(number));
            let number = number.ok_or_else(|| invalid("uploadPartNum"))?;
            let etag = format!("part-{serial}");
            upload.parts.insert(number, (etag.clone(), request.bytes.to_vec()));
            Ok(Answer { status: 200, ..Answer::default() }.with("etag", etag))
        }
        "POST" => {
            let wanted = request.body["partsToCommit"].as_array().ok_or_else(|| invalid("partsToCommit"))?;
            let mut bytes = Vec::new();
            for one in wanted {
                let there = one["partNum"].as_u64().and_then(|number| upload.parts.get(&number));
                let there = there.filter(|(etag, _)| one["etag"] == etag.as_str());
                bytes.extend(&there.ok_or_else(|| refuse(400, "InvalidUploadPart", "No such part"))?.1);
            }
            world.uploads.remove(&id);
            put(world, bucket, object, bytes);
            Ok(Answer { status: 200, ..Answer::default() })
        }
        "DELETE" => {
            world.uploads.remove(&id);
            Ok(Answer::empty())
        }
        _ => Err(not_found()),
    }
}

fn put(world: &mut World, bucket: &str, object: &str, bytes: Vec<u8>) {
    let there = world.buckets.entry(bucket.to_string()).or_default();
    there.insert(object.to_string(), Object { bytes, created: now() });
}

fn show(id: &str, upload: &Upload) -> Value {
    json!({
        "namespace": NAMESPACE, "bucket": upload.bucket, "object": upload.object, "uploadId": id,
        "timeCreated": upload.created, "storageTier": "Standard",
    })
}

fn bucket(name: &str) -> Value {
    json!({
        "namespace": NAMESPACE, "name": name, "compartmentId": COMPARTMENT, "metadata": {},
        "createdBy": super::USER, "timeCreated": now(), "etag": "e", "publicAccessType": "NoPublicAccess",
        "storageTier": "Standard", "freeformTags": {}, "definedTags": {},
    })
}

fn no_bucket() -> Answer {
    refuse(404, "BucketNotFound", "The bucket does not exist")
}

fn no_object() -> Answer {
    refuse(404, "ObjectNotFound", "The object was not found")
}
