//! Who asks, and what they may touch.

use super::Daemon;
use super::records::Labelled;
use super::store::Record;
use crate::local::names;
use crate::{Error, Labels, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Root of this host: everything.
    Root,
    /// Has a cluster's token: what is labelled with that cluster.
    Cluster(String),
}

impl Daemon {
    /// Who comes over a network is known by a token, which is good for one cluster.
    pub fn caller(&self, token: &str) -> Result<Caller> {
        // Comparing digests: the time it takes says nothing about the token.
        let digest = names::sha256_hex(token.as_bytes());
        self.world()
            .grants
            .iter()
            .find(|grant| grant.token_sha256 == digest)
            .map(|grant| Caller::Cluster(grant.cluster.clone()))
            .ok_or_else(|| Error::no_rights("unknown token"))
    }
}

impl Caller {
    pub fn may_see(&self, thing: &impl Labelled) -> bool {
        match self {
            Caller::Root => true,
            Caller::Cluster(own) => thing.cluster() == Some(own),
        }
    }

    /// What belongs to others does not exist for this caller.
    pub fn check<'a, T: Record + Labelled>(&self, thing: &'a T) -> Result<&'a T> {
        if self.may_see(thing) { Ok(thing) } else { Err(Error::not_found(T::KIND, thing.id().to_string())) }
    }

    pub fn check_root(&self) -> Result<()> {
        match self {
            Caller::Root => Ok(()),
            Caller::Cluster(own) => Err(Error::no_rights(format!("the token is for cluster {own} only"))),
        }
    }

    /// A cluster's token cannot make, or turn something into, another cluster's.
    pub fn check_labels(&self, labels: &Labels) -> Result<()> {
        if self.may_see(labels) { Ok(()) } else { self.check_root() }
    }
}
