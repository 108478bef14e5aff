//! Runs commands on nodes with the system's own `ssh`, so that the user's configuration, agents and jump hosts work as
//! usual. Host keys are known before the first connection; unknown keys are never accepted.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};

mod forward;
mod lines;
mod quote;

pub use forward::Forward;
pub use quote::quote;

/// How nodes of one cluster are reached.
#[derive(Debug, Clone)]
pub struct Ssh {
    /// Tried in this order.
    pub keys: Vec<PathBuf>,
    pub known_hosts: PathBuf,
    /// How long a machine may take to let somebody in.
    pub patience: Duration,
}

/// For a look: the machine may be dead, and somebody waits.
pub const BRIEF: Duration = Duration::from_secs(10);
/// For work: the machine is known to run, and may be busy.
const PATIENT: Duration = Duration::from_secs(60);
/// The longest pause between two logins to a machine that is not there yet.
const RARELY: Duration = Duration::from_secs(3);

/// A machine to talk to. Its host key is looked up by `name`, so that an address used again by another node is noticed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Host {
    pub name: String,
    pub address: IpAddr,
    /// A machine to go through, where this one cannot be reached from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jump: Option<Box<Host>>,
}

impl Host {
    pub fn new(name: impl Into<String>, address: IpAddr) -> Host {
        Host { name: name.into(), address, jump: None }
    }

    /// What is connected to from here.
    fn first_hop(&self) -> IpAddr {
        self.jump.as_ref().map_or(self.address, |jump| jump.first_hop())
    }
}

#[derive(Debug, Clone)]
pub struct Output {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ssh could not be started; is openssh-client installed?")]
    Start(#[source] std::io::Error),
    #[error("{host} could not be reached over SSH: {message}")]
    Unreachable { host: String, message: String },
    #[error("`{command}` on {host} ended with {status}: {stderr}")]
    Failed { host: String, command: String, status: i32, stderr: String },
    #[error("communication with {host} failed")]
    Io {
        host: String,
        #[source]
        source: std::io::Error,
    },
}

/// What ssh itself exits with when the connection, not the command, failed.
const SSH_FAILED: i32 = 255;

impl Ssh {
    /// For work that is not to be given up because a machine is busy.
    #[must_use]
    pub fn patient(self) -> Ssh {
        Ssh { patience: PATIENT, ..self }
    }

    /// Arguments for `ssh` up to and including the destination.
    pub fn arguments(&self, host: &Host) -> Vec<OsString> {
        let mut arguments: Vec<OsString> =
            self.keys.iter().flat_map(|key| [OsString::from("-i"), key.clone().into_os_string()]).collect();
        arguments.extend(["-o".into(), "IdentitiesOnly=yes".into()]);
        arguments.extend(self.arguments_as(host, "root"));
        arguments
    }

    /// As [`Ssh::arguments`], for a user who logs in with their own keys.
    pub fn arguments_as(&self, host: &Host, user: &str) -> Vec<OsString> {
        let option = |text: String| [OsString::from("-o"), OsString::from(text)];
        let options = [
            "StrictHostKeyChecking=yes".to_string(),
            format!("UserKnownHostsFile=\"{}\"", self.known_hosts.display()),
            "GlobalKnownHostsFile=/dev/null".to_string(),
            format!("HostKeyAlias={}", host.name),
            "CheckHostIP=no".to_string(),
            format!("ConnectTimeout={}", self.patience.as_secs()),
            "ServerAliveInterval=15".to_string(),
            "LogLevel=ERROR".to_string(),
            // Whatever the user's own configuration says for all hosts: root of a node could use what is forwarded.
            "ForwardAgent=no".to_string(),
            "ForwardX11=no".to_string(),
        ];
        let mut arguments: Vec<OsString> = options.into_iter().flat_map(option).collect();
        arguments.extend(host.jump.iter().flat_map(|jump| option(self.through(jump))));
        arguments.extend(["-l".into(), user.into(), host.address.to_string().into()]);
        arguments
    }

    /// The option to connect through another machine, whose host key is known as well. ssh passes it to a shell.
    pub fn through(&self, jump: &Host) -> String {
        let ssh = self.arguments(jump);
        let words = ssh.iter().map(|word| quote(&word.to_string_lossy()).replace('%', "%%"));
        format!("ProxyCommand=ssh -o BatchMode=yes -W [%h]:%p {}", words.collect::<Vec<_>>().join(" "))
    }

    /// Runs `argv` and returns what it printed, whatever it exited with.
    pub async fn output(&self, host: &Host, argv: &[&str], stdin: &[u8]) -> Result<Output, Error> {
        self.output_with(host, argv, std::future::ready(stdin)).await
    }

    /// As [`Ssh::output`], with an input that is known later: the login does not wait for it. When this is dropped before,
    /// the command finds the end of its input.
    pub async fn output_with(
        &self,
        host: &Host,
        argv: &[&str],
        stdin: impl Future<Output: AsRef<[u8]>>,
    ) -> Result<Output, Error> {
        let mut child = self.command(host, argv).stdin(Stdio::piped()).spawn().map_err(Error::Start)?;
        let pipe = child.stdin.take();
        let given = async { feed(pipe, stdin.await.as_ref()).await };
        let ((), result) = tokio::join!(given, child.wait_with_output());
        ended(host, result)
    }

