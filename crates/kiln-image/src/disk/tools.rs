//! The programs that make a disk. Looked for before anything is made.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::ExportError;

/// The Debian packages that programs are in.
const PACKAGES: [(&str, &str); 6] = [
    ("mke2fs", "e2fsprogs"),
    ("sfdisk", "fdisk"),
    ("mkfs.vfat", "dosfstools"),
    ("mmd", "mtools"),
    ("mcopy", "mtools"),
    ("qemu-img", "qemu-utils"),
];

/// A user's own list of directories often lacks these.
const SYSTEM_PATH: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

#[derive(Debug)]
pub struct Tools<'a> {
    path: String,
    /// Seconds since 1970, for every program that writes a time.
    time: i64,
    stop: &'a CancellationToken,
}

impl<'a> Tools<'a> {
    /// That these programs are there.
    pub fn find(programs: &[&str], time: i64, stop: &'a CancellationToken) -> Result<Tools<'a>, ExportError> {
        let own = std::env::var("PATH").unwrap_or_default();
        let path = own.split(':').chain(SYSTEM_PATH).collect::<Vec<_>>().join(":");
        check(programs, |program| {
            std::env::split_paths(&path).any(|dir: PathBuf| dir.join(program).is_file())
        })?;
        Ok(Tools { path, time, stop })
    }

    /// Runs one of the programs to its end, or to when the export is to stop.
    pub async fn run(
        &self,
        argv: &[&str],
        input: &str,
        variables: &[(&str, &str)],
    ) -> Result<(), ExportError> {
        let [program, arguments @ ..] = argv else { return Ok(()) };
        let time = self.time.to_string();
        let failed = |why: String| ExportError::Tool { program: (*program).to_string(), why };
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", &self.path)
            .envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC")])
            .envs([("SOURCE_DATE_EPOCH", &time), ("E2FSPROGS_FAKE_TIME", &time)])
            .envs(variables.iter().copied())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| failed(e.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read it ends with an error of its own, if it minds.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = self.stop.run_until_cancelled(child.wait_with_output()).await;
        let output = output.ok_or(ExportError::Stopped)?.map_err(|e| failed(e.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        Err(failed(lines[lines.len().saturating_sub(5)..].join("\n")))
    }
}

fn check(programs: &[&str], is_there: impl Fn(&str) -> bool) -> Result<(), ExportError> {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = PACKAGES
        .into_iter()
        .filter(|(program, _)| missing.contains(program))
        .map(|(_, package)| package)
        .collect();
    packages.dedup();
    Err(ExportError::Missing { programs: missing.join(", "), packages: packages.join(" ") })
}

/// For a program's arguments. Paths that are not UTF-8 are nobody's.
pub fn text(path: &Path) -> Result<&str, ExportError> {
    path.to_str().ok_or_else(|| ExportError::Name(path.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let all = PACKAGES.map(|(program, _)| program);
        assert!(check(&all, |_| true).is_ok());
        assert!(check(&["qemu-img"], |program| program == "qemu-img").is_ok());
        let error = check(&all, |program| !["mmd", "mcopy", "sfdisk"].contains(&program)).unwrap_err();
        assert_eq!(error.to_string(), "this host lacks sfdisk, mmd, mcopy");
        assert_eq!(error.hint().as_deref(), Some("install them: apt install fdisk mtools"));
    }

    #[tokio::test]
    async fn a_program_that_fails_is_quoted_and_one_that_is_in_the_way_is_ended() {
        let stop = CancellationToken::new();
        let tools = Tools { path: "/usr/bin:/bin".into(), time: 0, stop: &stop };
        let error = tools.run(&["sh", "-c", "cat; echo no >&2; exit 3"], "oh\n", &[]).await.unwrap_err();
        assert_eq!(error.to_string(), "sh failed: oh\nno");
        stop.cancel();
        let error = tools.run(&["sleep", "60"], "", &[]).await.unwrap_err();
        assert!(matches!(error, ExportError::Stopped), "{error}");
    }
}
