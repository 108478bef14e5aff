//! What is there, and what is going to happen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use axum::http::Method;
use ipnet::Ipv4Net;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::{Answer, Outcome, lacks, not_found, refuse};
use super::faults::{Fault, Kind};
use super::objects::{Object, Upload};
use super::route::Request;
use super::server::Exchange;
use super::verify::Keys;
use super::{COMPARTMENT, TENANCY};

pub type Event = Box<dyn FnOnce(&mut World) + Send>;

pub struct World {
    /// By kind, in the order of their creation.
    pub all: BTreeMap<&'static str, Vec<Resource>>,
    /// Objects by bucket and name.
    pub buckets: BTreeMap<String, BTreeMap<String, Object>>,
    /// Uploads in parts that are under way, by id.
    pub uploads: BTreeMap<String, Upload>,
    /// Shapes that imported images go with.
    pub fits: BTreeMap<String, BTreeSet<String>>,
    /// What was made with a token: kind, id, and the request.
    pub tokens: BTreeMap<String, (&'static str, String, Value)>,
    pub keys: Keys,
    pub faults: Vec<Fault>,
    pub exchanges: Vec<Exchange>,
    pub taken: usize,
    pub pace: Duration,
    /// How long every answer takes.
    pub distance: Duration,
    pub page: usize,
    /// Of every availability domain, by their names.
    pub limits: BTreeMap<String, u64>,
    pub full: BTreeSet<(String, String)>,
    pub quietly_full: BTreeSet<(String, String)>,
    pub lags: bool,
    pub no_identity: bool,
    pub no_file_storage: bool,
    /// Capacity reports are given.
    pub reports: bool,
    /// Compute clusters by instance, which does not show it.
    pub clustered: BTreeMap<String, String>,
    /// Instances that no listing has yet.
    pub unlisted: BTreeSet<String>,
    pub breaks: Option<(String, String)>,
    /// How often each instance was reset.
    pub resets: BTreeMap<String, u64>,
    /// Where instances boot: the one subnet that there can be. They are reached there from outside, too.
    pub place: Option<Ipv4Net>,
    agenda: Vec<(Instant, Event)>,
    serial: u64,
}

#[derive(Debug, Clone)]
pub struct Resource {
    pub value: Value,
    /// Changes with every change.
    pub etag: u64,
    /// There from the start.
    pub given: bool,
}

impl Resource {
    pub fn id(&self) -> &str {
        self.value["id"].as_str().unwrap_or_default()
    }

    pub fn state(&self) -> &str {
        self.value["lifecycleState"].as_str().unwrap_or_default()
    }

    pub fn show(&self) -> Answer {
        Answer::json(self.value.clone()).with("etag", self.etag.to_string())
    }

    pub fn is_there(&self) -> bool {
        !["TERMINATED", "DELETED", "DETACHED"].contains(&self.state())
    }
}

pub const DOMAINS: [&str; 3] = ["Fake:PHX-AD-1", "Fake:PHX-AD-2", "Fake:PHX-AD-3"];

impl World {
    pub fn new(images: &[&str]) -> World {
        let mut world = World {
            all: BTreeMap::new(),
            buckets: BTreeMap::new(),
            uploads: BTreeMap::new(),
            fits: BTreeMap::new(),
            tokens: BTreeMap::new(),
            keys: Keys::new(),
            faults: Vec::new(),
            exchanges: Vec::new(),
            taken: 0,
            pace: Duration::from_millis(50),
            distance: Duration::ZERO,
            page: 2,
            limits: super::limits::usual().into_iter().collect(),
            full: BTreeSet::new(),
            quietly_full: BTreeSet::new(),
            lags: false,
            no_identity: false,
            no_file_storage: false,
            reports: false,
            clustered: BTreeMap::new(),
            unlisted: BTreeSet::new(),
            breaks: None,
            resets: BTreeMap::new(),
            place: None,
            agenda: Vec::new(),
            serial: 0,
        };
        for name in DOMAINS {
            world.give("availabilityDomains", json!({ "name": name, "id": format!("ocid1.availabilitydomain.oc1..{}", &name[12..]), "compartmentId": TENANCY }));
        }
        for name in images {
            let id = world.ocid("image");
            world.give("images", json!({
                "id": id, "displayName": name, "compartmentId": COMPARTMENT, "createImageAllowed": true,
                "lifecycleState": "AVAILABLE", "operatingSystem": "Debian", "operatingSystemVersion": "12",
                "freeformTags": {}, "definedTags": {}, "sizeInMBs": 47_694, "timeCreated": now(),
                "launchMode": "PARAVIRTUALIZED",
            }));
        }
        for value in super::compute::shapes() {
            world.give("shapes", value);
        }
        world
    }

