//! Messages by mail, which the site's server is handed.

use std::sync::Arc;
use std::time::Duration;

use kiln_wire::notify::{Mail, MailTls};
use rustls::RootCertStore;

use super::{Message, smtp};

/// For the whole exchange.
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn send(mail: &Mail, message: &Message) -> Result<(), String> {
    let trusted = trusted(mail)?;
    let text = text(mail, message);
    match tokio::time::timeout(PATIENCE, smtp::hand_over(mail, &text, &trusted)).await {
        Ok(sent) => sent,
        Err(_) => Err(format!("the mail server took longer than {} s", PATIENCE.as_secs())),
    }
}

/// Those that the system trusts. A server that is not asked to encrypt needs none.
fn trusted(mail: &Mail) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    if mail.tls != MailTls::Off {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err("this host trusts no certificate authority".into());
        }
    }
    Ok(Arc::new(roots))
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
            tls: MailTls::Off,
            credentials: None,
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
