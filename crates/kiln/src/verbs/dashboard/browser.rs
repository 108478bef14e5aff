//! Opening a browser, where there is one to be seen.

use std::io::Write as _;
use std::process::Stdio;

use tempfile::NamedTempFile;
use tokio::process::Command;

/// A file that leads to the address: the address has a login in it, which must not stand on a command line. Readable by its owner
/// alone, and to be kept until the browser has read it.
pub fn open(address: &str) -> Option<NamedTempFile> {
    if !["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some()) {
        return None;
    }
    let mut file = tempfile::Builder::new().prefix("kiln-dashboard-").suffix(".html").tempfile().ok()?;
    file.write_all(page(address).as_bytes()).ok()?;
    Command::new("xdg-open")
        .arg(file.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        // Without it, the address that was printed is there to be opened.
        .ok()?;
    Some(file)
}

fn page(address: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Kiln</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={address}\"><a href=\"{address}\">Kiln's dashboard</a>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_leads_to_the_address() {
        let page = page("http://127.0.0.1:1/login#0a");
        assert!(page.contains("content=\"0;url=http://127.0.0.1:1/login#0a\""), "{page}");
    }
}
