//! What kilnd reports about the fleet: its events, and all it knows about one node.

use jiff::Timestamp;
use kiln_spec::Role;
use kiln_wire::health::NodeDossier;
use kiln_wire::{Event, EventList};

use crate::deployment::Deployment;
use crate::error::{Error, Result};

impl Deployment<'_> {
    /// Oldest first, at most so many of the newest.
    pub async fn events(
        &self,
        node: Option<&str>,
        since: Option<Timestamp>,
        most: u32,
    ) -> Result<Vec<Event>> {
        if let Some(unknown) = node.filter(|name| self.spec.node(name).is_none()) {
            return Err(Error::UnknownNode(unknown.to_string()));
        }
        let control = self.control(&self.observe().await?)?;
        let (since, most) = (since.map(|since| format!("--since={since}")), format!("--most={most}"));
        let words: Vec<&str> = ["events", &most].into_iter().chain(since.as_deref()).chain(node).collect();
        Ok(control.ask::<EventList>(&words, b"").await?.events)
    }

    pub async fn dossier(&self, node: &str) -> Result<NodeDossier> {
        match self.spec.node(node) {
            None => Err(Error::UnknownNode(node.to_string())),
            Some(found) if found.role != Role::Compute => Err(Error::NoComputeNode(node.to_string())),
            Some(_) => self.control(&self.observe().await?)?.ask(&["dossier", node], b"").await,
        }
    }
}
