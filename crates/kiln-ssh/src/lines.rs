//! Commands that go on printing.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{Error, Host, Output, Ssh, ended};

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
        if let Some(stdout) = child.stdout.take() {
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).await.map_err(io)? > 0 {
                each(String::from_utf8_lossy(&line).trim_end_matches('\n'));
                line.clear();
            }
        }
        ended(host, child.wait_with_output().await)
    }
}
