//! Against a fake mail server, which speaks real TLS.

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// How the fake behaves.
#[derive(Clone, Copy, PartialEq)]
struct Ways {
    /// Encrypted from the beginning.
    tls: bool,
    starttls: bool,
    /// What it offers behind encryption.
    auth: &'static str,
    /// Sends more than its answer before encryption begins.
    chatty: bool,
}

const PLAIN: Ways = Ways { tls: false, starttls: true, auth: "AUTH PLAIN LOGIN", chatty: false };

struct Fake {
    port: u16,
    trusted: Arc<RootCertStore>,
    /// All that it was told.
    told: tokio::task::JoinHandle<String>,
}

async fn fake(ways: Ways) -> Fake {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let mut trusted = RootCertStore::empty();
    trusted.add(made.cert.der().clone()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let told = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut told = String::new();
        if ways.tls {
            if let Ok(stream) = acceptor.accept(stream).await {
                talk(Box::new(stream), ways, true, true, &mut told).await;
            }
        } else if let Some(stream) = talk(Box::new(stream), ways, false, true, &mut told).await
            && let Ok(stream) = acceptor.accept(stream).await
        {
            told.push_str("(encrypted)\r\n");
            talk(Box::new(stream), ways, true, false, &mut told).await;
        }
        told
    });
    Fake { port, trusted: Arc::new(trusted), told }
}

/// The stream again, if encryption is to begin.
async fn talk(
    stream: Box<dyn Stream>,
    ways: Ways,
    is_safe: bool,
    greets: bool,
    told: &mut String,
) -> Option<Box<dyn Stream>> {
    let mut client = BufReader::new(stream);
    if greets {
        client.get_mut().write_all(b"220 mail\r\n").await.ok()?;
    }
    let mut is_data = false;
    loop {
        let mut line = String::new();
        if client.read_line(&mut line).await.unwrap_or(0) == 0 {
            return None;
        }
        told.push_str(&line);
        let good = STANDARD.encode("\0me:pass".replace(':', "\0"));
        let answer = match line.trim_end() {
            "." if is_data => {
                is_data = false;
                "250 taken".to_string()
            }
            _ if is_data => continue,
            "DATA" => {
                is_data = true;
                "354 go on".into()
            }
            "STARTTLS" => {
                let more = if ways.chatty { "220 go on\r\n250 injected\r\n" } else { "220 go on\r\n" };
                client.get_mut().write_all(more.as_bytes()).await.ok()?;
                return Some(client.into_inner());
            }
            hello if hello.starts_with("EHLO") => {
                let offer = if is_safe {
                    ways.auth
                } else if ways.starttls {
                    "STARTTLS"
                } else {
                    "8BITMIME"
                };
                format!("250-mail\r\n250 {offer}")
            }
            "AUTH LOGIN" | "bWU=" => "334 go on".into(),
            "cGFzcw==" => "235 welcome".into(),
            auth if auth.starts_with("AUTH PLAIN ") => {
                if auth.ends_with(&good) {
                    "235 welcome".into()
                } else {
                    format!("535 no: {auth}")
                }
            }
            "QUIT" => "221 bye".into(),
            _ => "250 ok".into(),
        };
        client.get_mut().write_all(format!("{answer}\r\n").as_bytes()).await.ok()?;
        client.get_mut().flush().await.ok()?;
    }
}

async fn send(ways: Ways, tls: MailTls, credentials: Option<&str>) -> (Result<(), String>, String) {
    let fake = fake(ways).await;
    let mail = Mail {
        host: "localhost".into(),
        port: fake.port,
        from: "kiln@c.internal".into(),
        to: vec!["ops@example.org".into()],
        tls,
        credentials: credentials.map(Into::into),
    };
    let sent = hand_over(&mail, "Subject: x\r\n\r\nwords", &fake.trusted).await;
    (sent, fake.told.await.unwrap())
}

#[tokio::test]
async fn a_login_and_the_message_are_told_behind_encryption() {
    let (sent, told) = send(PLAIN, MailTls::Starttls, Some("me:pass\n")).await;
    assert_eq!(sent, Ok(()));
    let (before, behind) = told.split_once("(encrypted)").unwrap();
    assert_eq!(before, "EHLO c.internal\r\nSTARTTLS\r\n");
    assert!(behind.contains("AUTH PLAIN ") && behind.contains("words\r\n.\r\n"), "{behind}");
    let other = Ways { tls: true, auth: "AUTH LOGIN", ..PLAIN };
    let (sent, told) = send(other, MailTls::Tls, Some("me:pass")).await;
    assert_eq!(sent, Ok(()));
    assert!(told.contains("cGFzcw==\r\nMAIL FROM:<kiln@c.internal>"), "{told}");
}

#[tokio::test]
async fn without_encryption_or_login_nothing_is_handed_over() {
    for (ways, credentials, words) in [
        (Ways { starttls: false, ..PLAIN }, "me:pass", "offers no encryption"),
        (Ways { chatty: true, ..PLAIN }, "me:pass", "said too much before encryption"),
        (Ways { auth: "AUTH XOAUTH2", ..PLAIN }, "me:pass", "offers no login"),
        (PLAIN, "me:s3cret", "does not take the login"),
    ] {
        let (sent, told) = send(ways, MailTls::Starttls, Some(credentials)).await;
        let problem = sent.unwrap_err();
        assert!(problem.contains(words), "{problem}");
        assert!(!problem.contains(&STANDARD.encode("\0me\0s3cret")) && !told.contains("MAIL FROM"), "{told}");
    }
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_hears_nothing() {
    let mut fake = fake(PLAIN).await;
    fake.trusted = Arc::new(RootCertStore::empty());
    let mail = Mail {
        host: "localhost".into(),
        port: fake.port,
        from: "kiln@c.internal".into(),
        to: vec!["ops@example.org".into()],
        tls: MailTls::Starttls,
        credentials: Some("me:pass".into()),
    };
    let problem = hand_over(&mail, "words", &fake.trusted).await.unwrap_err();
    assert!(problem.contains("no encryption with the mail server"), "{problem}");
    assert_eq!(fake.told.await.unwrap(), "EHLO c.internal\r\nSTARTTLS\r\n");
}
