//! Asks nodes whether their services work: several nodes side by side, one connection each, with a limit for each.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_distro::Family;
use kiln_site::services;
use kiln_spec::Node;
use kiln_ssh::{Host, Ssh};
use kiln_wire::Format as _;
use kiln_wire::checkup::{Checkup, CheckupReport};

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::bounded;
use crate::observe::Observed;

/// Longer than a node takes for its slowest question.
const LIMIT: Duration = Duration::from_secs(30);

/// What a node answered.
#[derive(Debug, Clone)]
pub struct Examined {
    pub report: CheckupReport,
    /// How far the node's clock is ahead of this host's, as far as can be told; zero where it may well be right.
    pub clock_ahead: SignedDuration,
}

/// By the node's name: what it answered, or why it did not.
pub type Examinations = BTreeMap<String, std::result::Result<Examined, String>>;

impl Deployment<'_> {
    /// The questions for a node of this role and image.
    pub(crate) fn checkup_of(&self, node: &Node<'_>) -> Checkup {
        services::checkup(self.spec, node.role, Family::of_image(self.spec, node.image))
    }

    /// Nodes without an instance are left out.
    pub(crate) async fn examine(&self, observed: &Observed, asked: Vec<(&str, Checkup)>) -> Examinations {
        let ssh = match self.ssh() {
            Ok(ssh) => ssh,
            Err(error) => return all_failed(asked, &error),
        };
        let with_host = asked.into_iter().filter_map(|(name, checkup)| {
            let host = self.hosts(observed, std::iter::once(name)).ok()?.pop()?;
            Some((host, checkup))
        });
        let ask_one = |(host, checkup): (Host, Checkup)| {
            let ssh = &ssh;
            async move {
                let answer = tokio::time::timeout(LIMIT, ask(ssh, &host, &checkup)).await;
                let answer = answer.map_or_else(
                    |_| Err(format!("no answer within {} s", LIMIT.as_secs())),
                    |answer| answer.map_err(|error| error.chain()),
                );
                (host.name, answer)
            }
        };
        bounded(with_host.collect(), self.spec.concurrency, ask_one).await.into_iter().collect()
    }
}

fn all_failed(asked: Vec<(&str, Checkup)>, error: &Error) -> Examinations {
    asked.into_iter().map(|(name, _)| (name.to_string(), Err(error.chain()))).collect()
}

async fn ask(ssh: &Ssh, host: &Host, checkup: &Checkup) -> Result<Examined> {
    let json = checkup.to_json().map_err(|e| Error::NotReady(e.to_string()))?;
    let sent = Timestamp::now();
    let output = ssh.output(host, &["kiln", "--json", "node", "checkup"], &json).await?;
    let received = Timestamp::now();
    let report = CheckupReport::from_json(output.stdout.as_bytes()).map_err(|_| {
        let said = output.stderr.lines().next().unwrap_or_default();
        Error::NotReady(format!("`kiln node checkup` ended with {}: {said}", output.status))
    })?;
    Ok(Examined { clock_ahead: clock_ahead(sent, report.time, received), report })
}

/// The answer was given somewhere between question and receipt.
fn clock_ahead(sent: Timestamp, answered: Timestamp, received: Timestamp) -> SignedDuration {
    if answered < sent {
        answered.duration_since(sent)
    } else if answered > received {
        answered.duration_since(received)
    } else {
        SignedDuration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_only_outside_of_the_time_the_answer_took() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(clock_ahead(at(10), at(15), at(20)).as_secs(), 0);
        assert_eq!(clock_ahead(at(10), at(7), at(20)).as_secs(), -3);
        assert_eq!(clock_ahead(at(10), at(24), at(20)).as_secs(), 4);
    }
}
