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

/// From the weakest to the strongest; each includes those before it.
const VERBS: [&str; 4] = ["inspect", "read", "use", "manage"];

/// Collections, and what a policy calls those who may look at them. To change them takes the right to manage them.
const TYPES: &[(&str, &str)] = &[
    ("bootVolumeAttachments", "volume-family"),
    ("bootVolumes", "volume-family"),
    ("computeClusters", "compute-clusters"),
    ("images", "instance-images"),
    ("instanceConsoleHistories", "console-histories"),
    ("instances", "instances"),
    ("networkSecurityGroups", "network-security-groups"),
    ("privateIps", "private-ips"),
    ("routeTables", "route-tables"),
    ("shapes", "instances"),
    ("subnets", "subnets"),
    ("vcns", "vcns"),
    ("vnicAttachments", "vnic-attachments"),
    ("vnics", "vnics"),
    ("volumeAttachments", "volume-family"),
    ("volumes", "volume-family"),
    ("workRequests", "work-requests"),
];

/// What a launch names besides.
const FOR_LAUNCHES: &[(&str, &str)] = &[
    ("read", "instance-images"),
    ("use", "network-security-groups"),
    ("use", "private-ips"),
    ("use", "subnets"),
    ("use", "vnics"),
    ("use", "volume-family"),
];

/// Whether the statements of policies give instances what a request takes. By Oracle's documents, as far as they say.
pub fn may(world: &World, request: &Request<'_>, parts: &[&str]) -> bool {
    let Some(needed) = needed(request, parts) else { return false };
    let statements = identity::statements_for_instances(world);
    let gives = |statement: &String, verb: &str, kind: &str| {
        let words: Vec<&str> = statement.split(' ').collect();
        let strength = |verb: &str| VERBS.iter().position(|known| *known == verb);
        words.get(5) == Some(&kind) && words.get(4).and_then(|given| strength(given)) >= strength(verb)
    };
    needed.iter().all(|(verb, kind)| statements.iter().any(|statement| gives(statement, verb, kind)))
}

/// Verbs and types. `None`: no instance may.
fn needed(request: &Request<'_>, parts: &[&str]) -> Option<Vec<(&'static str, &'static str)>> {
    let verb = if request.method == "GET" { "read" } else { "manage" };
    match parts {
        // Everybody who has a token.
        ["20160918", "availabilityDomains"] | ["n"] if verb == "read" => Some(vec![]),
        ["n", _, "b", _, "o", ..] => Some(vec![(verb, "objects")]),
        ["n", _, "b", ..] => Some(vec![(verb, "buckets")]),
        ["20160918", "instances"] if verb == "manage" => {
            Some(FOR_LAUNCHES.iter().copied().chain([(verb, "instances")]).collect())
        }
        ["20160918", "vnics", _] if verb == "manage" => Some(vec![("use", "vnics")]),
        ["20160918", collection, ..] => {
            let (_, kind) = TYPES.iter().find(|(known, _)| known == collection)?;
            Some(vec![(verb, kind)])
        }
        _ => None,
    }
}
