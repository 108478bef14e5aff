//! What a refusal means: five services with five ways to say it, sorted by what a caller can do.

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::http::failure;
use crate::remote::{one_line, retry_after};
use crate::{Class, Error};

pub fn fault(status: StatusCode, headers: &HeaderMap, body: &[u8], method: &Method, path: &str) -> Error {
    let (kind, message) = message(status, body);
    let full = is_quota(&kind, &message);
    match status.as_u16() {
        403 | 409 | 413 | 400 if full => no_room(message),
        401 | 403 => no_rights(message),
        // What the new thing refers to is not there; only the service knows what that is.
        404 if makes(method, path) => Error::refused(message),
        404 => Error::not_found("resource", path.split('?').next().unwrap_or(path).to_string()),
        409 => Error::conflict(message),
        // Without a word on when to come back it is no matter of time: Glance says so of a full store.
        413 if !headers.contains_key(RETRY_AFTER) => no_room(message),
        413 | 429 => Error::busy(retry_after(headers)),
        503 if headers.contains_key(RETRY_AFTER) => Error::busy(retry_after(headers)),
        408 => Error::unanswered(message),
        code if code >= 500 => Error::unanswered(message),
        _ => Error::refused(message),
    }
}

/// No answer came, from the service or address that is named.
pub fn no_answer(error: reqwest::Error, from: &str) -> Error {
    let error = failure(error);
    match error.class {
        Class::Untrusted => error.about(from).with_hint(
            "`cacert` in clouds.yaml, or OS_CACERT, names the CA bundle to trust; the address must have one of the \
             certificate's names",
        ),
        _ => error.saying(format!("no answer from {from}")),
    }
}

pub fn no_rights(message: impl Into<String>) -> Error {
    Error::no_rights(message)
        .with_hint("`openstack token issue` with the same clouds.yaml or variables shows whether they work")
}

pub fn no_room(message: impl Into<String>) -> Error {
    Error::no_room(message)
        .with_hint("`openstack quota show --usage` shows the project's limits; nodes that were made stay")
}

/// Something of a name that this cluster needs belongs to somebody else.
pub fn taken(what: &str, whose: &str) -> Error {
    Error::conflict(format!("{what} exists already and is not {whose}"))
        .with_hint("rename the cluster, or remove the other one")
}

/// The request is to make something, as opposed to one about something that is named in its path.
fn makes(method: &Method, path: &str) -> bool {
    let about = ["/action", "/auth/tokens"].iter().any(|end| path.ends_with(end));
    *method == Method::POST && !about || path.ends_with("/add_router_interface")
}

/// Also a subnet without a free address: to a caller it is the same as a full project.
fn is_quota(kind: &str, message: &str) -> bool {
    let text = message.to_lowercase();
    ["OverQuota", "IpAddressGenerationFailure", "overLimit"].contains(&kind)
        || text.contains("quota exceeded")
        || text.contains("exceeds allowed")
        || text.contains("quota_exceeded")
        // Limits that Keystone keeps.
        || text.contains("is over a limit for")
        || text.contains("is over limit of")
}

/// The service's own words, on one line, with the word it has for the kind of fault.
fn message(status: StatusCode, body: &[u8]) -> (String, String) {
    let parsed: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let inner = parsed.as_object().and_then(|object| object.iter().find(|(_, value)| value.is_object()));
    if let Some((key, fault)) = inner {
        let kind = fault["type"].as_str().unwrap_or(key).to_string();
        let text = fault["message"].as_str().unwrap_or_default();
        return (kind, one_line(text, status));
    }
    // Neutron says some faults as a bare string; Glance as a page of HTML.
    if let Some(text) = parsed["NeutronError"].as_str() {
        return (String::new(), one_line(text, status));
    }
    (String::new(), one_line(&without_tags(&String::from_utf8_lossy(body)), status))
}

fn without_tags(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                out.push(' ');
            }
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sorted(status: u16, body: &str) -> String {
        let status = StatusCode::from_u16(status).unwrap();
        fault(status, &HeaderMap::new(), body.as_bytes(), &Method::GET, "/servers/x?y").to_string()
    }

    #[test]
    fn every_service_is_understood() {
        let nova = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances"}}"#;
        assert!(sorted(403, nova).starts_with("the cloud has no room: Quota exceeded for instances"));
        let neutron = r#"{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['port'].", "detail": ""}}"#;
        assert_eq!(sorted(409, neutron), "the cloud has no room: Quota exceeded for resources: ['port'].");
        let cinder = r#"{"overLimit": {"code": 413, "message": "VolumeSizeExceedsAvailableQuota: Requested volume exceeds allowed gigabytes quota."}}"#;
        assert!(sorted(413, cinder).starts_with("the cloud has no room"));
        let unified = r#"{"forbidden": {"code": 403, "message": "Project 5f is over a limit for [Resource servers is over limit of 10 due to current usage 10 and delta 1]"}}"#;
        assert!(sorted(403, unified).starts_with("the cloud has no room: Project 5f is over a limit"));
        let full = "<html><head><title>413 Request Entity Too Large</title></head><body>The size of the data exceeds the limit</body></html>";
        assert!(sorted(413, full).starts_with("the cloud has no room"), "{}", sorted(413, full));
        let keystone = r#"{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}"#;
        assert!(sorted(401, keystone).starts_with("the cloud refuses the credentials"));
        let glance = "<html><head><title>409 Conflict</title></head><body><h1>409 Conflict</h1>in use<br /></body></html>";
        assert!(sorted(409, glance).ends_with("in use"));
        assert_eq!(sorted(404, ""), "the cloud has no resource /servers/x");
        assert_eq!(sorted(400, ""), "the cloud rejects the request: 400 Bad Request");
    }

    #[test]
    fn what_a_new_thing_lacks_is_told_in_the_services_words() {
        let body = br#"{"NeutronError": {"type": "ExternalGatewayForFloatingIPNotFound", "message": "External network p is not reachable from subnet s.", "detail": ""}}"#;
        let told = |method: Method, path: &str| {
            fault(StatusCode::NOT_FOUND, &HeaderMap::new(), body, &method, path).to_string()
        };
        let words = "the cloud rejects the request: External network p is not reachable from subnet s.";
        assert_eq!(told(Method::POST, "/v2.0/floatingips"), words);
        assert_eq!(told(Method::PUT, "/v2.0/routers/r/add_router_interface"), words);
        assert_eq!(told(Method::POST, "/servers/x/action"), "the cloud has no resource /servers/x/action");
        assert_eq!(told(Method::GET, "/servers/x"), "the cloud has no resource /servers/x");
    }

    #[test]
    fn a_cloud_that_is_busy_is_asked_again() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, "7".parse().unwrap());
        for status in [429, 503] {
            let error = fault(StatusCode::from_u16(status).unwrap(), &headers, b"", &Method::GET, "/");
            assert_eq!(error.class, Class::Busy { after: Some(Duration::from_secs(7)) });
        }
        for status in [500, 502, 503, 504] {
            let error =
                fault(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), b"", &Method::GET, "/");
            assert!(error.class == Class::Unanswered, "{error:?}");
        }
    }
}
