//! Package sources that want other credentials. Package managers only tell the number that a server answered.

use kiln_spec::SourceSpec;

/// A line for each source of which a package manager says that its server has refused.
pub(crate) fn refusals(sources: &[SourceSpec], said: &str) -> Vec<String> {
    let is_refused = |source: &&SourceSpec| {
        let about = said.lines().filter_map(|line| line.split_once(source.address.as_str()));
        // The number is behind the address, or before it.
        about.into_iter().any(|(before, behind)| [before, behind].into_iter().any(has_refusal))
    };
    let line = |source: &SourceSpec| match source.credentials {
        Some(_) => {
            format!("the server of source {0} refuses the user and password of [source.{0}]", source.name)
        }
        None => format!(
            "the server of source {0} wants user and password: `credentials` in [source.{0}] says where they are",
            source.name
        ),
    };
    sources.iter().filter(is_refused).map(line).collect()
}

/// 401, or 403 as a Pulp server answers.
fn has_refusal(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| matches!(word, "401" | "403"))
}

#[cfg(test)]
mod tests {
    use kiln_spec::Credentials;

    use super::*;

    fn source(name: &str, credentials: Option<Credentials>) -> SourceSpec {
        SourceSpec {
            name: name.into(),
            address: format!("http://{name}.example.org/content/a"),
            snapshot: None,
            pulp: None,
            suites: vec![],
            components: vec![],
            key: None,
            credentials,
            keep: false,
        }
    }

    #[test]
    fn servers_that_refuse_are_named() {
        let known = Some(Credentials::Environment("A".into()));
        let sources = [source("open", None), source("closed", None), source("site", known)];
        let apt = "Ign:1 http://open.example.org/content/a stable InRelease\n\
                   E: Failed to fetch http://closed.example.org/content/a/dists/stable/InRelease  403  Forbidden [IP: 192.0.2.1 80]\n";
        let wanted = [
            "the server of source closed wants user and password: `credentials` in [source.closed] says where they are",
        ];
        assert_eq!(refusals(&sources, apt), wanted);
        let dnf = "  - Status code: 401 for http://site.example.org/content/a/repodata/repomd.xml (IP: 192.0.2.1)\n";
        assert_eq!(
            refusals(&sources, dnf),
            ["the server of source site refuses the user and password of [source.site]"]
        );
        let missing =
            "E: Failed to fetch http://closed.example.org/content/a/dists/x/InRelease  404  Not Found\n";
        assert!(refusals(&sources, missing).is_empty());
    }
}
