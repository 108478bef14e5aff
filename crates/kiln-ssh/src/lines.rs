//! Commands that go on printing.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use crate::{Error, Host, Output, Ssh, ended, feed};

impl Ssh {
    /// As [`Ssh::output`], with every line handed on as it comes. What is dropped is ended.
    pub async fn lines(
        &self,
        host: &Host,
        argv: &[&str],
        mut each: impl FnMut(&str),
    ) -> Result<Output, Error> {
        let io = |source| Error::Io { host: host.name.clone(), source };
        let mut child = self.command(host, argv).stdin(Stdio::null()).spawn().map_err(Error::Start)?;
        hand_on(child.stdout.take(), &mut each).await.map_err(io)?;
        ended(host, child.wait_with_output().await)
    }

    /// As [`Ssh::output`], with every line that the command writes to standard error handed on as it comes, and kept.
    pub async fn telling(
        &self,
        host: &Host,
        argv: &[&str],
        stdin: &[u8],
        mut each: impl FnMut(&str),
    ) -> Result<Output, Error> {
        let io = |source| Error::Io { host: host.name.clone(), source };
        let mut child = self.command(host, argv).stdin(Stdio::piped()).spawn().map_err(Error::Start)?;
        let (input, told) = (child.stdin.take(), child.stderr.take());
        let mut said = Vec::new();
        let listen = hand_on(told, |line: &str| {
            each(line);
            said.push(line.to_string());
        });
        let ((), heard, result) = tokio::join!(feed(input, stdin), listen, child.wait_with_output());
        heard.map_err(io)?;
        let stderr = said.join("\n").into_bytes();
        ended(host, result.map(|output| std::process::Output { stderr, ..output }))
    }
}

async fn hand_on(pipe: Option<impl AsyncRead + Unpin>, mut each: impl FnMut(&str)) -> std::io::Result<()> {
    let Some(pipe) = pipe else { return Ok(()) };
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    while pipe.read_until(b'\n', &mut line).await? > 0 {
        each(String::from_utf8_lossy(&line).trim_end_matches('\n'));
        line.clear();
    }
    Ok(())
}
