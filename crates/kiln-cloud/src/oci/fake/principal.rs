//! Instances as callers: tokens for certificates, and what a policy lets them do.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::json;

use super::answer::{Answer, Outcome, invalid, not_found};
use super::identity;
use super::route::Request;
use super::verify::{Caller, instance_document};
use super::world::World;

/// In seconds.
const LIFE: i64 = 1200;

pub fn token(world: &mut World, request: &Request<'_>) -> Outcome {
    if request.caller != Caller::Certificate {
        return Err(not_found());
    }
    let key = STANDARD.decode(request.text("publicKey")?).map_err(|_| invalid("publicKey"))?;
    let certificate = STANDARD.decode(request.text("certificate")?).map_err(|_| invalid("certificate"))?;
    let own = instance_document("cert.pem").and_then(|pem| crate::oci::key::section(&pem, "CERTIFICATE"));
    if own != Some(certificate) {
        return Err(invalid("certificate"));
    }
    let now = Timestamp::now().as_second();
    let claims = json!({ "ptype": "instance", "iat": now, "exp": now + LIFE, "jti": world.next() });
    let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
    world.keys.add(format!("ST${token}"), Caller::Instance, key);
    Ok(Answer::json(json!({ "token": token })))
}

/// With a policy control nodes look, and make, change and delete instances and compute clusters. Without one they may nothing.
pub fn may(world: &World, request: &Request<'_>, parts: &[&str]) -> bool {
    let is_own = |kind: &&str| ["instances", "computeClusters"].contains(kind);
    // File Storage is the deploy host's alone.
    let is_closed = parts.first() == Some(&"20171215");
    identity::lets_instances(world)
        && !is_closed
        && (request.method == "GET" || parts.get(1).is_some_and(is_own))
}
