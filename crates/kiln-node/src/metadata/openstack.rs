//! OpenStack's metadata address, and the documents that it has in common with the config drive.
//!
//! At boot the network may still be on its way up, so the address is asked more than once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kiln_wire::identity::UserData;
use serde::Deserialize;

use super::{Metadata, MetadataError, Origin, Sources};
use crate::http::{self, HttpError};

const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The two documents, as they came.
pub(super) struct Documents {
    pub meta_data: Vec<u8>,
    pub user_data: Option<Vec<u8>>,
}

pub(super) fn read(sources: &Sources) -> Result<Option<Metadata>, MetadataError> {
    let url = &sources.url;
    let deadline = Instant::now() + sources.patience;
    let meta_data = get_patiently(&format!("{url}/meta_data.json"), &[], deadline)?;
    let user_data = get_patiently(&format!("{url}/user_data"), &[], deadline)?;
    // Without the first document this is no OpenStack-like cloud at all.
    let documents = Documents { meta_data: meta_data.ok_or(MetadataError::Malformed)?, user_data };
    parse(&documents, Origin::Address).map(Some)
}

/// `None` when there is no such document.
pub(super) fn get_patiently(
    url: &str,
    headers: &[&str],
    deadline: Instant,
) -> Result<Option<Vec<u8>>, MetadataError> {
    let mut pause = Duration::from_millis(100);
    loop {
        match http::get(url, headers) {
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

#[derive(Deserialize)]
struct MetaData {
    uuid: String,
    name: String,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    public_keys: Option<BTreeMap<String, String>>,
}

pub(super) fn parse(documents: &Documents, origin: Origin) -> Result<Metadata, MetadataError> {
    let data: MetaData =
        serde_json::from_slice(&documents.meta_data).map_err(|_| MetadataError::Malformed)?;
    let user_data = documents.user_data.as_deref().unwrap_or_default();
    let keys = data.public_keys.unwrap_or_default().into_values();
    Ok(Metadata {
        hostname: data.hostname.unwrap_or_else(|| data.name.clone()),
        uuid: data.uuid,
        name: data.name,
        public_keys: keys.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).collect(),
        identity: UserData::from_text(user_data)?.map(|data| data.kiln),
        origin,
    })
}
