//! A way to a port that only the node itself can reach.

use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::{Error, Host, Ssh};

/// Open until it is dropped.
#[derive(Debug)]
pub struct Forward {
    /// On this host's loopback address.
    pub port: u16,
    host: String,
    ssh: Child,
}

impl Ssh {
    /// From a port of this host's loopback address, any free one if none is named, to one of the node's.
    pub async fn forward(&self, host: &Host, port: Option<u16>, to: u16) -> Result<Forward, Error> {
        let io = |source| Error::Io { host: host.name.clone(), source };
        let port = if let Some(port) = port {
            port
        } else {
            // Free again at once, for ssh to take; should another take it first, ssh ends and says so.
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(io)?;
            free.local_addr().map_err(io)?.port()
        };
        let ssh = Command::new("ssh")
            .args([
                "-o",
                "BatchMode=yes",
                "-o",
                "ExitOnForwardFailure=yes",
                "-o",
                "ControlPath=none",
                "-T",
                "-N",
            ])
            .args(["-L", &format!("127.0.0.1:{port}:127.0.0.1:{to}")])
            .args(self.arguments(host))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A Ctrl-C in the terminal is for Kiln to handle.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(Error::Start)?;
        let mut forward = Forward { port, host: host.name.clone(), ssh };
        while !is_open(port).await {
            if forward.ssh.try_wait().map_err(io)?.is_some() {
                return Err(forward.ended().await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Somebody else may listen there, which ssh has noticed by now or will at once.
        tokio::time::sleep(Duration::from_millis(50)).await;
        match forward.ssh.try_wait().map_err(io)? {
            Some(_) => Err(forward.ended().await),
            None => Ok(forward),
        }
    }
}

/// While nobody listens on a port, the kernel may give a connection that very port, and so connect it to itself.
async fn is_open(port: u16) -> bool {
    let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return false };
    matches!((stream.local_addr(), stream.peer_addr()), (Ok(own), Ok(other)) if own != other)
}

impl Forward {
    /// Waits until the connection is lost, and says why.
    pub async fn ended(&mut self) -> Error {
        let mut said = String::new();
        if let Some(stderr) = self.ssh.stderr.as_mut() {
            // What cannot be read cannot be told.
            let _ = stderr.read_to_string(&mut said).await;
        }
        let _ = self.ssh.wait().await;
        let message = said.lines().last().unwrap_or("the connection was closed").trim().to_string();
        Error::Unreachable { host: self.host.clone(), message }
    }

    /// Closes it, and waits until it is.
    pub async fn close(mut self) {
        // It may have ended by itself.
        let _ = self.ssh.kill().await;
    }
}
