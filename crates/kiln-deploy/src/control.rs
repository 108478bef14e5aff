//! Queries kilnd's store on the control node, over SSH.

use kiln_ssh::{Forward, Host, Ssh};
use kiln_wire::Format;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;

/// The control node's `kiln`, as the user who owns the store, with the rights that kilnd's unit gives it.
const FLEET: [&str; 9] = [
    "setpriv",
    "--reuid=kilnd",
    "--regid=kilnd",
    "--clear-groups",
    "--inh-caps=+setuid,+setgid",
    "--ambient-caps=+setuid,+setgid",
    "kiln",
    "--json",
    "fleet",
];

pub struct Control {
    ssh: Ssh,
    host: Host,
}

impl Deployment<'_> {
    pub fn control(&self, observed: &Observed) -> Result<Control> {
        let host = self.hosts(observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        Ok(Control { ssh: self.ssh()?, host })
    }
}

impl Control {
    /// For work that is worth waiting for.
    #[must_use]
    pub fn patient(&self) -> Control {
        Control { ssh: self.ssh.clone().patient(), host: self.host.clone() }
    }

    /// `words`: a verb of `kiln fleet` and its arguments.
    pub async fn ask<T: Format>(&self, words: &[&str], stdin: &[u8]) -> Result<T> {
        let argv: Vec<&str> = FLEET.into_iter().chain(words.iter().copied()).collect();
        let output = self.ssh.output(&self.host, &argv, stdin).await?;
        if output.status != 0 {
            return Err(Error::Fleet(Refusal::read(&output.stderr).message));
        }
        T::from_json(output.stdout.as_bytes()).map_err(|error| Error::Fleet(error.to_string()))
    }
}

impl Control {
    /// A way to a port of the control node's loopback address.
    pub async fn forward(&self, port: Option<u16>, to: u16) -> Result<Forward> {
        Ok(self.ssh.forward(&self.host, port, to).await?)
    }
}

/// An error that a node's `kiln` reported as JSON.
pub(crate) struct Refusal {
    pub message: String,
    pub hint: Option<String>,
}

impl Refusal {
    pub fn read(stderr: &str) -> Refusal {
        let parsed: Option<serde_json::Value> =
            stderr.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let Some(error) = parsed else { return Refusal { message: stderr.to_string(), hint: None } };
        let causes = error["causes"].as_array().into_iter().flatten().filter_map(|c| c.as_str());
        let message = error["error"].as_str().into_iter().chain(causes).collect::<Vec<_>>().join(": ");
        Refusal { message, hint: error["hint"].as_str().map(String::from) }
    }
}

impl From<Refusal> for Error {
    fn from(Refusal { message, hint }: Refusal) -> Error {
        Error::Node { message, hint }
    }
}
