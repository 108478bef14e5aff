//! A service behind TLS, of which only the certificate counts.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::super::Settings;
use super::super::login::Login;
use super::super::session::Caller;
use super::*;

/// A CA, and a server's certificate that is good for three days.
fn make_certificates(dir: &Path) {
    let make = |words: &str, days: &str| {
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", days];
        let output = Command::new("openssl").args(words.split(' ')).args(key).current_dir(dir).output();
        let output = output.expect("openssl is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    make("req -x509 -keyout ca.key -out ca.pem -subj /CN=ca", "30");
    let server = "req -x509 -CA ca.pem -CAkey ca.key -keyout server.key -out server.pem -subj /CN=server \
                  -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
    make(server, "3");
}

/// Answers every request alike, one on each connection, until the test's process ends.
fn serve(listener: TcpListener, dir: &Path, answer: String) {
    let chain = vec![CertificateDer::from_pem_file(dir.join("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(dir.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut client = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(answer.as_bytes());
            client.conn.send_close_notify();
            let _ = client.flush();
        }
    });
}

#[tokio::test]
async fn the_certificates_of_services_have_an_end() {
    let dir = tempfile::tempdir().unwrap();
    make_certificates(dir.path());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let endpoint = |url: String| json!([{"interface": "public", "region": "r", "url": url}]);
    let catalog = json!([
        {"type": "compute", "endpoints": endpoint(format!("https://{server}/compute"))},
        {"type": "network", "endpoints": endpoint("http://127.0.0.1:1/network".into())},
    ]);
    let token = json!({"token": {"expires_at": "2999-01-01T00:00:00.000000Z", "user": {"id": "u"}, "catalog": catalog}});
    let body = token.to_string();
    let head = "HTTP/1.1 201 Created\r\nX-Subject-Token: t\r\nConnection: close";
    serve(listener, dir.path(), format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));

    let ca_bundle = Some(std::fs::read(dir.path().join("ca.pem")).unwrap());
    let login = Login { ca_bundle, ..Login::test(&format!("https://{server}/v3")) };
    let driver = Driver::with_login(login, Settings::default(), Caller::Person).unwrap();
    let found = driver.certificates().await.unwrap();
    // One server, though two services are there; the third has no TLS.
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].what, format!("certificate of {server}"));
    let left = found[0].at.duration_since(jiff::Timestamp::now()).as_hours();
    assert!((70..=72).contains(&left), "{left} hours");
}
