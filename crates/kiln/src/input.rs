//! Reading the cluster file.

use std::path::Path;

use anyhow::Context as _;
use kiln_spec::{Diagnostics, Spec};

use crate::context::Context;
use crate::error::Advise;
use crate::exit::Exit;

/// The validated cluster file. Warnings are shown.
pub fn spec(context: &Context) -> anyhow::Result<Spec> {
    let (spec, warnings) = check(&context.file)?.exit(Exit::Usage)?;
    context.printer.findings(&warnings);
    Ok(spec)
}

/// The outer result is whether the file could be read, the inner one whether it is right.
pub fn check(file: &Path) -> anyhow::Result<Result<(Spec, Diagnostics), Diagnostics>> {
    Ok(check_text(file, &read(file)?))
}

/// The same for a text that is not in the file yet.
pub fn check_text(file: &Path, text: &str) -> Result<(Spec, Diagnostics), Diagnostics> {
    let dir = file.parent().unwrap_or(Path::new(""));
    let files = |path: &str| std::fs::read(dir.join(path));
    kiln_spec::parse_with_files(text, &file.display().to_string(), &files)
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    let missing = text.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    let text = text.with_context(|| format!("cannot read {}", file.display())).exit(Exit::Usage);
    if missing {
        return text.hint("make one with `kiln init`, or name another with --file");
    }
    text
}
