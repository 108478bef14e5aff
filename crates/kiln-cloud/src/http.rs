//! The HTTP clients of the drivers, and of others who talk to servers.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy};

use crate::{Error, Result};

/// Whom to believe when a server shows its certificate.
#[derive(Clone, Copy)]
pub enum Trust<'a> {
    /// Those the system trusts.
    System,
    /// Those of a bundle (PEM), and nobody else.
    Bundle(&'a [u8]),
    /// Everybody: asked for with `verify: false`.
    Anybody,
}

/// For a cloud on this machine: neither TLS nor proxies, so the builder has nothing that can fail.
pub fn plain(timeout: Duration) -> Client {
    builder(timeout).no_proxy().tls_certs_only([]).build().unwrap_or_default()
}

/// The same, through a socket of this host.
pub fn socket(timeout: Duration, path: PathBuf) -> Client {
    builder(timeout).no_proxy().tls_certs_only([]).unix_socket(path).build().unwrap_or_default()
}

/// For a cloud across a network. Proxies are taken from the environment, as everybody does.
pub fn secure(timeout: Duration, trust: Trust<'_>) -> Result<Client> {
    let builder = builder(timeout).connect_timeout(Duration::from_secs(15)).tls_info(true);
    let wrong = |what: &str, e: reqwest::Error| Error::unsupported(what).because(Cause(e));
    match trust {
        Trust::Anybody => builder
            .tls_certs_only([])
            .tls_danger_accept_invalid_certs(true)
            .build()
            .map_err(|e| wrong("TLS cannot be used", e)),
        Trust::Bundle(pem) => {
            let certificates =
                Certificate::from_pem_bundle(pem).map_err(|e| wrong("the CA bundle cannot be read", e))?;
            if certificates.is_empty() {
                return Err(Error::unsupported("the CA bundle (`cacert` or OS_CACERT) holds no certificate"));
            }
            let built = builder.tls_certs_only(certificates).build();
            built.map_err(|e| wrong("the CA bundle cannot be used", e))
        }
        Trust::System => builder.build().map_err(|e| wrong("the system's CA certificates cannot be used", e)),
    }
}

/// The same with what the system trusts, through a proxy that the environment does not name.
pub fn proxied(timeout: Duration, url: &str, except: &str) -> Result<Client> {
    let wrong = |e: reqwest::Error| Error::unsupported("the proxy cannot be used").because(Cause(e));
    let proxy = Proxy::all(url).map_err(wrong)?.no_proxy(NoProxy::from_string(except));
    builder(timeout).connect_timeout(Duration::from_secs(15)).no_proxy().proxy(proxy).build().map_err(wrong)
}

fn builder(timeout: Duration) -> ClientBuilder {
    // Whoever comes first sets it for the process; that it was set before is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .timeout(timeout)
        // Less than servers wait: else one may close a connection at the moment of the next request.
        .pool_idle_timeout(Duration::from_secs(20))
        .redirect(Policy::custom(follow))
        .user_agent(concat!("kiln/", env!("CARGO_PKG_VERSION")))
}

const REDIRECTS: usize = 5;

/// Only to the same server: requests carry tokens in headers that reqwest does not know as secret, so they would go along.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let same = attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
    if same && attempt.previous().len() <= REDIRECTS { attempt.follow() } else { attempt.stop() }
}

/// Why no answer came. That a server's certificate is not one to believe does not change by asking again.
pub fn failure(error: reqwest::Error) -> Error {
    match distrust(&error) {
        Some(why) => Error::untrusted(why),
        None => Error::unanswered("no answer").because(Cause(error)),
    }
}

/// What is wrong with the certificate, if that is it.
fn distrust(error: &reqwest::Error) -> Option<String> {
    use rustls::CertificateError as Wrong;

    let tls = tls_error(error)?;
    let rustls::Error::InvalidCertificate(wrong) = tls else { return None };
    Some(match wrong {
        Wrong::UnknownIssuer => "its certificate is signed by nobody who is trusted here".into(),
        Wrong::Expired | Wrong::ExpiredContext { .. } => "its certificate has expired".into(),
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => "its certificate is not valid yet".into(),
        Wrong::NotValidForName => "its certificate is for another name".into(),
        Wrong::NotValidForNameContext { presented, .. } => {
            // `DnsName("keystone.example.org")`, `IpAddress(192.0.2.1)`.
            let name = |text: &String| {
                let inner = text.split_once('(').map_or(text.as_str(), |(_, rest)| rest);
                inner.trim_matches(['(', ')', '"']).to_string()
            };
            let names: Vec<String> = presented.iter().map(name).collect();
            format!("its certificate is for another name: {}", names.join(", "))
        }
        other => format!("its certificate is not valid: {other}"),
    })
}

fn tls_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(tls) = error.downcast_ref() {
        return Some(tls);
    }
    // The source of an `io::Error` is not what it wraps but the source of that.
    let below = match error.downcast_ref::<std::io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
        None => error.source(),
    };
    tls_error(below?)
}

/// Why a request failed. reqwest's own message names the address only, and so do those below it; the last of its
/// sources says what went wrong.
#[derive(Debug)]
pub struct Cause(pub reqwest::Error);

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut cause: &dyn std::error::Error = &self.0;
        while let Some(below) = cause.source() {
            cause = below;
        }
        write!(f, "{cause}")
    }
}

impl std::error::Error for Cause {}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// Answers `requests` requests with this text each; returns what it was sent.
    fn server(listener: TcpListener, answers: Vec<String>) -> std::thread::JoinHandle<Vec<String>> {
        std::thread::spawn(move || {
            let one = |answer: String| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                String::from_utf8_lossy(&request[..length]).into_owned()
            };
            answers.into_iter().map(one).collect()
        })
    }

    #[tokio::test]
    async fn a_token_stays_with_its_server() {
        let (own, other) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        other.set_nonblocking(true).unwrap();
        let url = format!("http://{}", own.local_addr().unwrap());
        let redirect = |to: &str| {
            format!("HTTP/1.1 301 Moved\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        };
        let away = redirect(&format!("http://{}/", other.local_addr().unwrap()));
        let serving = server(own, vec![redirect(&format!("{url}/there")), away]);
        let client = plain(Duration::from_secs(60));
        let answer = client.get(format!("{url}/here")).header("x-auth-token", "s3cret").send().await.unwrap();
        assert_eq!(answer.status(), 301);
        let requests = serving.join().unwrap();
        assert!(requests[1].starts_with("GET /there") && requests[1].contains("s3cret"), "{requests:?}");
        assert!(other.accept().is_err(), "the other server was asked");
    }
}
