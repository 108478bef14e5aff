//! What a repository on the server is filled from.

use kiln_distro::PackageFormat;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Result;
use crate::format::Plugin as _;
use crate::server::Server;
use crate::task::{Started, Watch};

/// A repository elsewhere, as a source of the cluster file names it.
pub struct Upstream<'a> {
    pub format: PackageFormat,
    pub url: &'a str,
    /// None: packages are at the address itself, as RPMs always are.
    pub suites: &'a [String],
    pub components: &'a [String],
    pub architecture: &'a str,
    /// The public key that it is signed with, armored. The server checks with it what it fetches.
    pub key: Option<&'a str>,
}

#[derive(Deserialize)]
pub(crate) struct Remote {
    pub pulp_href: String,
    pub url: String,
    pub policy: String,
    #[serde(default)]
    distributions: Option<String>,
    #[serde(default)]
    components: Option<String>,
    #[serde(default)]
    architectures: Option<String>,
    #[serde(default)]
    gpgkey: Option<String>,
    #[serde(default)]
    pulp_labels: serde_json::Map<String, Value>,
}

/// Marks what Kiln made and may change.
pub(crate) const LABEL: &str = "kiln";

impl Remote {
    /// Packages are fetched when somebody asks for them. Once they are gone upstream, a snapshot lacks them.
    pub fn does_not_pin(&self) -> bool {
        self.policy != "immediate"
    }

    fn is_kilns(&self) -> bool {
        self.pulp_labels.contains_key(LABEL)
    }

    fn is_as(&self, upstream: &Upstream<'_>) -> bool {
        let same =
            |is: Option<&str>, wanted: &Value| is.unwrap_or_default() == wanted.as_str().unwrap_or_default();
        let wanted = upstream.settings();
        same(Some(&self.url), &wanted["url"])
            && same(self.distributions.as_deref(), &wanted["distributions"])
            && same(self.components.as_deref(), &wanted["components"])
            && same(self.architectures.as_deref(), &wanted["architectures"])
            && same(self.gpgkey.as_deref().map(str::trim), &wanted["gpgkey"])
    }
}

impl Upstream<'_> {
    fn settings(&self) -> Value {
        let slash = if self.url.ends_with('/') { "" } else { "/" };
        let url = format!("{}{slash}", self.url);
        if self.format == PackageFormat::Rpm {
            return json!({"url": url});
        }
        // Pulp's way to say that there are no suites.
        let flat = ["/".to_string()];
        let suites = if self.suites.is_empty() { &flat } else { self.suites };
        let components = (!self.components.is_empty()).then(|| self.components.join(" "));
        json!({
            "url": url,
            "distributions": suites.join(" "),
            "components": components,
            "architectures": self.architecture,
            "gpgkey": self.key.map(str::trim),
        })
    }
}

impl Server {
    pub(crate) async fn remote(&self, href: &str) -> Result<Remote> {
        self.get("show a remote", href, &[]).await
    }

    /// Finds the one of this name, which an earlier run may have made, or makes it.
    pub(crate) async fn ensure_remote(
        &self,
        name: &str,
        upstream: &Upstream<'_>,
        watch: &Watch<'_>,
    ) -> Result<Remote> {
        let mut found: Vec<Remote> =
            self.all("list its remotes", upstream.format.remotes(), &[("name", name)]).await?;
        if let Some(remote) = found.pop() {
            return self.converge_remote(remote, upstream, watch).await;
        }
        let mut body = upstream.settings();
        body["name"] = name.into();
        body["policy"] = "immediate".into();
        body["pulp_labels"] = json!({ LABEL: "source" });
        self.post(&format!("make the remote {name}"), upstream.format.remotes(), &body).await
    }

    /// One that Kiln made follows the cluster file. One that somebody else made is left as it is.
    pub(crate) async fn converge_remote(
        &self,
        remote: Remote,
        upstream: &Upstream<'_>,
        watch: &Watch<'_>,
    ) -> Result<Remote> {
        if !remote.is_kilns() || remote.is_as(upstream) {
            return Ok(remote);
        }
        let what = "change a remote";
        let started: Started = self.patch(what, &remote.pulp_href, &upstream.settings()).await?;
        watch.wait(self, what, &started).await?;
        self.remote(&remote.pulp_href).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(policy: &str, components: &Value) -> Remote {
        serde_json::from_value(json!({
            "pulp_href": "/r", "url": "http://mirror.example.org/debian/", "policy": policy,
            "distributions": "bookworm bookworm-updates", "components": components,
            "architectures": "amd64", "gpgkey": null, "pulp_labels": {"kiln": "source"},
        }))
        .unwrap()
    }

    #[test]
    fn a_change_of_the_source_is_seen() {
        let suites = ["bookworm".to_string(), "bookworm-updates".to_string()];
        let main = ["main".to_string()];
        let upstream = |url, suites, components| Upstream {
            format: PackageFormat::Deb,
            url,
            suites,
            components,
            architecture: "amd64",
            key: None,
        };
        let is = remote("immediate", &json!("main"));
        assert!(is.is_as(&upstream("http://mirror.example.org/debian", &suites, &main)));
        assert!(!is.is_as(&upstream("http://mirror.example.org/other", &suites, &main)));
        assert!(!is.is_as(&upstream("http://mirror.example.org/debian", &suites[..1], &main)));
        assert!(remote("immediate", &json!(null)).is_as(&upstream(
            "http://mirror.example.org/debian/",
            &suites,
            &[]
        )));
        assert_eq!(upstream("http://mirror.example.org/flat", &[], &[]).settings()["distributions"], "/");
    }

    /// RPMs have neither suites nor a key of their list; the server has no such fields.
    #[test]
    fn rpms_have_an_address_only() {
        let key = Some("-----BEGIN");
        let format = PackageFormat::Rpm;
        let of = |url| Upstream { format, url, suites: &[], components: &[], architecture: "amd64", key };
        let upstream = of("http://mirror.example.org/el9");
        assert_eq!(upstream.settings(), json!({"url": "http://mirror.example.org/el9/"}));
        let is: Remote = serde_json::from_value(json!({
            "pulp_href": "/r", "url": "http://mirror.example.org/el9/", "policy": "immediate",
        }))
        .unwrap();
        assert!(is.is_as(&upstream) && !is.is_as(&of("http://mirror.example.org/el10")));
    }

    #[test]
    fn only_what_is_fetched_at_once_pins() {
        assert!(!remote("immediate", &json!(null)).does_not_pin());
        assert!(remote("on_demand", &json!(null)).does_not_pin());
        assert!(remote("streamed", &json!(null)).does_not_pin());
    }
}
