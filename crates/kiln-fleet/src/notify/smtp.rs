//! As much of SMTP as it takes to hand one message to the site's server.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_wire::notify::{Mail, MailTls};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A line of an answer that is longer is not SMTP.
const LONGEST_LINE: u64 = 4096;
/// So many lines an answer may have.
const MOST_LINES: usize = 200;

/// Hands over one message. `text`: with headers, as lines that SMTP takes.
pub async fn hand_over(mail: &Mail, text: &str, trusted: &Arc<RootCertStore>) -> Result<(), String> {
    let stream = TcpStream::connect((mail.host.as_str(), mail.port));
    let stream = stream.await.map_err(|error| format!("the mail server cannot be reached: {error}"))?;
    let mut server = match mail.tls {
        MailTls::Tls => Server::new(encrypted(mail, Box::new(stream), trusted).await?),
        MailTls::Off | MailTls::Starttls => Server::new(Box::new(stream)),
    };
    server.expect("its greeting", 220).await?;
    let mut offers = server.hello(mail).await?;
    if mail.tls == MailTls::Starttls {
        if !offers.iter().any(|offer| offer == "STARTTLS") {
            return Err("the mail server offers no encryption (STARTTLS)".into());
        }
        server.say("STARTTLS", 220).await?;
        let stream = server.into_stream()?;
        server = Server::new(encrypted(mail, stream, trusted).await?);
        // What it said before was not encrypted, and counts for nothing.
        offers = server.hello(mail).await?;
    }
    if let Some(credentials) = &mail.credentials {
        server.log_in(credentials.expose_secret().trim(), &offers).await?;
    }
    server.say(&format!("MAIL FROM:<{}>", mail.from), 250).await?;
    for to in &mail.to {
        server.say(&format!("RCPT TO:<{to}>"), 250).await?;
    }
    server.say("DATA", 354).await?;
    server.say(&format!("{text}\r\n."), 250).await?;
    // It has the message; whether the farewell arrives does not matter.
    let _ = server.say("QUIT", 221).await;
    Ok(())
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn encrypted(
    mail: &Mail,
    stream: Box<dyn Stream>,
    trusted: &Arc<RootCertStore>,
) -> Result<Box<dyn Stream>, String> {
    let name = ServerName::try_from(mail.host.clone())
        .map_err(|_| "the mail server's name cannot be that of a certificate".to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(trusted.clone())
        .with_no_client_auth();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| format!("no encryption with the mail server: {error}"))?))
}

struct Server(BufReader<Box<dyn Stream>>);

impl Server {
    fn new(stream: Box<dyn Stream>) -> Server {
        Server(BufReader::new(stream))
    }

    /// What was sent before encryption began must not be taken for something that was encrypted.
    fn into_stream(self) -> Result<Box<dyn Stream>, String> {
        if !self.0.buffer().is_empty() {
            return Err("the mail server has said too much before encryption began".into());
        }
        Ok(self.0.into_inner())
    }

    /// What the server offers, in capitals.
    async fn hello(&mut self, mail: &Mail) -> Result<Vec<String>, String> {
        let own = mail.from.split('@').nth(1).unwrap_or("localhost");
        let lines = self.say(&format!("EHLO {own}"), 250).await?;
        Ok(lines.iter().map(|line| line.to_uppercase()).collect())
    }

    /// No error tells what was sent.
    async fn log_in(&mut self, credentials: &str, offers: &[String]) -> Result<(), String> {
        let Some((user, password)) = credentials.split_once(':') else {
            return Err("the login for the mail server is not `USER:PASSWORD`".into());
        };
        let refused = |_| "the mail server does not take the login".to_string();
        let offered = |way: &str| {
            let mut ways = offers.iter().filter_map(|offer| offer.strip_prefix("AUTH "));
            ways.any(|ways| ways.split_whitespace().any(|one| one == way))
        };
        if offered("PLAIN") {
            let word = STANDARD.encode(format!("\0{user}\0{password}"));
            self.say(&format!("AUTH PLAIN {word}"), 235).await.map_err(refused)?;
        } else if offered("LOGIN") {
            self.say("AUTH LOGIN", 334).await.map_err(refused)?;
            self.say(&STANDARD.encode(user), 334).await.map_err(refused)?;
            self.say(&STANDARD.encode(password), 235).await.map_err(refused)?;
        } else {
            return Err("the mail server offers no login that Kiln knows (PLAIN or LOGIN)".into());
        }
        Ok(())
    }

    /// The lines of the answer, without their numbers.
    async fn say(&mut self, line: &str, code: u16) -> Result<Vec<String>, String> {
        let lost = |error| format!("the connection to the mail server is lost: {error}");
        let stream = self.0.get_mut();
        stream.write_all(format!("{line}\r\n").as_bytes()).await.map_err(lost)?;
        stream.flush().await.map_err(lost)?;
        // Only the word: the rest may be long.
        self.expect(line.split([' ', ':', '\r']).next().unwrap_or_default(), code).await
    }

    /// An answer has several lines if there is a `-` behind its number.
    async fn expect(&mut self, to: &str, code: u16) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        while lines.len() < MOST_LINES {
            let mut line = String::new();
            let read = (&mut self.0).take(LONGEST_LINE).read_line(&mut line).await;
            let count = read.map_err(|error| format!("the mail server cannot be understood: {error}"))?;
            if count == 0 {
                return Err("the mail server has closed the connection".into());
            }
            let found = line.get(..3).and_then(|digits| digits.parse::<u16>().ok());
            if found != Some(code) && !(code == 250 && found == Some(251)) {
                return Err(format!("the mail server said to {to}: {}", line.trim_end()));
            }
            lines.push(line.get(4..).unwrap_or_default().trim_end().to_string());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(lines);
            }
        }
        Err("the mail server's answer has no end".into())
    }
}

#[cfg(test)]
#[path = "smtp_tests.rs"]
mod tests;