    /// As [`Ssh::output`], for what is too large to be kept in memory: from one file or pipe, into another.
    pub async fn stream(
        &self,
        host: &Host,
        argv: &[&str],
        stdin: Stdio,
        stdout: Stdio,
    ) -> Result<Output, Error> {
        let child = self.command(host, argv).stdin(stdin).stdout(stdout).spawn().map_err(Error::Start)?;
        ended(host, child.wait_with_output().await)
    }

    fn command(&self, host: &Host, argv: &[&str]) -> Command {
        let mut command = Command::new("ssh");
        command
            .args(["-o", "BatchMode=yes", "-T"])
            .args(self.arguments(host))
            .arg(argv.iter().map(|a| quote(a)).collect::<Vec<_>>().join(" "))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C in the terminal is for Kiln to handle; it must not cut a node's work in half.
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Runs `argv`; anything but exit 0 is an error.
    pub async fn run(&self, host: &Host, argv: &[&str], stdin: &[u8]) -> Result<String, Error> {
        let output = self.output(host, argv, stdin).await?;
        if output.status != 0 {
            return Err(Error::Failed {
                host: host.name.clone(),
                command: argv.join(" "),
                status: output.status,
                stderr: output.stderr,
            });
        }
        Ok(output.stdout)
    }

    /// As [`Ssh::output`], once the machine answers over SSH: it may still be booting.
    pub async fn wait_output(&self, host: &Host, argv: &[&str], limit: Duration) -> Result<Output, Error> {
        let start = Instant::now();
        loop {
            // A plain connection is much cheaper than a login, and fails until sshd listens. A login that was begun too
            // early may get no answer though the machine is there by now: the first ones are short.
            let outcome = if is_open(host.first_hop()).await {
                let patience = (start.elapsed() / 4).clamp(BRIEF, PATIENT);
                Ssh { patience, ..self.clone() }.output(host, argv, b"").await
            } else {
                let message = format!("no answer within {} s", limit.as_secs());
                Err(Error::Unreachable { host: host.name.clone(), message })
            };
            match outcome {
                Err(Error::Unreachable { .. }) if start.elapsed() < limit => {}
                outcome => return outcome,
            }
            // Whether a machine behind another one listens, only a login to the other one tells: that is not done all the time.
            let often = Duration::from_millis(100);
            let pause = if host.jump.is_some() { (start.elapsed() / 8).clamp(often, RARELY) } else { often };
            tokio::time::sleep(pause).await;
        }
    }
}

/// A command that does not read its input to the end is not an error here; its status tells.
async fn feed(pipe: Option<ChildStdin>, bytes: &[u8]) {
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(bytes).await;
    }
}

fn ended(host: &Host, result: std::io::Result<std::process::Output>) -> Result<Output, Error> {
    let result = result.map_err(|source| Error::Io { host: host.name.clone(), source })?;
    let output = Output {
        status: result.status.code().unwrap_or(SSH_FAILED),
        stdout: String::from_utf8_lossy(&result.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&result.stderr).trim_end().to_string(),
    };
    if output.status == SSH_FAILED {
        let message = output.stderr.lines().last().unwrap_or("the connection broke").to_string();
        return Err(Error::Unreachable { host: host.name.clone(), message });
    }
    Ok(output)
}

async fn is_open(address: IpAddr) -> bool {
    let connect = tokio::net::TcpStream::connect((address, 22));
    matches!(tokio::time::timeout(Duration::from_secs(2), connect).await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_knows_both_hosts() {
        let keys = vec!["/k/ssh key".into()];
        let ssh = Ssh { keys, known_hosts: "/k/known_hosts".into(), patience: BRIEF };
        let mut host = Host::new("standard-0", [10, 0, 0, 7].into());
        assert_eq!(host.first_hop(), host.address);
        assert!(!ssh.arguments(&host).iter().any(|a| a.to_string_lossy().contains("ProxyCommand")));
        host.jump = Some(Box::new(Host::new("login-0", [192, 0, 2, 9].into())));
        assert_eq!(host.first_hop().to_string(), "192.0.2.9");
        let arguments = ssh.arguments(&host);
        let text = |a: &OsString| a.to_string_lossy().into_owned();
        let proxy = arguments.iter().map(text).find(|a| a.starts_with("ProxyCommand=")).expect("a jump");
        assert!(
            proxy.starts_with("ProxyCommand=ssh -o BatchMode=yes -W [%h]:%p -i '/k/ssh key' "),
            "{proxy}"
        );
        assert!(proxy.contains("HostKeyAlias=login-0") && proxy.ends_with("-l root 192.0.2.9"), "{proxy}");
        assert!(arguments.iter().any(|a| a == "HostKeyAlias=standard-0"));
        // The way there takes no longer than the machine itself.
        assert!(arguments.iter().any(|a| a == "ConnectTimeout=10") && proxy.contains("ConnectTimeout=10"));
        assert!(arguments.iter().any(|a| a == "ForwardAgent=no") && proxy.contains("ForwardAgent=no"));
        assert!(ssh.patient().arguments(&host).iter().any(|a| a == "ConnectTimeout=60"));
    }
}
