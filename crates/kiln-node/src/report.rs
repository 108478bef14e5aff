//! The node's own checkup, every minute, for kilnd: with the questions that `kiln configure` has left here.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_wire::checkup::Checkup;
use kiln_wire::{Format as _, ReadError};

use crate::process::{self, ProcessError};

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("cannot use {}", path.display())]
    Questions { path: PathBuf, source: ReadError },
    #[error("cannot write the report")]
    Text(#[from] serde_json::Error),
    #[error("cannot wrap the report")]
    Munge(#[from] ProcessError),
}

/// Who may read a report: the user and group of this number, on this host or, wrapped by MUNGE, wherever it gets to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    Here(u32),
    Elsewhere(u32),
}

/// Answers the questions of `questions` into the file `to`.
pub fn report(questions: &Path, to: &Path, reader: Reader) -> Result<(), ReportError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ReportError::File { path, source }
    };
    let json = fs::read(questions).map_err(failed(questions))?;
    let asked = Checkup::from_json(&json)
        .map_err(|source| ReportError::Questions { path: questions.into(), source })?;
    let text = String::from_utf8_lossy(&crate::checkup(&asked).to_json()?).into_owned();
    let (text, mode, group) = match reader {
        Reader::Here(number) => (text, 0o640, Some(number)),
        Reader::Elsewhere(number) => (wrapped(&text, number)?, 0o644, None),
    };
    // Whoever reads meanwhile finds the one before.
    let new = to.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed(&new))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed(&new))?;
    if group.is_some() {
        std::os::unix::fs::fchown(&file, None, group).map_err(failed(&new))?;
    }
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed(&new))?;
    fs::rename(&new, to).map_err(failed(to))
}

/// Only a daemon that runs as this user, on a node with the cluster's key, can read it, and sees that root has made it.
fn wrapped(text: &str, reader: u32) -> Result<String, ProcessError> {
    let argv = ["munge", "--restrict-uid", &reader.to_string()];
    Ok(process::run(&argv, Some(text), LIMIT)?.checked()?.stdout)
}

#[cfg(test)]
mod tests {
    use kiln_wire::checkup::{CheckupReport, Question, ServiceCheck};

    use super::*;

    #[test]
    fn a_report_replaces_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let (questions, to) = (dir.path().join("checkup.json"), dir.path().join("report"));
        let service = ServiceCheck {
            service: "x".into(),
            units: Vec::new(),
            questions: vec![Question::new("no answer", &["false"])],
        };
        let checkup = Checkup { services: vec![service], ..Checkup::default() };
        fs::write(&questions, checkup.to_json().unwrap()).unwrap();
        fs::write(&to, "old").unwrap();
        // Everybody may give a file to a group of one's own.
        let group = rustix::process::getgid().as_raw();
        report(&questions, &to, Reader::Here(group)).unwrap();
        let written = CheckupReport::from_json(&fs::read(&to).unwrap()).unwrap();
        assert_eq!(written.problems[0].text, "no answer");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o640);
        fs::write(&questions, "nothing").unwrap();
        assert!(report(&questions, &to, Reader::Here(group)).is_err());
    }
}
