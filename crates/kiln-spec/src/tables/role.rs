//! `[role.ROLE]`: what the site adds to the nodes of a role.

use std::collections::BTreeMap;

use crate::diagnostic::Findings;
use crate::validate::names::is_unix_name;
use crate::validate::own_files;
use crate::written::table::table;
use crate::written::{List, Text};
use crate::{ExtraFile, Extras, Role, Roles};

table! {
    /// What the site adds to the nodes of a role.
    RolesTable {
        /// The control node.
        "control" => control: ExtrasTable;
        /// Login nodes.
        "login" => login: ExtrasTable;
        /// Compute nodes.
        "compute" => compute: ExtrasTable;
    }
}

table! {
    /// Packages, files and commands for the nodes of one role.
    ExtrasTable {
        /// Debian packages. They are installed when an image with this role is built, so a change here is a new image.
        "packages" => packages: List<Text>, empty;
        /// Commands that `kiln configure` runs as root, as one `sh` script with `set -eu`, when this list or one of the role's files has changed.
        "commands" => commands: List<Text>, empty;
        /// Files to write, each a table `[[role.ROLE.file]]`.
        "file" => file: List<FileTable>, empty;
    }
}

table! {
    /// A file.
    FileTable {
        /// Absolute path.
        "path" => path: Text, required;
        /// The whole content.
        "content" => content: Text, required;
        /// Permissions as an octal string.
        "mode" => mode: Text, default "0644";
        /// User that owns the file.
        "owner" => owner: Text, default "root";
        /// Group of the file.
        "group" => group: Text, default "root";
    }
}

pub(crate) fn validate(written: &RolesTable, findings: &mut Findings<'_>) -> Roles {
    Roles {
        control: extras(Role::Control, written.control.as_ref(), findings),
        login: extras(Role::Login, written.login.as_ref(), findings),
        compute: extras(Role::Compute, written.compute.as_ref(), findings),
    }
}

fn extras(role: Role, written: Option<&ExtrasTable>, findings: &mut Findings<'_>) -> Extras {
    let Some(written) = written else {
        return Extras::default();
    };
    Extras {
        packages: packages(Some(&written.packages), findings),
        files: files(&written.file, |path, findings| own_files::check(path, role, findings), findings),
        commands: commands(Some(&written.commands), findings),
    }
}

pub(crate) fn packages(written: Option<&List<Text>>, findings: &mut Findings<'_>) -> Vec<String> {
    let Some(list) = written else {
        return Vec::new();
    };
    for package in list.value.iter().filter(|package| !is_package(&package.value)) {
        (findings.error(
            "bad-package",
            package.span.clone(),
            format!("`{}` is not the name of a Debian package", package.value),
        ))
        .expected(
            "lower-case letters, digits, `+`, `-` and `.`, at least two; `NAME=VERSION` pins a version",
        );
    }
    list.value.iter().map(|package| package.value.clone()).collect()
}

/// `name`, `name:arch`, each optionally with `=version`.
fn is_package(text: &str) -> bool {
    let (name, version) = text.split_once('=').map_or((text, None), |(name, version)| (name, Some(version)));
    let (name, arch) = name.split_once(':').map_or((name, None), |(name, arch)| (name, Some(arch)));
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() >= 2
        && name.starts_with(lower)
        && name.chars().all(|c| lower(c) || matches!(c, '+' | '-' | '.'))
        && arch.is_none_or(|arch| !arch.is_empty() && arch.chars().all(|c| lower(c) || c == '-'))
        && version.is_none_or(|version| {
            version.starts_with(|c: char| c.is_ascii_digit())
                && version
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '~' | ':'))
        })
}

pub(crate) fn commands(written: Option<&List<Text>>, findings: &mut Findings<'_>) -> Vec<String> {
    let Some(list) = written else {
        return Vec::new();
    };
    for command in list.value.iter().filter(|text| text.value.trim().is_empty() || text.value.contains('\0'))
    {
        findings
            .error("bad-command", command.span.clone(), "the command is empty")
            .expected("a shell command");
    }
    list.value.iter().map(|command| command.value.clone()).collect()
}

/// `is_own` reports paths that are not the site's.
pub(crate) fn files(
    written: &List<FileTable>,
    is_own: impl Fn(&Text, &mut Findings<'_>),
    findings: &mut Findings<'_>,
) -> Vec<ExtraFile> {
    let mut seen: BTreeMap<&str, &Text> = BTreeMap::new();
    let mut files = Vec::new();
    for table in &written.value {
        if let Some(path) = &table.path {
            if check_path(path, findings) {
                is_own(path, findings);
            }
            if let Some(first) = seen.insert(&path.value, path) {
                (findings.error(
                    "duplicate-file",
                    path.span.clone(),
                    format!("`{}` is written twice", path.value),
                ))
                .expected("each file once")
                .related(first.span.clone(), "first here");
            }
        }
        files.extend(file(table, findings));
    }
    files
}

fn check_path(path: &Text, findings: &mut Findings<'_>) -> bool {
    let text = &path.value;
    let right = text.len() > 1
        && text.starts_with('/')
        && !text.contains(|c: char| c.is_control())
        && text[1..].split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !right {
        (findings.error("bad-path", path.span.clone(), format!("`{text}` is not the path of a file")))
            .expected("an absolute path without `.`, `..` or a `/` at the end");
    }
    right
}

fn file(table: &FileTable, findings: &mut Findings<'_>) -> Option<ExtraFile> {
    let mode = file_mode(&table.mode, findings);
    let owner = unix_name("user", &table.owner, findings);
    let group = unix_name("group", &table.group, findings);
    Some(ExtraFile {
        path: table.path.as_ref()?.value.clone(),
        content: table.content.as_ref()?.value.clone(),
        mode: mode?,
        owner,
        group,
    })
}

fn file_mode(mode: &Text, findings: &mut Findings<'_>) -> Option<u32> {
    let digits =
        (3..=4).contains(&mode.value.len()) && mode.value.bytes().all(|b| (b'0'..=b'7').contains(&b));
    let number = digits.then(|| u32::from_str_radix(&mode.value, 8).ok()).flatten();
    if number.is_none() {
        (findings.error("bad-mode", mode.span.clone(), format!("`{}` is not a file mode", mode.value)))
            .expected("three or four octal digits, e.g. \"0644\"");
    }
    number
}

fn unix_name(kind: &str, name: &Text, findings: &mut Findings<'_>) -> String {
    if !is_unix_name(&name.value) {
        (findings.error(
            "bad-name",
            name.span.clone(),
            format!("`{}` cannot be the name of a {kind}", name.value),
        ))
        .expected("lower-case letters, digits, `_` and `-`");
    }
    name.value.clone()
}
