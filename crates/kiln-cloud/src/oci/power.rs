//! On, off, and on again; and what an instance has written to its console.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::Call;
use super::driver::{Driver, PACE, checked, missing};
use super::region::Service::Core;
use super::wire::State;
use crate::remote::until;
use crate::{Error, Instance, Labels, Result};
use kiln_wire::labels;

/// For an instance to be off, on, or gone. Oracle gives a system fifteen minutes to shut down.
pub(super) const POWER_LIMIT: Duration = Duration::from_secs(1200);
const CONSOLE_LIMIT: Duration = Duration::from_secs(120);
/// As much as Oracle keeps.
const CONSOLE: usize = 1024 * 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct History {
    id: String,
    lifecycle_state: String,
}

impl Driver {
    pub async fn reboot(&self, id: &str, hard: bool) -> Result<Instance> {
        self.own_instance(id).await?;
        self.act(id, if hard { "RESET" } else { "SOFTRESET" }).await?;
        self.instance(id).await
    }

    pub async fn stop(&self, id: &str, hard: bool) -> Result<Instance> {
        let action = if hard { "STOP" } else { "SOFTSTOP" };
        self.power(id, action, State::Stopped, State::Stopping).await
    }

    pub async fn start(&self, id: &str) -> Result<Instance> {
        self.power(id, "START", State::Running, State::Starting).await
    }

    /// Returns when it is so. Oracle does one thing at a time with an instance and refuses the next, so what goes on is
    /// waited for.
    async fn power(&self, id: &str, action: &str, wanted: State, on_the_way: State) -> Result<Instance> {
        let there = self.own_instance(id).await?;
        let name = there.display_name;
        let is_so = |state: State| state == wanted || state == on_the_way;
        if !is_so(there.lifecycle_state) {
            let call = action_call(id, action)?;
            let asked = self.while_busy(|| async {
                match self.client.send(&call).await {
                    // An earlier attempt whose answer was lost has done it.
                    Err(error)
                        if error.is_conflict() && is_so(self.own_instance(id).await?.lifecycle_state) =>
                    {
                        Ok(())
                    }
                    answer => answer.map(drop),
                }
            });
            missing(asked.await, "instance", id)?;
        }
        until(
            PACE,
            POWER_LIMIT,
            || format!("{name} is not {}", if wanted == State::Running { "running" } else { "off" }),
            || async {
                let now = self.own_instance(id).await?;
                Ok((now.lifecycle_state == wanted).then_some(()))
            },
        )
        .await?;
        self.instance(id).await
    }

    async fn act(&self, id: &str, action: &str) -> Result<()> {
        let call = action_call(id, action)?;
        missing(self.while_busy(|| self.client.send(&call)).await, "instance", id).map(drop)
    }

    /// Oracle makes a copy of it on demand, which is deleted again.
    pub async fn console_log(&self, id: &str, lines: usize) -> Result<String> {
        let labels = self.wire_instance(id).await?.freeform_tags;
        let own = labels.get_key_value(labels::CLUSTER);
        // Should it stay behind, the cluster's end finds it.
        let tags: Labels = own.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let body = json!({ "instanceId": id, "freeformTags": tags });
        let call = Call::post(Core, "/instanceConsoleHistories", &body).once_only();
        let history: History = missing(self.client.send(&call).await, "instance", id)?.read("the console")?;
        let path = format!("/instanceConsoleHistories/{}", history.id);
        let text = async {
            until(
                PACE,
                CONSOLE_LIMIT,
                || "the console's text is not there".into(),
                || async {
                    let now: History = self.client.get(Core, &path).await?;
                    match now.lifecycle_state.as_str() {
                        "SUCCEEDED" => Ok(Some(())),
                        "FAILED" => Err(Error::failed("the cloud could not read the console")),
                        _ => Ok(None),
                    }
                },
            )
            .await?;
            let data = format!("{path}/data?offset=0&length={CONSOLE}");
            let answer = self.client.send(&Call::get(Core, data)).await?;
            Ok::<_, Error>(String::from_utf8_lossy(&answer.body).into_owned())
        };
        let text = text.await;
        self.client.delete(Core, &path).await?;
        let text = text?;
        let all: Vec<&str> = text.lines().collect();
        Ok(all[all.len().saturating_sub(lines)..].join("\n"))
    }
}

fn action_call(id: &str, action: &str) -> Result<Call<'static>> {
    let path = format!("/instances/{}?action={action}", checked("instance", id)?);
    Ok(Call::act(Core, path).once_only())
}
