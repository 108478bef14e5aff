//! Instances on their way out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::client::Call;
use super::driver::{Driver, PACE, checked, cluster_of, not_ours};
use super::power::POWER_LIMIT;
use super::region::Service::Core;
use super::wire::{State, WireInstance};
use crate::remote::{Pace, bounded};
use crate::{Error, Result};

impl Driver {
    pub async fn delete(&self, id: &str) -> Result<()> {
        self.delete_all(&[id.to_string()], &|_| {}).await.into_iter().collect()
    }

    /// Asked for all together, then watched in listings; `gone` hears of each.
    pub async fn delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Vec<Result<()>> {
        match self.try_delete_all(ids, gone).await {
            Ok(results) => results,
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn try_delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Result<Vec<Result<()>>> {
        let there = self.states().await?;
        let asked = bounded(ids.to_vec(), |id: String| {
            let there = there.get(&id);
            async move {
                match there {
                    None | Some((State::Terminated | State::Terminating, _)) => Ok(()),
                    Some((_, false)) => Err(not_ours("instance", &id)),
                    Some(_) => self.terminate(&id).await,
                }
            }
        })
        .await;
        let mut waiting: Vec<&String> =
            ids.iter().zip(&asked).filter(|(_, asked)| asked.is_ok()).map(|(id, _)| id).collect();
        let deadline = tokio::time::Instant::now() + POWER_LIMIT;
        let mut pace = Pace { first: Duration::from_millis(500), ..PACE };
        loop {
            let now = self.states().await?;
            let is_gone = |id: &String| now.get(id).is_none_or(|(state, _)| *state == State::Terminated);
            let (over, still): (Vec<&String>, Vec<&String>) = waiting.into_iter().partition(|id| is_gone(id));
            let mut launched = self.known.launched.lock().await;
            for id in over {
                launched.remove(id);
                gone(id);
            }
            drop(launched);
            waiting = still;
            if waiting.is_empty() {
                return Ok(asked);
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(Error::failed(format!("{} instances are not gone in time", waiting.len())));
            }
            pace.step().await;
        }
    }

    /// Its boot volume goes with it, the cluster's volumes stay.
    async fn terminate(&self, id: &str) -> Result<()> {
        let path = format!(
            "/instances/{}?preserveBootVolume=false&preserveDataVolumesCreatedAtLaunch=true",
            checked("instance", id)?
        );
        let call = Call::delete(Core, &path);
        match self.while_busy(|| self.client.send(&call)).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Of all instances of the compartment, and whether they are Kiln's.
    async fn states(&self) -> Result<BTreeMap<String, (State, bool)>> {
        let all: Vec<WireInstance> = self.client.list(Core, &self.in_compartment("instances")).await?;
        let one = |i: WireInstance| (i.id, (i.lifecycle_state, cluster_of(&i.freeform_tags).is_some()));
        Ok(all.into_iter().map(one).collect())
    }
}
