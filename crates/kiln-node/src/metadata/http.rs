//! The metadata address. At boot the network may still be on its way up, so it is asked more than once.

use std::time::{Duration, Instant};

use ureq::Agent;

use super::{Documents, MetadataError};

const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const MAX_BYTES: u64 = 1024 * 1024;

pub(super) fn read(url: &str, patience: Duration) -> Result<Documents, MetadataError> {
    // No proxy: the address is on the link, and its answers are secret.
    let agent: Agent = Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(2)))
        .timeout_global(Some(Duration::from_secs(10)))
        .proxy(None)
        .max_redirects(0)
        .build()
        .into();
    let deadline = Instant::now() + patience;
    let meta_data = get_patiently(&agent, &format!("{url}/meta_data.json"), deadline)?;
    let user_data = get_patiently(&agent, &format!("{url}/user_data"), deadline)?;
    // Without the first document this is no OpenStack-like cloud at all.
    Ok(Documents { meta_data: meta_data.ok_or(MetadataError::Malformed)?, user_data })
}

/// `None` when there is no such document.
fn get_patiently(agent: &Agent, url: &str, deadline: Instant) -> Result<Option<Vec<u8>>, MetadataError> {
    let mut pause = Duration::from_millis(100);
    loop {
        match get(agent, url) {
            Ok(body) => return Ok(Some(body)),
            Err(ureq::Error::StatusCode(404)) => return Ok(None),
            Err(error) if Instant::now() + pause >= deadline => {
                return Err(MetadataError::NoAnswer { url: url.to_owned(), source: Box::new(error) });
            }
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn get(agent: &Agent, url: &str) -> Result<Vec<u8>, ureq::Error> {
    agent.get(url).call()?.body_mut().with_config().limit(MAX_BYTES).read_to_vec()
}
