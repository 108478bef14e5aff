//! The accounting database, dumped and put back. Root reaches MariaDB through its socket, without a password.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Result, failed};
use crate::process::{self, ProcessError};

const DATABASE: &str = "slurm_acct_db";
/// A dump is read into this one first, so that one that cannot be read harms nothing.
const STAGING: &str = "slurm_acct_db_restore";

/// Writes the database as it is at one moment, whether slurmdbd runs or not.
pub(super) fn dump(into: &Path) -> Result<()> {
    let file = File::create(into).map_err(failed("write", into))?;
    let mut dump = command(&["mariadb-dump", "--single-transaction", "--quick", "--hex-blob", DATABASE]);
    let mut gzip = command(&["gzip", "--fast"]);
    Ok(pipe(dump.stdin(Stdio::null()), gzip.stdout(file))?)
}

/// Reads a dump into a database of its own.
pub(super) fn stage(from: &Path) -> Result<()> {
    let file = File::open(from).map_err(failed("read", from))?;
    sql(&format!("DROP DATABASE IF EXISTS {STAGING}; CREATE DATABASE {STAGING};"))?;
    let mut gzip = command(&["gzip", "--decompress", "--stdout"]);
    let mut mariadb = command(&["mariadb", "--max-allowed-packet=1G", STAGING]);
    Ok(pipe(gzip.stdin(file), mariadb.stdout(Stdio::null()))?)
}

/// Puts the tables that were read in the place of the present ones. slurmdbd must not run.
pub(super) fn swap() -> Result<()> {
    let tables = sql(&format!(
        "SELECT table_name FROM information_schema.tables \
         WHERE table_schema = '{STAGING}' AND table_type = 'BASE TABLE';"
    ))?;
    let moves: Vec<String> =
        tables.lines().map(|table| format!("{STAGING}.`{table}` TO {DATABASE}.`{table}`")).collect();
    let moves = if moves.is_empty() { String::new() } else { format!("RENAME TABLE {};", moves.join(", ")) };
    // slurmdbd's rights are to the name of the database, and stay.
    sql(&format!("DROP DATABASE IF EXISTS {DATABASE}; CREATE DATABASE {DATABASE}; {moves}"))?;
    unstage()
}

pub(super) fn unstage() -> Result<()> {
    sql(&format!("DROP DATABASE IF EXISTS {STAGING};")).map(|_| ())
}

fn sql(text: &str) -> Result<String> {
    let argv = ["mariadb", "--batch", "--skip-column-names"];
    Ok(process::run(&argv, Some(text), Duration::from_secs(3600))?.checked()?.stdout)
}

fn command(argv: &[&str]) -> Command {
    let mut command = process::command(argv[0]);
    command.args(&argv[1..]);
    command
}

/// Runs two programs, the first writing to the second. Both must succeed; a backup has all the time that it needs.
fn pipe(first: &mut Command, second: &mut Command) -> std::result::Result<(), ProcessError> {
    let name = |command: &Command| command.get_program().to_string_lossy().into_owned();
    let (one, other) = (name(first), name(second));
    let start = |program: &str| {
        let program = program.to_owned();
        move |source| ProcessError::Start { program, source }
    };
    let mut writer = first.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(start(&one))?;
    let reader = match writer.stdout.take() {
        Some(stdout) => second.stdin(stdout).stderr(Stdio::piped()).spawn(),
        None => second.stdin(Stdio::null()).stderr(Stdio::piped()).spawn(),
    };
    let reader = match reader {
        Ok(reader) => reader,
        Err(source) => {
            let _ = writer.kill();
            let _ = writer.wait();
            return Err(start(&other)(source));
        }
    };
    // The command still holds the end of the pipe that the reader has, too.
    second.stdin(Stdio::null()).stdout(Stdio::null());
    let read = reader.wait_with_output().map_err(start(&other));
    let wrote = writer.wait_with_output().map_err(start(&one));
    // What went wrong first counts: a reader that ends breaks the writer's pipe.
    for (program, output) in [(other, read?), (one, wrote?)] {
        if !output.status.success() {
            let said = process::tail(&String::from_utf8_lossy(&output.stderr), 5);
            let said = if said.is_empty() { said } else { format!(": {said}") };
            return Err(ProcessError::Failed { program, status: output.status.to_string(), said });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_pipe_must_succeed() {
        let run = |first: &[&str], second: &[&str]| {
            let (mut first, mut second) = (command(first), command(second));
            pipe(first.stdin(Stdio::null()), second.stdout(Stdio::null())).map_err(|e| e.to_string())
        };
        assert_eq!(run(&["echo", "x"], &["grep", "x"]), Ok(()));
        let wrong = run(&["ls", "/no/such"], &["cat"]).unwrap_err();
        assert!(wrong.starts_with("`ls`") && wrong.contains("No such file"), "{wrong}");
        assert!(run(&["echo", "x"], &["grep", "y"]).unwrap_err().starts_with("`grep`"));
        assert!(run(&["echo", "x"], &["/no/such"]).unwrap_err().starts_with("cannot run `/no/such`"));
    }

    #[test]
    fn what_was_written_ends_up_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.gz");
        let file = File::create(&path).unwrap();
        pipe(command(&["echo", "x"]).stdin(Stdio::null()), command(&["gzip"]).stdout(file)).unwrap();
        let back = process::run(&["gzip", "-dc", path.to_str().unwrap()], None, Duration::from_secs(5));
        assert_eq!(back.unwrap().stdout, "x\n");
    }
}