    fn give(&mut self, kind: &'static str, value: Value) {
        self.all.entry(kind).or_default().push(Resource { value, etag: 1, given: true });
    }

    pub fn ocid(&mut self, kind: &str) -> String {
        self.serial += 1;
        format!("ocid1.{kind}.oc1.phx.aaaa{:08x}{:016x}", self.serial, rand::random::<u64>())
    }

    /// A number that nothing else has.
    pub fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub fn advance(&mut self) {
        loop {
            let due = self.agenda.iter().enumerate().filter(|(_, (at, _))| *at <= Instant::now());
            let Some((index, _)) = due.min_by_key(|(_, (at, _))| *at) else { return };
            let (_, event) = self.agenda.remove(index);
            event(self);
        }
    }

    /// After so many times the pace.
    pub fn after(&mut self, steps: u32, event: impl FnOnce(&mut World) + Send + 'static) {
        self.agenda.push((Instant::now() + self.pace * steps, Box::new(event)));
    }

    /// Becomes so later, if it is still on the way there.
    pub fn later(
        &mut self,
        steps: u32,
        kind: &'static str,
        id: &str,
        from: &'static str,
        state: &'static str,
    ) {
        let id = id.to_string();
        self.after(steps, move |world| {
            if world.get(kind, &id).is_some_and(|resource| resource.state() == from) {
                world.set(kind, &id, "lifecycleState", json!(state));
            }
        });
    }

    pub fn fault(&mut self, method: &Method, target: &str) -> Option<Kind> {
        let line = format!("{method} {target}");
        let at = self.faults.iter().position(|fault| line.starts_with(&fault.to))?;
        Some(self.faults.remove(at).kind)
    }

    pub fn list(&self, kind: &str) -> &[Resource] {
        self.all.get(kind).map_or(&[], Vec::as_slice)
    }

    pub fn get(&self, kind: &str, id: &str) -> Option<&Resource> {
        self.list(kind).iter().find(|resource| resource.id() == id)
    }

    /// Of what can be used.
    pub fn need(&self, kind: &str, id: &str) -> Result<&Resource, Answer> {
        self.get(kind, id).filter(|resource| resource.is_there()).ok_or_else(not_found)
    }

    pub fn set(&mut self, kind: &str, id: &str, field: &str, value: Value) {
        let all = self.all.get_mut(kind).map(Vec::as_mut_slice).unwrap_or_default();
        if let Some(resource) = all.iter_mut().find(|resource| resource.id() == id) {
            resource.value[field] = value;
            resource.etag += 1;
        }
    }

    pub fn add(&mut self, kind: &'static str, value: Value) -> String {
        let id = value["id"].as_str().unwrap_or_default().to_string();
        self.all.entry(kind).or_default().push(Resource { value, etag: 1, given: false });
        id
    }

    /// Gone without a trace.
    pub fn drop(&mut self, kind: &str, id: &str) {
        if let Some(all) = self.all.get_mut(kind) {
            all.retain(|resource| resource.id() != id);
        }
    }

    /// What every resource has.
    pub fn common(&mut self, word: &str, request: &Value) -> Result<Value, Answer> {
        let compartment = request["compartmentId"].as_str().ok_or_else(|| lacks("compartmentId"))?;
        if compartment != COMPARTMENT {
            return Err(not_found());
        }
        check_tags(request)?;
        let id = self.ocid(word);
        let name =
            request["displayName"].as_str().map_or_else(|| format!("{word}{}", self.next()), String::from);
        Ok(json!({
            "id": id,
            "compartmentId": compartment,
            "displayName": name,
            "freeformTags": request.get("freeformTags").cloned().unwrap_or(json!({})),
            "definedTags": request.get("definedTags").cloned().unwrap_or(json!({})),
            "timeCreated": now(),
        }))
    }

