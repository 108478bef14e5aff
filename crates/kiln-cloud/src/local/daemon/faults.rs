//! Faults on demand, for tests: `faults.json` in the root names operations that are to fail and how often.
//!
//! `{"create": {"fail": 2, "status": 429, "retry_after": 1}}` lets the next two creations be throttled.
//! Operations are named after the API's verbs; `build` fails the making of an instance after its creation
//! was accepted, which leaves it in the error state; `zone NAME` fails creations in that zone. `boot` fails nothing: the instance is on, but its system
//! hangs. `create NAME`, `build NAME` and `boot NAME` are about the instance of that name alone. `hide NAME` fails nothing either: lists leave the
//! instance out. Nor does `slow VERB`: the answer takes five seconds longer. A method and path, as in `POST /v1/networks`, lets the
//! operation succeed and only its answer get lost; with `cut ` before them the connection ends in the middle of the answer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Daemon, lock, store};
use crate::{Error, Result};

#[derive(Debug, Serialize, Deserialize)]
struct Fault {
    fail: u32,
    #[serde(default = "server_error")]
    status: u16,
    #[serde(default)]
    retry_after: Option<u64>,
    #[serde(default)]
    message: Option<String>,
}

/// How much longer a slow answer takes.
pub const SLOW: Duration = Duration::from_secs(5);

fn server_error() -> u16 {
    500
}

impl Fault {
    fn error(&self) -> Error {
        let message = self.message.clone().unwrap_or_else(|| "injected fault".into());
        match self.status {
            429 => Error::busy(self.retry_after.map(Duration::from_secs)),
            401 => Error::no_rights(message),
            403 => Error::no_room(message),
            409 => Error::conflict(message),
            400 => Error::refused(message),
            500 => Error::failed(message),
            _ => Error::unanswered(message),
        }
    }
}

impl Daemon {
    /// Fails if the operation is to fail now.
    pub fn fault(&self, operation: &str) -> Result<()> {
        let _one_at_a_time = lock(&self.faults);
        let path = self.root.join("faults.json");
        if !path.exists() {
            return Ok(());
        }
        // Whoever orders faults holds it, too: what is written here is not to bring back what was called off.
        let gate = std::fs::File::create(self.root.join("faults.lock"));
        let _held = gate.and_then(|gate| gate.lock().map(|()| gate));
        let Ok(text) = std::fs::read(&path) else {
            return Ok(());
        };
        let mut faults: BTreeMap<String, Fault> = match serde_json::from_slice(&text) {
            Ok(faults) => faults,
            Err(error) => {
                tracing::warn!(%error, "faults.json");
                return Ok(());
            }
        };
        let Some(fault) = faults.get_mut(operation).filter(|fault| fault.fail > 0) else {
            return Ok(());
        };
        fault.fail -= 1;
        let error = fault.error();
        store::write_json(&path, &faults)?;
        Err(error)
    }
}
