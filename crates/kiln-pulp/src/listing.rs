//! Servers that can only be read: the newest snapshot is the last that the page of a path lists.

use crate::server::Server;
use crate::{Error, Result};

impl Server {
    /// The newest snapshot of a path, as the server's pages list them.
    pub async fn latest_listed(&self, path: &str) -> Result<String> {
        let url = format!("{}/{path}/", self.content());
        let page = self.page(&url).await?;
        page.as_deref().and_then(last_entry).ok_or(Error::NoSnapshots { url })
    }
}

/// The last folder that a page links to. Snapshots are named by time, and listed in order.
fn last_entry(page: &str) -> Option<String> {
    let links = page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest[1..].split(quote).next()
    });
    let is_plain = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    let folders = links.filter_map(|link| link.strip_prefix("./").unwrap_or(link).strip_suffix('/'));
    folders.filter(is_plain).last().map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_link_counts() {
        let page = r#"<html><pre><a href="../">../</a><br>
            <a href="20260816T220309/">20260816T220309/</a> <a href='20261001T000000/'>20261001T000000/</a>
            </pre></html>"#;
        assert_eq!(last_entry(page).as_deref(), Some("20261001T000000"));
        assert_eq!(last_entry(r#"<a href="../">../</a><a href="./v7/">v7/</a>"#).as_deref(), Some("v7"));
        assert_eq!(last_entry(r#"<a href="../">../</a>"#), None);
        assert_eq!(last_entry(r#"<a href="a/b/">x</a><a href="?sort/">x</a><a href="file">f</a>"#), None);
        assert_eq!(last_entry("<a href=>"), None);
        assert_eq!(last_entry("no page"), None);
    }
}
