//! Availability domains: which there are, and where a new instance can go. Fault domains are left to Oracle, which takes any
//! that has room when none is named.

use std::time::Duration;

use super::driver::Driver;
use super::region::Service;
use super::wire::Named;
use crate::remote::encode;
use crate::{Error, NewInstance, Result};

/// For how long a domain without room is tried last.
const FULL_FOR: Duration = Duration::from_secs(600);

impl Driver {
    /// The availability domain of that name or number; of the file's, or of the region's first.
    pub(super) async fn domain(&self, wanted: Option<&str>) -> Result<String> {
        let all = self.domains().await?;
        let wanted = wanted.or(self.settings.availability_domain.as_deref());
        let found = match wanted {
            None => all.first(),
            Some(wanted) => all.iter().find(|name| is_domain(name, wanted)),
        };
        found.cloned().ok_or_else(|| {
            Error::not_found("availability domain", wanted.unwrap_or("at all").to_string())
                .with_hint(format!("this region has: {}", all.join(", ")))
        })
    }

    pub(super) async fn domains(&self) -> Result<&Vec<String>> {
        let path = format!("/availabilityDomains?compartmentId={}", encode(&self.settings.compartment));
        let find = || async {
            let found: Vec<Named> = self.client.list(Service::Identity, &path).await?;
            Ok::<_, Error>(found.into_iter().map(|domain| domain.name).collect())
        };
        self.known.domains.get_or_try_init(find).await
    }

    /// Where a new instance can go, in the order in which to try: all domains, unless somebody has said which, or its volumes
    /// have. Those that had no room lately come last.
    pub(super) async fn domains_for(&self, new: &NewInstance) -> Result<Vec<String>> {
        let is_said = new.zone.is_some() || self.settings.availability_domain.is_some();
        if is_said || !new.volumes.is_empty() {
            return Ok(vec![self.domain(new.zone.as_deref()).await?]);
        }
        let (shape, _) = self.shape(&new.flavor).await?;
        let mut all = self.domains().await?.clone();
        let mut full = self.known.full.lock().await;
        full.retain(|_, since| since.elapsed() < FULL_FOR);
        all.sort_by_key(|domain| full.contains_key(&(domain.clone(), shape.clone())));
        Ok(all)
    }

    pub(super) async fn note_full(&self, domain: &str, shape: &str) {
        let full = &self.known.full;
        full.lock().await.insert((domain.to_string(), shape.to_string()), tokio::time::Instant::now());
    }
}

/// `Uocm:PHX-AD-1` is also `PHX-AD-1`, `AD-1`, `ad1` and `1`.
fn is_domain(name: &str, wanted: &str) -> bool {
    if short(name) == wanted.to_lowercase() {
        return true;
    }
    let (name, wanted) = (name.to_lowercase(), wanted.to_lowercase());
    let rest = name.strip_suffix(&wanted);
    name == wanted || rest.is_some_and(|rest| rest.ends_with(['-', ':']))
}

/// As it can be part of a node's name: `ad1`.
pub(super) fn short(name: &str) -> String {
    let number = name.rsplit_once("-AD-").map(|(_, number)| number);
    match number.filter(|number| number.bytes().all(|b| b.is_ascii_digit())) {
        Some(number) => format!("ad{number}"),
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_several_names() {
        for name in ["Uocm:PHX-AD-1", "uocm:phx-ad-1", "PHX-AD-1", "AD-1", "ad1", "1"] {
            assert!(is_domain("Uocm:PHX-AD-1", name), "{name}");
        }
        for other in ["2", "AD-2", "ad2", "ad11", "D-1", "", "Uocm"] {
            assert!(!is_domain("Uocm:PHX-AD-1", other), "{other}");
        }
    }
}
