//! Closes the metadata to everyone but root: a node's keys can be read there for as long as it lives. Where kilnd signs with what
//! they say, it is let in, too.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use super::logins::{self, NOLOGIN};
use super::{BootError, say};
use crate::metadata::Origin;
use crate::{explain, process};

/// Adding the table before deleting it makes this work whether or not it was there. Forwarded packets are
/// those of containers, whatever the user inside. Some clouds have name and time servers at the same address.
const RULES: &str = "\
add table inet kiln_node
delete table inet kiln_node
table inet kiln_node {
  chain output {
    type filter hook output priority 0; policy accept;
    ip daddr 169.254.169.254 tcp dport 80 meta skuid != 0 drop
    ip6 daddr fe80::a9fe:a9fe tcp dport 80 meta skuid != 0 drop
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    ip daddr 169.254.169.254 tcp dport 80 drop
    ip6 daddr fe80::a9fe:a9fe tcp dport 80 drop
  }
}
";

const LIMIT: Duration = Duration::from_secs(30);
/// The monitor tells of every change. Between its start and its first look one could be missed, hence the first, short one.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(300);

/// How often the rules are set in a row, while something else changes them at the same moment.
const ATTEMPTS: u32 = 20;

/// To all but root.
pub(super) fn close(origin: Origin) -> Result<bool, BootError> {
    close_but_for(None, origin)
}

/// A node without a packet filter is acceptable where nothing answers at the address. Says whether the rules are set.
fn close_but_for(user: Option<u32>, origin: Origin) -> Result<bool, BootError> {
    let Err(reason) = set_rules(user) else { return Ok(true) };
    if origin == Origin::Address || answers() {
        return Err(BootError::Firewall(reason));
    }
    say(&format!("the metadata address is not closed to users, but nothing answers there: {reason}"));
    Ok(false)
}

/// Sets the rules, and returns them as the kernel shows them. What something else has changed between the one and the other is
/// not taken for them.
fn close_and_read(user: Option<u32>) -> Result<Option<String>, BootError> {
    for _ in 0..ATTEMPTS {
        let is_set = close_but_for(user, Origin::ConfigDrive)?;
        let shown = rules();
        if !is_set || shown.as_deref().is_some_and(is_whole) {
            return Ok(shown);
        }
    }
    Err(BootError::Firewall("something else keeps changing the rules that keep the metadata to root".into()))
}

fn is_whole(shown: &str) -> bool {
    let drops = |text: &str| text.lines().filter(|line| line.trim_end().ends_with(" drop")).count();
    drops(shown) == drops(RULES)
}

/// `kiln node keep-metadata`: closes the metadata to all but root and one user, says so to systemd, and sets the rules again
/// whenever something else has changed them. Returns only with an error; users cannot log in then, but root can.
pub fn keep_metadata(user: Option<u32>) -> Result<std::convert::Infallible, BootError> {
    let ended = keep(user);
    if let Err(error) = logins::close(Path::new(NOLOGIN)) {
        say(&format!("{NOLOGIN} could not be written: {error}"));
    }
    ended
}

fn keep(user: Option<u32>) -> Result<std::convert::Infallible, BootError> {
    let failed = |error: &dyn std::error::Error| BootError::Firewall(explain(error));
    let changes = monitor();
    let mut ours = close_and_read(user)?;
    logins::open(Path::new(NOLOGIN)).map_err(|error| failed(&error))?;
    notify_ready().map_err(|error| failed(&error))?;
    let Ok(changes) = changes else {
        // Nothing answers at the address, and there is no packet filter.
        loop {
            std::thread::sleep(LOOK_EVERY);
            close_but_for(user, Origin::ConfigDrive)?;
        }
    };
    let mut patience = FIRST_LOOK;
    loop {
        match changes.recv_timeout(patience) {
            Ok(()) => while changes.try_recv().is_ok() {},
            Err(RecvTimeoutError::Timeout) => patience = LOOK_EVERY,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(BootError::Firewall("the monitor of the packet filter has ended".into()));
            }
        }
        if rules() != ours {
            say("something else changed the rules that keep the metadata to root; setting them again");
            ours = close_and_read(user)?;
        }
    }
}

fn rules_but_for(user: Option<u32>) -> String {
    match user {
        Some(user) => RULES.replace("skuid != 0", &format!("skuid != {{ 0, {user} }}")),
        None => RULES.to_string(),
    }
}

fn set_rules(user: Option<u32>) -> Result<(), String> {
    let result = process::run(&["nft", "-f", "-"], Some(&rules_but_for(user)), LIMIT)
        .and_then(process::Output::checked);
    result.map(drop).map_err(|error| explain(&error))
}

/// As the kernel has them; `None` without the table.
fn rules() -> Option<String> {
    let argv = ["nft", "--stateless", "list", "table", "inet", "kiln_node"];
    process::run(&argv, None, LIMIT).and_then(process::Output::checked).ok().map(|output| output.stdout)
}

/// A message for every change of the packet filter, by whomever.
fn monitor() -> std::io::Result<Receiver<()>> {
    let mut child = Command::new("nft").arg("monitor").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for _ in BufReader::new(output.into_iter().next()?).lines().map_while(Result::ok) {
            sender.send(()).ok()?;
        }
        child.wait().ok()
    });
    Ok(receiver)
}

/// The units that wait for this one go on.
fn notify_ready() -> std::io::Result<()> {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    UnixDatagram::unbound()?.send_to(b"READY=1", socket).map(drop)
}

fn answers() -> bool {
    let address = SocketAddr::from((Ipv4Addr::new(169, 254, 169, 254), 80));
    std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_beside_root_is_let_in_on_demand() {
        assert_eq!(rules_but_for(None).matches("meta skuid != 0 drop").count(), 2);
        let rules = rules_but_for(Some(64_832));
        assert_eq!(rules.matches("tcp dport 80 meta skuid != { 0, 64832 } drop").count(), 2, "{rules}");
        assert_eq!(rules.matches(" drop").count(), RULES.matches(" drop").count());
    }

    #[test]
    fn rules_that_were_changed_at_the_same_moment_are_not_taken_for_ours() {
        assert!(is_whole(RULES));
        let flushed = RULES.replace("    ip daddr 169.254.169.254 tcp dport 80 meta skuid != 0 drop\n", "");
        assert!(is_whole(&rules_but_for(Some(7))));
        assert!(!is_whole(&flushed) && !is_whole("table inet kiln_node {\n}\n") && !is_whole(""));
    }
}
