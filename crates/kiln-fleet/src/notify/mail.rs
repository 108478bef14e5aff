//! Messages by mail: as much of SMTP as it takes to hand one to the site's server.

use std::time::Duration;

use kiln_wire::notify::Mail;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::Message;

/// For the whole exchange.
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn send(mail: &Mail, message: &Message) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, exchange(mail, message)).await {
        Ok(sent) => sent,
        Err(_) => Err(format!("the mail server took longer than {} s", PATIENCE.as_secs())),
    }
}

async fn exchange(mail: &Mail, message: &Message) -> Result<(), String> {
    let stream = TcpStream::connect((mail.host.as_str(), mail.port));
    let stream = stream.await.map_err(|error| format!("the mail server cannot be reached: {error}"))?;
    let mut server = Server(BufReader::new(stream));
    server.expect("its greeting", 220).await?;
    let own = mail.from.split('@').nth(1).unwrap_or("localhost");
    server.say(&format!("EHLO {own}"), 250).await?;
    server.say(&format!("MAIL FROM:<{}>", mail.from), 250).await?;
    for to in &mail.to {
        server.say(&format!("RCPT TO:<{to}>"), 250).await?;
    }
    server.say("DATA", 354).await?;
    server.say(&format!("{}\r\n.", text(mail, message)), 250).await?;
    // It has the message; whether the farewell arrives does not matter.
    let _ = server.say("QUIT", 221).await;
    Ok(())
}

struct Server(BufReader<TcpStream>);

impl Server {
    async fn say(&mut self, line: &str, code: u16) -> Result<(), String> {
        let lost = |error| format!("the connection to the mail server is lost: {error}");
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).await.map_err(lost)?;
        // Only the word: the rest may be long.
        self.expect(line.split([' ', ':', '\r']).next().unwrap_or_default(), code).await
    }

    /// An answer has several lines if there is a `-` behind its number.
    async fn expect(&mut self, to: &str, code: u16) -> Result<(), String> {
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line).await;
            let count = read.map_err(|error| format!("the mail server cannot be understood: {error}"))?;
            if count == 0 {
                return Err("the mail server has closed the connection".into());
            }
            let found = line.get(..3).and_then(|digits| digits.parse::<u16>().ok());
            if found != Some(code) && !(code == 250 && found == Some(251)) {
                return Err(format!("the mail server said to {to}: {}", line.trim_end()));
            }
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(());
            }
        }
    }
}

/// With its headers, as lines that SMTP takes.
fn text(mail: &Mail, message: &Message) -> String {
    let subject = message.subject();
    let host = mail.from.split('@').nth(1).unwrap_or("localhost");
    let mut lines = vec![
        format!("From: Kiln <{}>", mail.from),
        format!("To: {}", mail.to.join(", ")),
        format!("Subject: {}", if subject.is_ascii() { subject } else { encoded(&subject) }),
        format!("Date: {}", message.time.strftime("%a, %d %b %Y %H:%M:%S +0000")),
        format!("Message-ID: <{}@{host}>", message.id),
        "Auto-Submitted: auto-generated".into(),
        "MIME-Version: 1.0".into(),
        "Content-Type: text/plain; charset=utf-8".into(),
        "Content-Transfer-Encoding: 8bit".into(),
        String::new(),
    ];
    // A line with nothing but a dot would end the message.
    let stuffed = |line: &str| if line.starts_with('.') { format!(".{line}") } else { line.into() };
    lines.extend(message.text.lines().map(stuffed));
    lines.join("\r\n")
}

/// RFC 2047's form for what is not ASCII: each byte that is not plain as `=XX`.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b' ' => "_".to_string(),
        plain if plain.is_ascii_alphanumeric() || b":.-".contains(&plain) => char::from(plain).to_string(),
        other => format!("={other:02X}"),
    };
    format!("=?utf-8?Q?{}?=", text.bytes().map(byte).collect::<String>())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_message_has_its_headers_and_cannot_end_itself() {
        let mail = Mail {
            host: "mail".into(),
            port: 25,
            from: "kiln@demo.internal".into(),
            to: vec!["a@example.org".into(), "b@example.org".into()],
        };
        let message = Message {
            id: "7-1".into(),
            cluster: "demo".into(),
            title: "a tést".into(),
            text: "one\n.\ntwo".into(),
            time: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(
            text(&mail, &message),
            "From: Kiln <kiln@demo.internal>\r\nTo: a@example.org, b@example.org\r\n\
             Subject: =?utf-8?Q?demo:_a_t=C3=A9st?=\r\nDate: Thu, 01 Jan 1970 00:00:00 +0000\r\n\
             Message-ID: <7-1@demo.internal>\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\none\r\n..\r\ntwo"
        );
    }
}
