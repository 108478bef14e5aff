//! The metadata address. At boot the network may still be on its way up, so it is asked more than once.

use std::time::{Duration, Instant};

use super::{Documents, MetadataError};
use crate::http::{self, HttpError};

const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(super) fn read(url: &str, patience: Duration) -> Result<Documents, MetadataError> {
    let deadline = Instant::now() + patience;
    let meta_data = get_patiently(&format!("{url}/meta_data.json"), deadline)?;
    let user_data = get_patiently(&format!("{url}/user_data"), deadline)?;
    // Without the first document this is not an OpenStack-like cloud.
    Ok(Documents { meta_data: meta_data.ok_or(MetadataError::Malformed)?, user_data })
}

/// `None` when there is no such document.
fn get_patiently(url: &str, deadline: Instant) -> Result<Option<Vec<u8>>, MetadataError> {
    let mut pause = Duration::from_millis(100);
    loop {
        match http::get(url) {
            Ok(body) => return Ok(Some(body)),
            Err(HttpError::Status(404)) => return Ok(None),
            Err(source) if Instant::now() + pause >= deadline => {
                return Err(MetadataError::NoAnswer { url: url.to_owned(), source });
            }
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
