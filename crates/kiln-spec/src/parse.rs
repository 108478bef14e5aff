//! `cluster.toml` to [`Spec`], in three stages: as written, merged with defaults, validated.

use crate::diagnostic::{Diagnostics, Findings};
use crate::merge::merge;
use crate::tables::File;
use crate::validate::validate;
use crate::written::{Reader, Source, Written as _};
use crate::{Spec, syntax};

/// Reads a cluster file. All errors of the file come at once.
///
/// `file_name` is only shown; nothing is opened, and files that it names count as missing.
pub fn parse(text: &str, file_name: &str) -> Result<Spec, Diagnostics> {
    parse_with_warnings(text, file_name).map(|(spec, _)| spec)
}

/// Like [`parse`], with what is allowed but probably not meant. Errors come with those warnings only that
/// they cannot have caused.
pub fn parse_with_warnings(text: &str, file_name: &str) -> Result<(Spec, Diagnostics), Diagnostics> {
    let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    parse_with_files(text, file_name, &none)
}

/// Reads a file that the cluster file names by a path relative to itself.
pub type Files<'a> = &'a dyn Fn(&str) -> std::io::Result<Vec<u8>>;

/// Like [`parse_with_warnings`], with the files that the cluster file names.
pub fn parse_with_files(
    text: &str,
    file_name: &str,
    files: Files<'_>,
) -> Result<(Spec, Diagnostics), Diagnostics> {
    let mut findings = Findings::new(text, file_name);
    let Some(document) = syntax::parse(text, &mut findings) else {
        return Err(findings.finish());
    };
    let source = Source::of_item(document.as_item(), &(0..0));
    let written = File::read(&source, &mut Reader::new(&mut findings));
    let spec = written.and_then(|file| {
        let merged = merge(file, &mut findings);
        validate(merged, files, &mut findings)
    });
    match spec {
        Some(spec) => Ok((spec, findings.finish())),
        None => Err(findings.finish()),
    }
}
