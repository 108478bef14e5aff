//! Who asks: what a request's headers say about it.

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};

use super::{Key, KeyKind, SESSION_LIFE, hash};
use crate::cluster::{Cluster, Problem};
use crate::door::Door;

/// Somebody with a valid key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub key: Key,
    /// Of the key.
    pub hash: String,
    /// Of a browser's session: it has to prove that the page is ours before it changes anything.
    pub csrf: Option<String>,
}

impl Caller {
    /// `None`: nobody.
    pub fn of(cluster: &impl Cluster, door: &Door, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Some(token) = bearer.and_then(|value| value.strip_prefix("Bearer ")) {
            let hash = hash(token.trim());
            let key = cluster.key(KeyKind::Token, &hash)?;
            return Ok(key.map(|key| Caller { key, hash, csrf: None }));
        }
        let Some(secret) = session_secret(&cluster.name(), door, headers) else { return Ok(None) };
        let hash = hash(secret);
        let key = cluster.key(KeyKind::Session, &hash)?;
        Ok(key.map(|key| Caller { key, hash, csrf: Some(super::csrf(secret)) }))
    }

    /// Whether the key is still good, for what lasts longer than a request.
    pub fn is_still_in(&self, cluster: &impl Cluster) -> bool {
        matches!(cluster.key(self.key.kind, &self.hash), Ok(Some(_)))
    }
}

/// Cookies do not know ports: two clusters that are looked at through two forwards must not take each other's. Over TLS the name
/// has a prefix with which browsers take it from this very host alone.
pub fn cookie_name(cluster: &str, door: &Door) -> String {
    let prefix = if door.is_secure() { "__Host-" } else { "" };
    format!("{prefix}kiln-{cluster}")
}

pub fn session_secret<'h>(cluster: &str, door: &Door, headers: &'h HeaderMap) -> Option<&'h str> {
    cookie(&cookie_name(cluster, door), headers)
}

pub fn cookie<'h>(name: &str, headers: &'h HeaderMap) -> Option<&'h str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Not for scripts, not sent along from other sites, and over TLS never without.
pub fn session_cookie(cluster: &str, door: &Door, secret: &str) -> String {
    let (name, age) = (cookie_name(cluster, door), SESSION_LIFE.as_secs());
    format!("{name}={secret}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{}", secure(door))
}

pub fn end_cookie(cluster: &str, door: &Door) -> String {
    format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{}", cookie_name(cluster, door), secure(door))
}

fn secure(door: &Door) -> &'static str {
    if door.is_secure() { "; Secure" } else { "" }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::door::Outside;

    fn inside() -> Door {
        Door::of(&axum::http::Extensions::new())
    }

    #[test]
    fn a_clusters_own_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; kiln-other=x".parse().unwrap());
        assert_eq!(session_secret("demo", &inside(), &headers), None);
        headers.append(COOKIE, "kiln-demo=s3cret; b=2".parse().unwrap());
        assert_eq!(session_secret("demo", &inside(), &headers), Some("s3cret"));
    }

    #[test]
    fn a_session_is_no_scripts_and_no_other_sites_business() {
        let cookie = session_cookie("demo", &inside(), "x");
        assert!(cookie.starts_with("kiln-demo=x; Path=/;"), "{cookie}");
        assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    }

    #[test]
    fn over_tls_a_session_stays_there() {
        let outside = Arc::new(Outside::new(&crate::lab::settings(6831)).unwrap());
        let door = Door { outside: Some(outside), ..inside() };
        let (begun, ended) = (session_cookie("demo", &door, "x"), end_cookie("demo", &door));
        assert!(begun.starts_with("__Host-kiln-demo=x; Path=/;") && begun.ends_with("; Secure"), "{begun}");
        assert!(ended.starts_with("__Host-kiln-demo=; Path=/;") && ended.ends_with("; Secure"), "{ended}");
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "kiln-demo=from-elsewhere".parse().unwrap());
        assert_eq!(session_secret("demo", &door, &headers), None);
    }
}
