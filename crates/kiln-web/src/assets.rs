//! The dashboard's files, inside the binary.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};

#[derive(Debug)]
pub struct Asset {
    pub path: &'static str,
    kind: &'static str,
    content: &'static str,
    /// Needed to log in.
    pub is_public: bool,
}

impl Asset {
    pub fn answer(&self) -> Response {
        ([(header::CONTENT_TYPE, self.kind)], self.content).into_response()
    }
}

macro_rules! assets {
    ($($path:literal, $file:literal, $kind:ident, $public:literal;)*) => {
        &[$(Asset {
            path: $path,
            kind: $kind,
            content: include_str!(concat!("../assets/", $file)),
            is_public: $public,
        }),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

pub const ALL: &[Asset] = assets! {
    "/", "index.html", HTML, false;
    "/login", "login.html", HTML, true;
    "/assets/style.css", "style.css", CSS, true;
    "/assets/login.js", "login.js", JS, true;
    "/assets/icon.svg", "icon.svg", SVG, true;
    "/assets/app.js", "app.js", JS, false;
    "/assets/dom.js", "dom.js", JS, false;
    "/assets/live.js", "live.js", JS, false;
    "/assets/words.js", "words.js", JS, false;
    "/assets/filters.js", "filters.js", JS, false;
    "/assets/grid.js", "grid.js", JS, false;
    "/assets/table.js", "table.js", JS, false;
    "/assets/overview.js", "overview.js", JS, false;
    "/assets/nodes.js", "nodes.js", JS, false;
    "/assets/jobs.js", "jobs.js", JS, false;
    "/assets/history.js", "history.js", JS, false;
    "/assets/shares.js", "shares.js", JS, false;
    "/assets/limits.js", "limits.js", JS, false;
    "/assets/rollouts.js", "rollouts.js", JS, false;
    "/assets/images.js", "images.js", JS, false;
    "/assets/packages.js", "packages.js", JS, false;
    "/assets/rollout_packages.js", "rollout_packages.js", JS, false;
    "/assets/chart.js", "chart.js", JS, false;
    "/assets/usage.js", "usage.js", JS, false;
    "/assets/health.js", "health.js", JS, false;
    "/assets/elastic.js", "elastic.js", JS, false;
    "/assets/events.js", "events.js", JS, false;
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy of every answer forbids them, so they would do nothing.
    #[test]
    fn no_page_has_a_script_or_a_style_of_its_own() {
        for page in ALL.iter().filter(|asset| asset.kind == HTML) {
            for tag in page.content.split("<script").skip(1) {
                assert!(tag.contains("src=") && tag.contains("></script>"), "{}", page.path);
            }
            for sign in ["<style", " style=", " onclick=", "javascript:"] {
                assert!(!page.content.contains(sign), "{}: {sign}", page.path);
            }
        }
    }

    #[test]
    fn what_a_file_names_is_there() {
        for asset in ALL {
            let names = asset.content.split(['"', '\'']).filter(|word| word.starts_with("/assets/"));
            let modules = asset
                .content
                .split(['"', '\''])
                .filter(|word| word.starts_with("./") && word.strip_suffix(".js").is_some());
            let modules = modules.map(|word| word.replacen("./", "/assets/", 1));
            for name in names.map(String::from).chain(modules) {
                assert!(ALL.iter().any(|other| other.path == name), "{}: {name}", asset.path);
            }
        }
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        for asset in ALL {
            let foreign = asset.content.replace("http://www.w3.org/2000/svg", "");
            assert!(!foreign.contains("http://") && !foreign.contains("https://"), "{}", asset.path);
        }
    }
}
