//! Running the host's tools: arguments as a list, input on stdin, never a shell.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::{Error, Result};

/// Runs a program to its end and returns its output; failure carries what it said on stderr.
pub fn run<S: AsRef<OsStr>>(program: &str, args: &[S], input: &str) -> Result<String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Error::failed(format!("cannot run {program}")).because(e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early breaks the pipe; its exit status tells the story better.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|e| Error::failed(format!("cannot wait for {program}")).because(e))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed(format!("{program} failed ({}): {}", output.status, said.trim())))
}

/// Feeds commands to `ip`, one per line, stopping at the first that fails.
pub fn ip(batch: &str) -> Result<()> {
    run("ip", &["-batch", "-"], batch).map(drop)
}

/// The same, but going on after failures: for taking down what may be half there.
pub fn ip_force(batch: &str) {
    if let Err(error) = run("ip", &["-force", "-batch", "-"], batch) {
        tracing::debug!(%error, "ip");
    }
}

pub fn nft(rules: &str) -> Result<()> {
    run("nft", &["-f", "-"], rules).map(drop)
}

pub fn nft_in(netns: &str, rules: &str) -> Result<()> {
    run("ip", &["netns", "exec", netns, "nft", "-f", "-"], rules).map(drop)
}
