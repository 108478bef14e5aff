//! `kiln dashboard`

mod browser;
mod token;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use kiln_wire::dashboard::{Admission, Role, check_name};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;

/// Look at the cluster in a browser
///
/// kilnd serves the dashboard on the control node's loopback address. This opens a way to it over SSH, prints an address that is
/// good for one login within two minutes, and opens it where there is a display. It runs until Ctrl-C, or until the connection is
/// lost.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Dashboard {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    open: Opening,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Tokens for programs that ask kilnd's API, such as Prometheus
    #[command(subcommand)]
    Token(token::Token),
}

#[derive(Debug, Args)]
struct Opening {
    /// What may be done there: viewer or operator
    #[arg(long, default_value_t = Role::Operator, value_name = "ROLE")]
    role: Role,
    /// The name that stands in events about what is done there; default: the user's
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// The port on this host; default: any that is free
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Print the address, and open no browser
    #[arg(long)]
    no_open: bool,
}

impl Dashboard {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self.verb {
            Some(Verb::Token(token)) => token.run(context),
            None => self.open.run(context),
        }
    }
}

impl Opening {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let name = who(self.name.as_deref())?;
        cluster::with(context, async |deployment| {
            let dashboard = deployment.dashboard().await?;
            let admission = dashboard.login(&name, self.role).await?;
            let mut way = dashboard.open(self.port, admission.port).await?;
            answers(way.port).await?;
            let address = format!("http://127.0.0.1:{}/login#{}", way.port, admission.secret.expose_secret());
            self.tell(context, &address, &admission)?;
            // Gone with the browser's file when it is dropped, which is at the end.
            let _opened =
                if self.no_open || context.printer.is_json() { None } else { browser::open(&address) };
            tokio::select! {
                () = deployment.stop.cancelled() => {
                    way.close().await;
                    Ok(Exit::Ok)
                }
                lost = way.ended() => Err(lost).hint("run `kiln dashboard` again: a session that has begun goes on"),
            }
        })
    }

    fn tell(&self, context: &Context, address: &str, admission: &Admission) -> anyhow::Result<()> {
        if context.printer.is_json() {
            let report = json!({ "address": address, "expires": admission.expires, "role": self.role });
            return context.printer.json_line(&report);
        }
        context.printer.data(address)?;
        context.printer.say(format!(
            "good for one login as {}, until {}; Ctrl-C closes the way to it",
            self.role,
            admission.expires.strftime("%H:%M:%S UTC")
        ));
        Ok(())
    }
}

/// The name that stands in events about what is done there: the given one, or the user's.
pub fn who(given: Option<&str>) -> anyhow::Result<String> {
    let own = || std::env::var("USER").ok().filter(|name| !name.is_empty());
    let name = given.map(String::from).or_else(own).unwrap_or_else(|| "somebody".into());
    check_name(&name)
        .map_err(|problem| anyhow!(problem))
        .exit(Exit::Usage)
        .hint("name yourself with --as")?;
    Ok(name)
}

/// Whether there is a dashboard at the other end: ssh opens its own end in any case.
pub async fn answers(port: u16) -> anyhow::Result<()> {
    let hint = "`kiln configure` brings the kilnd that goes with this kiln; `kiln ssh control systemctl status kilnd` tells more";
    greeting(port).await.context("kilnd does not serve its dashboard on control").hint(hint)
}

async fn greeting(port: u16) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        return Err(anyhow!("nobody answers at the other end"));
    }
    Ok(())
}
