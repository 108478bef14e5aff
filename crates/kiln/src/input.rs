//! Reading the cluster file.

use std::path::Path;

use anyhow::Context as _;

use crate::context::Context;
use crate::error::Advise;
use crate::exit::Exit;

/// The file's text. A file that cannot be read counts as wrong input.
pub fn read(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    let missing = text
        .as_ref()
        .is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    let text = text
        .with_context(|| format!("cannot read {}", file.display()))
        .exit(Exit::Usage);
    if missing {
        return text.hint("make one with `kiln init`, or name another with --file");
    }
    text
}

/// The validated cluster file.
pub fn spec(context: &Context) -> anyhow::Result<kiln_spec::Spec> {
    let text = read(&context.file)?;
    parse(&text, &context.file)
}

// Until kiln_spec::parse is there.
fn parse(_text: &str, _file: &Path) -> anyhow::Result<kiln_spec::Spec> {
    anyhow::bail!("kiln-spec cannot parse yet")
}

#[derive(Debug, serde::Serialize)]
pub struct Diagnostics {}

impl std::fmt::Display for Diagnostics {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

impl Diagnostics {
    pub fn render(&self, _colour: bool) -> String {
        String::new()
    }
}