    /// A second request with the same token is the first one. `None`: there was none.
    pub fn repeated(&self, request: &Request<'_>) -> Option<Outcome> {
        let (kind, id, body) = self.tokens.get(request.token.as_ref()?)?;
        if *body != request.body {
            return Some(Err(refuse(
                409,
                "InvalidatedRetryToken",
                "The retry token was used in an earlier request with other parameters.",
            )));
        }
        Some(match self.get(kind, id).filter(|resource| resource.is_there()) {
            Some(resource) => Ok(resource.show()),
            None => Err(refuse(
                409,
                "InvalidatedRetryToken",
                "The retry token was used in an earlier request, but a subsequent operation invalidated the token.",
            )),
        })
    }

    pub fn remember(&mut self, request: &Request<'_>, kind: &'static str, id: &str) {
        if let Some(token) = &request.token {
            self.tokens.insert(token.clone(), (kind, id.to_string(), request.body.clone()));
        }
    }

    /// A listing: what matches the query, a page of it.
    pub fn page(&self, kind: &str, request: &Request<'_>, filters: &[&str]) -> Outcome {
        if let Some(compartment) = request.query.get("compartmentId")
            && ![COMPARTMENT, TENANCY].contains(&compartment.as_str())
        {
            return Err(not_found());
        }
        let matches = |resource: &&Resource| {
            filters.iter().all(|name| {
                request
                    .query
                    .get(*name)
                    .is_none_or(|wanted| resource.value[*name].as_str() == Some(wanted.as_str()))
            })
        };
        let listed = self.list(kind).iter().filter(|r| !self.unlisted.contains(r.id()));
        let all: Vec<Value> = listed.filter(matches).map(|r| r.value.clone()).collect();
        // The only listing that takes no page.
        if kind == "availabilityDomains" {
            return Ok(Answer::json(json!(all)));
        }
        Ok(self.cut(&all, request))
    }

    pub fn cut(&self, all: &[Value], request: &Request<'_>) -> Answer {
        let number = |name: &str| request.query.get(name).and_then(|text| text.parse::<usize>().ok());
        let at = number("page").unwrap_or(0).min(all.len());
        let end = (at + number("limit").unwrap_or(usize::MAX).min(self.page)).min(all.len());
        let answer = Answer::json(json!(all[at..end]));
        if end < all.len() { answer.with("opc-next-page", end.to_string()) } else { answer }
    }

    pub fn left(&self) -> Vec<String> {
        let mut left: Vec<String> = Vec::new();
        for (kind, all) in &self.all {
            // Work requests are a history, and tags are all clusters'.
            if ["workRequests", "tagNamespaces", "tags"].contains(kind) {
                continue;
            }
            let there = all.iter().filter(|r| !r.given && r.is_there());
            left.extend(there.map(|r| {
                let name = r.value["displayName"].as_str().or(r.value["name"].as_str());
                format!("{kind} {}", name.unwrap_or(r.id()))
            }));
        }
        left.extend(self.buckets.keys().map(|name| format!("buckets {name}")));
        let objects = self.buckets.values().flat_map(BTreeMap::keys);
        left.extend(objects.map(|name| format!("objects {name}")));
        left.extend(self.uploads.values().map(|upload| format!("uploads {}", upload.object)));
        left
    }

    pub fn count(&self, name: &str) -> usize {
        self.domains_of(name).len()
    }

    pub fn compute_clusters_of(&self, name: &str) -> Vec<String> {
        let there = self.list("instances").iter().filter(|r| r.is_there() && r.value["displayName"] == name);
        let clusters = there.filter_map(|r| self.get("computeClusters", self.clustered.get(r.id())?));
        clusters.filter_map(|r| r.value["displayName"].as_str().map(String::from)).collect()
    }

    pub fn domains_of(&self, name: &str) -> Vec<String> {
        let there = self.list("instances").iter().filter(|r| r.is_there());
        let same = there.filter(|r| r.value["displayName"] == name);
        same.filter_map(|r| r.value["availabilityDomain"].as_str().map(String::from)).collect()
    }
}

/// As far as Oracle says how many and how long.
pub fn check_tags(request: &Value) -> Result<(), Answer> {
    let Some(tags) = request.get("freeformTags") else { return Ok(()) };
    let tags = tags.as_object().ok_or_else(|| super::answer::invalid("freeformTags"))?;
    let is_long = |value: &Value| value.as_str().is_none_or(|text| text.chars().count() > 256);
    if tags.len() > 10 || tags.iter().any(|(key, value)| key.len() > 100 || is_long(value)) {
        return Err(super::answer::invalid("freeformTags: more than Oracle takes"));
    }
    Ok(())
}

/// With milliseconds, as Oracle writes it.
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
