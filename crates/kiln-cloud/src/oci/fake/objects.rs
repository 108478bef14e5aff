//! Object storage.

use serde_json::json;

use super::COMPARTMENT;
use super::answer::{Answer, Outcome, not_found, refuse};
use super::route::Request;
use super::world::World;

const NAMESPACE: &str = "fakenamespace";

pub fn route(world: &mut World, request: &Request<'_>, parts: &[&str]) -> Outcome {
    match (request.method.as_str(), parts) {
        ("GET", []) => Ok(Answer::json(json!(NAMESPACE))),
        (_, [namespace, ..]) if *namespace != NAMESPACE => Err(not_found()),
        ("POST", [_, "b"]) => {
            let name = request.text("name")?.to_string();
            if request.text("compartmentId")? != COMPARTMENT {
                return Err(not_found());
            }
            if world.buckets.contains_key(&name) {
                let message = format!(
                    "Either the bucket '{name}' already exists or you are not authorized to create it"
                );
                return Err(refuse(409, "BucketAlreadyExists", message));
            }
            world.buckets.insert(name.clone(), std::collections::BTreeMap::new());
            Ok(Answer::json(bucket(&name)))
        }
        ("GET", [_, "b", name]) if world.buckets.contains_key(*name) => Ok(Answer::json(bucket(name))),
        ("DELETE", [_, "b", name]) => {
            let there = world.buckets.get(*name).ok_or_else(no_bucket)?;
            if !there.is_empty() {
                return Err(refuse(409, "BucketNotEmpty", format!("Bucket named '{name}' is not empty.")));
            }
            world.buckets.remove(*name);
            Ok(Answer::empty())
        }
        ("PUT", [_, "b", name, "o", object]) => {
            let bytes = request.bytes.to_vec();
            let there = world.buckets.get_mut(*name).ok_or_else(no_bucket)?;
            there.insert((*object).to_string(), bytes);
            Ok(Answer { status: 200, ..Answer::default() })
        }
        ("GET", [_, "b", name, "o", object]) => {
            let there = world.buckets.get(*name).and_then(|bucket| bucket.get(*object));
            there.map(|bytes| Answer::bytes(bytes.clone())).ok_or_else(no_object)
        }
        ("DELETE", [_, "b", name, "o", object]) => {
            let there = world.buckets.get_mut(*name).and_then(|bucket| bucket.remove(*object));
            there.map(|_| Answer::empty()).ok_or_else(no_object)
        }
        _ => Err(not_found()),
    }
}

fn bucket(name: &str) -> serde_json::Value {
    json!({
        "namespace": NAMESPACE, "name": name, "compartmentId": COMPARTMENT, "metadata": {},
        "createdBy": super::USER, "timeCreated": super::world::now(), "etag": "e", "publicAccessType": "NoPublicAccess",
        "storageTier": "Standard", "freeformTags": {}, "definedTags": {},
    })
}

fn no_bucket() -> Answer {
    refuse(404, "BucketNotFound", "The bucket does not exist")
}

fn no_object() -> Answer {
    refuse(404, "ObjectNotFound", "The object was not found")
}
