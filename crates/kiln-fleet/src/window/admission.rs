//! What root on control gives to those who may look.

use std::time::Duration;

use kiln_web::auth::{self, Key, KeyKind, LOGIN_LIFE};
use kiln_wire::dashboard::{Admission, PORT, Role, TokenReport, check_name};
use kiln_wire::{FleetMonitoring, Version};

use crate::error::{Error, Result};
use crate::store::Store;

/// The longest that a token may be good for.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A word that is good for one login, soon.
pub fn login(store: &Store, name: &str, role: Role) -> Result<Admission> {
    admit(store, &Key::new(KeyKind::Login, checked(name)?, role, LOGIN_LIFE))
}

pub fn add_token(store: &Store, name: &str, role: Role, life: Duration) -> Result<Admission> {
    if life.is_zero() || life > LONGEST {
        return Err(Error::Refused("a token is good for a year at most".into()));
    }
    let admission = admit(store, &Key::new(KeyKind::Token, checked(name)?, role, life))?;
    store.log("", "dashboard", &format!("as {role}"), &format!("{name} was given a token"))?;
    Ok(admission)
}

/// By name.
pub fn tokens(store: &Store) -> Result<Vec<TokenReport>> {
    let report = |key: Key| TokenReport {
        format: Version,
        name: key.name,
        role: key.role,
        created: key.created,
        expires: key.expires,
    };
    Ok(store.tokens()?.into_iter().map(report).collect())
}

/// Sessions that were begun with it end, too.
pub fn remove_token(store: &Store, name: &str) -> Result<()> {
    if !store.remove_token(name)? {
        return Err(Error::Refused(format!("there is no token named {name}")));
    }
    store.log("", "dashboard", "asked by an administrator", &format!("the token of {name} was removed"))
}

/// The cluster's own Prometheus, whose token is a secret of the cluster.
pub(super) fn prometheus(monitoring: &FleetMonitoring, kind: KeyKind, hash: &str) -> Option<Key> {
    let is_it = kind == KeyKind::Token && auth::hash(monitoring.token.expose_secret()) == hash;
    is_it.then(|| Key::new(KeyKind::Token, "prometheus", Role::Viewer, LOGIN_LIFE))
}

fn checked(name: &str) -> Result<&str> {
    check_name(name).map(|()| name).map_err(Error::Refused)
}

fn admit(store: &Store, key: &Key) -> Result<Admission> {
    let secret = auth::mint();
    store.add_key(&auth::hash(secret.expose_secret()), key)?;
    Ok(Admission { format: Version, secret, port: PORT, expires: key.expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashes_are_kept_and_events_tell_who_was_let_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        let store = Store::open(&path).unwrap();
        let day = Duration::from_secs(86_400);
        let token = add_token(&store, "scraper", Role::Viewer, day).unwrap();
        let word = login(&store, "ann", Role::Operator).unwrap();
        for secret in [&token.secret, &word.secret] {
            for file in ["store.db", "store.db-wal"] {
                let bytes = std::fs::read(dir.path().join(file)).unwrap();
                let secret = secret.expose_secret().as_bytes();
                assert!(!bytes.windows(secret.len()).any(|part| part == secret), "{file}");
            }
        }
        assert_eq!(tokens(&store).unwrap()[0].name, "scraper");
        remove_token(&store, "scraper").unwrap();
        assert!(remove_token(&store, "scraper").is_err());
        let events = store.events(None, 10).unwrap();
        let outcomes: Vec<&str> = events.iter().map(|event| event.outcome.as_str()).collect();
        assert_eq!(outcomes, ["scraper was given a token", "the token of scraper was removed"]);
    }

    #[test]
    fn the_clusters_own_prometheus_may_look_and_no_more() {
        let monitoring = FleetMonitoring {
            token: "t0ken".into(),
            prices: std::collections::BTreeMap::new(),
            certificates: std::collections::BTreeMap::new(),
        };
        let key = |kind, token: &str| prometheus(&monitoring, kind, &auth::hash(token));
        assert_eq!(key(KeyKind::Token, "t0ken").map(|key| key.role), Some(Role::Viewer));
        assert_eq!(key(KeyKind::Token, "other"), None);
        assert_eq!(key(KeyKind::Session, "t0ken"), None);
    }

    #[test]
    fn wrong_names_and_times_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store.db")).unwrap();
        assert!(login(&store, "a b", Role::Viewer).is_err());
        for life in [Duration::ZERO, LONGEST * 2] {
            assert!(add_token(&store, "a", Role::Viewer, life).is_err());
        }
        assert_eq!(tokens(&store).unwrap(), []);
    }
}
