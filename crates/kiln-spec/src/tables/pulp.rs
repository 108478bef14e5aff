//! `[pulp]`: a server that has snapshots of package repositories.

use super::source;
use crate::PulpSpec;
use crate::diagnostic::Findings;
use crate::written::Text;
use crate::written::table::table;

table! {
    /// A Pulp server, which has snapshots of package repositories.
    PulpTable {
        /// URL of the server without a path, such as `https://pulp.example.org`.
        "address" => address: Text, required;
        /// URL of the packages that it serves, where that is elsewhere.
        "content" => content: Text, otherwise "`/pulp/content/` at the address";
        /// Where user and password are, as `USER:PASSWORD`: `env:NAME` is an environment variable, `file:PATH` a file relative to the cluster file. Only `kiln image sync` uses them.
        "credentials" => credentials: Text, otherwise "none: the server is only read, and has its snapshots from others";
    }
}

pub(crate) fn validate(written: Option<&PulpTable>, findings: &mut Findings<'_>) -> Option<PulpSpec> {
    let written = written?;
    let credentials = (written.credentials.as_ref()).and_then(|text| source::credentials(text, findings));
    if let Some(content) = &written.content {
        source::check_url(content, source::Place::Pulp, findings);
    }
    let address = written.address.as_ref()?;
    source::check_url(address, source::Place::Pulp, findings);
    let address = address.value.trim_end_matches('/').to_string();
    let content = match &written.content {
        Some(content) => content.value.trim_end_matches('/').to_string(),
        None => format!("{address}/pulp/content"),
    };
    Some(PulpSpec { address, content, credentials })
}
