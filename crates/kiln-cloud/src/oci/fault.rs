//! What a refusal means, sorted by what a caller can do. Every message has the id by which Oracle finds the request.

use jiff::Timestamp;
use reqwest::header::{DATE, HeaderMap};
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use crate::http::failure;
use crate::remote::{one_line, retry_after};
use crate::{Class, Error};

/// How far the clocks of both sides may differ, by Oracle's word.
const CLOCKS: i64 = 300;

#[derive(Debug, Default, Deserialize)]
struct Body {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

pub fn fault(status: StatusCode, headers: &HeaderMap, body: &[u8], method: &Method, target: &str) -> Error {
    let body: Body = serde_json::from_slice(body).unwrap_or_default();
    let text = one_line(&body.message, status);
    let id = header(headers, "opc-request-id");
    let message = match id {
        Some(id) => format!("{text} (opc-request-id {id})"),
        None => text,
    };
    match (status.as_u16(), body.code.as_str()) {
        (_, "LimitExceeded" | "QuotaExceeded") => Error::no_room(message)
            .with_hint("`kiln limits` shows what the tenancy may have; nodes that were made stay"),
        (_, "OutOfHostCapacity") => Error::no_room(message),
        (500, _) if is_capacity(&body.message) => Error::no_room(message),
        (401, _) => unauthenticated(headers, message),
        (403, _) => Error::no_rights(message),
        (404, _) if *method == Method::POST || target.contains("compartmentId=") => Error::no_rights(
            format!("{message}: what it names does not exist, or these credentials may not use it"),
        ),
        (404, _) => Error::not_found("resource", target.split('?').next().unwrap_or(target).to_string()),
        (409, "InvalidatedRetryToken") => Error::conflict(format!("{SPENT}: {message}")),
        (409 | 412, _) => Error::conflict(message),
        (429, _) => Error::busy(retry_after(headers)).saying(message),
        (408, _) => Error::unanswered(message),
        (501, _) => Error::refused(message),
        (code, _) if code >= 500 => Error::unanswered(message),
        _ => Error::refused(message),
    }
}

/// No answer came, from the address that is named.
pub fn no_answer(error: reqwest::Error, from: &str) -> Error {
    let error = failure(error);
    match error.class {
        Class::Untrusted => error.about(from).with_hint("OCI_CLI_CERT_BUNDLE names a CA bundle to trust"),
        _ => error.saying(format!("no answer from {from}")),
    }
}

/// What a token was for is over, or was something else.
const SPENT: &str = "the token of the request is spent";

pub fn is_spent(error: &Error) -> bool {
    error.is_conflict() && error.message.starts_with(SPENT)
}

/// What a work request says of what had been accepted: a code and a message.
pub fn of_work(reason: String) -> Error {
    let codes = ["OutOfHostCapacity", "LimitExceeded", "QuotaExceeded"];
    if is_capacity(&reason) || codes.iter().any(|code| reason.contains(code)) {
        Error::no_room(reason)
    } else {
        Error::failed(reason)
    }
}

/// As work requests and answers say it: the same words, in two places.
pub fn is_capacity(message: &str) -> bool {
    let text = message.to_lowercase();
    text.contains("out of host capacity") || text.contains("out of capacity")
}

/// Oracle answers a clock that is off like a key that is wrong. Its own time is in the answer.
fn unauthenticated(headers: &HeaderMap, message: String) -> Error {
    let theirs = header(headers, DATE.as_str()).and_then(read_date);
    let off = theirs.map(|theirs| Timestamp::now().as_second() - theirs.as_second());
    match off {
        Some(off) if off.abs() > CLOCKS => Error::no_rights(format!(
            "the clock of this host is {} minutes {}: {message}",
            off.abs() / 60,
            if off > 0 { "ahead" } else { "behind" }
        ))
        .with_hint("Oracle takes no request that is more than five minutes off"),
        _ => Error::no_rights(message)
            .with_hint("`oci iam region list` with the same profile shows whether the credentials work"),
    }
}

fn read_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|zoned| zoned.timestamp())
}

pub fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(status: u16, code: &str, message: &str) -> Error {
        let mut headers = HeaderMap::new();
        headers.insert("opc-request-id", "R1".parse().unwrap());
        let body = serde_json::json!({ "code": code, "message": message }).to_string();
        fault(
            StatusCode::from_u16(status).unwrap(),
            &headers,
            body.as_bytes(),
            &Method::GET,
            "/20160918/instances/x?y",
        )
    }

    #[test]
    fn every_refusal_is_sorted_and_has_its_id() {
        let class = |status, code, message| sorted(status, code, message).class;
        assert_eq!(class(400, "LimitExceeded", "x"), Class::NoRoom);
        assert_eq!(class(400, "QuotaExceeded", "x"), Class::NoRoom);
        assert_eq!(class(500, "InternalError", "Out of host capacity."), Class::NoRoom);
        assert_eq!(class(500, "InternalError", "boom"), Class::Unanswered);
        assert_eq!(class(400, "InvalidParameter", "x"), Class::Refused);
        assert_eq!(class(401, "NotAuthenticated", "x"), Class::NoRights);
        assert_eq!(class(403, "NotAuthorized", "x"), Class::NoRights);
        assert_eq!(class(409, "IncorrectState", "x"), Class::Conflict);
        assert_eq!(class(412, "NoEtagMatch", "x"), Class::Conflict);
        assert_eq!(class(429, "TooManyRequests", "x"), Class::Busy { after: None });
        assert_eq!(class(501, "NotImplemented", "x"), Class::Refused);
        assert!(sorted(404, "NotAuthorizedOrNotFound", "x").is_not_found());
        assert!(is_spent(&sorted(409, "InvalidatedRetryToken", "x")));
        assert!(!is_spent(&sorted(409, "IncorrectState", "x")));
        assert_eq!(of_work("InternalError: Out of host capacity.".into()).class, Class::NoRoom);
        assert_eq!(of_work("InternalError: boom".into()).class, Class::Failed);
        let told = sorted(400, "InvalidParameter", "no such\n shape").to_string();
        assert_eq!(told, "the cloud rejects the request: no such shape (opc-request-id R1)");
    }

    #[test]
    fn a_clock_that_is_off_is_told() {
        let told = |offset: i64| {
            let theirs = Timestamp::from_second(Timestamp::now().as_second() + offset).unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(DATE, super::super::sign::http_date(theirs).parse().unwrap());
            fault(StatusCode::UNAUTHORIZED, &headers, b"", &Method::GET, "/").to_string()
        };
        assert!(told(1000).contains("the clock of this host is 16 minutes behind"), "{}", told(1000));
        assert!(told(-1000).contains("16 minutes ahead"), "{}", told(-1000));
        assert!(!told(10).contains("clock"), "{}", told(10));
    }

    #[test]
    fn missing_rights_and_missing_things_look_the_same() {
        let fault = |method: Method, target: &str| {
            fault(StatusCode::NOT_FOUND, &HeaderMap::new(), b"", &method, target)
        };
        for error in [fault(Method::POST, "/instances"), fault(Method::GET, "/vcns?compartmentId=c")] {
            assert_eq!(error.class, Class::NoRights);
            assert!(error.message.contains("does not exist, or these credentials may not"), "{error}");
        }
    }
}
