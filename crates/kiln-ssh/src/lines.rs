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

    /// As [`Ssh::output`], with every line of standard error handed on as it comes. `each` says whether it takes the line:
    /// ssh writes there as well as the command, and what nobody takes is kept.
    pub async fn telling(
        &self,
        host: &Host,
        argv: &[&str],
        stdin: &[u8],
        each: impl FnMut(&str) -> bool,
    ) -> Result<Output, Error> {
        let io = |source| Error::Io { host: host.name.clone(), source };
        let mut child = self.command(host, argv).stdin(Stdio::piped()).spawn().map_err(Error::Start)?;
        let (input, told) = (child.stdin.take(), child.stderr.take());
        let (fed, listen) = (feed(input, stdin), listen(told, each));
        let ((), said, result) = tokio::join!(fed, listen, child.wait_with_output());
        let stderr = said.map_err(io)?.into_bytes();
        ended(host, result.map(|output| std::process::Output { stderr, ..output }))
    }
}

/// What nobody takes.
async fn listen(
    pipe: Option<impl AsyncRead + Unpin>,
    mut takes: impl FnMut(&str) -> bool,
) -> std::io::Result<String> {
    let mut said = Vec::new();
    let keep = |line: &str| {
        if !takes(line) {
            said.push(line.to_string());
        }
    };
    hand_on(pipe, keep).await?;
    Ok(said.join("\n"))
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;
    use crate::SSH_FAILED;

    /// What ssh says of a connection that broke, after the command has told its steps.
    async fn broken(stderr: &str) -> (Vec<String>, String) {
        let mut steps = Vec::new();
        let takes = |line: &str| {
            let is_step = line.starts_with("service:");
            steps.extend(is_step.then(|| line.to_string()));
            is_step
        };
        let said = listen(Some(stderr.as_bytes()), takes).await.unwrap();
        let output = std::process::Output {
            status: ExitStatus::from_raw(SSH_FAILED << 8),
            stdout: Vec::new(),
            stderr: said.into_bytes(),
        };
        let error = ended(&Host::new("login-0", [192, 0, 2, 9].into()), Ok(output)).unwrap_err();
        (steps, error.to_string())
    }

    #[tokio::test]
    async fn steps_of_a_command_are_not_taken_for_words_of_ssh() {
        let (steps, error) = broken("service:a\nservice:b\n").await;
        assert_eq!(steps, ["service:a", "service:b"]);
        assert_eq!(error, "login-0 could not be reached over SSH: the connection broke");
        let (_, error) = broken("service:a\nclient_loop: send disconnect: Broken pipe\n").await;
        assert!(error.ends_with("SSH: client_loop: send disconnect: Broken pipe"), "{error}");
    }
}
