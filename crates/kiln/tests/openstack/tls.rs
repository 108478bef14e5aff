//! Services behind TLS: the real ones, with something in front of them that has a certificate of a CA of its own, as
//! many sites do it. What the identity service says about where the others are is put right on the way.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::lab::{Lab, own_project};
use crate::proxy::{SERVICES, pass_on, read_request};

/// A CA and what it signed, in a directory.
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn new() -> Certificates {
        let made = Certificates(tempfile::tempdir().unwrap());
        let days = ["-days", "2", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        for ca in ["ca", "other-ca"] {
            let files = format!("req -x509 -keyout {ca}.key -out {ca}.pem -subj /CN=kiln-test-{ca}");
            made.openssl(&[&files.split(' ').collect::<Vec<_>>(), &days[..]].concat());
        }
        let request = "req -x509 -CA ca.pem -CAkey ca.key -keyout server.key -out server.pem -subj /CN=services \
             -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
        let request: Vec<&str> = request.split_whitespace().collect();
        made.openssl(&[&request, &days[..]].concat());
        made
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl").args(arguments).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Listens for each service and hands on what comes.
struct Front {
    ports: Vec<u16>,
    /// How many requests each service has got.
    asked: Arc<Mutex<Vec<usize>>>,
    refused: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Front {
    fn start(certificates: &Certificates) -> Front {
        let chain = vec![CertificateDer::from_pem_file(certificates.path("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(certificates.path("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = Arc::new(config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap());
        let listeners = SERVICES.map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports: Vec<u16> = listeners.iter().map(|l| l.local_addr().unwrap().port()).collect();
        let (asked, refused) = (Arc::new(Mutex::new(vec![0; ports.len()])), Arc::default());
        let front = Front { ports, asked, refused, stop: Arc::default() };
        for (at, listener) in listeners.into_iter().enumerate() {
            let (config, stop) = (config.clone(), front.stop.clone());
            let (asked, refused, ports) = (front.asked.clone(), front.refused.clone(), front.ports.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (config, asked, ports) = (config.clone(), asked.clone(), ports.clone());
                    let refused = refused.clone();
                    std::thread::spawn(move || {
                        if serve(stream.ok()?, &config, at, &asked, &ports).is_none() {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        Some(())
                    });
                }
            });
        }
        front
    }

    fn clouds(&self, host: &str, more: &str) -> String {
        let own = own_project();
        format!(
            "clouds:\n  demo:\n    region_name: RegionOne\n{more}    auth:\n      auth_url: https://{host}:{}/v3\n      \
             username: {own}\n      password: loopback\n      project_name: {own}\n      \
             user_domain_name: Default\n      project_domain_name: Default\n",
            self.ports[0]
        )
    }

    /// With ports as anybody has them.
    fn plain(&self, text: &str) -> String {
        text.replace(&self.ports[0].to_string(), "5000")
    }

    fn asked(&self) -> Vec<usize> {
        std::mem::replace(&mut *self.asked.lock().unwrap(), vec![0; self.ports.len()])
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for port in &self.ports {
            // Wakes the listener, so that it sees that it is to end.
            let _ = TcpStream::connect(("127.0.0.1", *port));
        }
    }
}

/// One request per connection. `None`: the other side did not like what it saw.
fn serve(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    at: usize,
    asked: &Mutex<Vec<usize>>,
    ports: &[u16],
) -> Option<()> {
    let mut client = StreamOwned::new(ServerConnection::new(config.clone()).ok()?, stream);
    let request = read_request(&mut client)?;
    asked.lock().unwrap()[at] += 1;
    let answer = pass_on(&request, SERVICES[at].1)?;
    client.write_all(&with_own_addresses(&answer, ports)).ok()?;
    client.conn.send_close_notify();
    client.flush().ok()
}

/// The catalog names the services where they really are.
fn with_own_addresses(answer: &[u8], ports: &[u16]) -> Vec<u8> {
    let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n") else { return answer.to_vec() };
    let (head, body) = answer.split_at(end + 4);
    let (Ok(head), Ok(body)) = (std::str::from_utf8(head), std::str::from_utf8(body)) else {
        return answer.to_vec();
    };
    let mut moved = body.to_string();
    for ((_, service, _), port) in SERVICES.iter().zip(ports) {
        let own = format!("https://127.0.0.1:{port}");
        moved = moved.replace(&format!("http://127.0.0.1:{service}"), &own);
    }
    let length = format!("{}", body.len());
    let mut all = String::new();
    for line in head.lines() {
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") && value.trim() == length => {
                _ = write!(all, "{name}: {}\r\n", moved.len());
            }
            _ => _ = write!(all, "{line}\r\n"),
        }
    }
    (all + &moved).into_bytes()
}

/// Of every server there is one, and it has two days left. The cluster has no nodes that could be asked.
fn certificates_end_soon(lab: &Lab, front: &Front) {
    let diagnosis: Value = serde_json::from_slice(&lab.try_kiln(&["--json", "doctor"]).stdout).unwrap();
    let findings = diagnosis["findings"].as_array().expect("findings");
    let is_about =
        |finding: &&Value| finding["subject"].as_str().is_some_and(|s| s.starts_with("certificate of "));
    // What is found alike of several is one finding.
    let [told] = findings.iter().filter(is_about).collect::<Vec<_>>()[..] else { panic!("{diagnosis}") };
    let servers = told["subject"].as_str().and_then(|s| s.strip_prefix("certificate of ")).expect("servers");
    let mut expected: Vec<String> = front.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    expected.sort();
    assert_eq!(servers, kiln_spec::hostlist::fold(expected.iter().map(String::as_str)), "{told}");
    assert_eq!(told["severity"], "warning", "{told}");
    assert!(told["text"].as_str().is_some_and(|text| text.starts_with("ends at 2")), "{told}");
}

#[test]
fn certificates_are_believed_or_not() {
    let mut lab = Lab::new("trust", "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n");
    let certificates = Certificates::new();
    let front = Front::start(&certificates);
    let clouds = lab.write_clouds("");
    let cacert = |path: &Path| format!("    cacert: {}\n", path.display());
    let trusted = cacert(&certificates.path("ca.pem"));
    let set = |host: &str, more: &str| std::fs::write(&clouds, front.clouds(host, more)).unwrap();
    let works = |lab: &Lab, what: &str| {
        assert!(lab.kiln(&["plan"]).contains("+ compute.standard: create standard-0"), "{what}");
        let asked = front.asked();
        assert!(asked.iter().all(|count| *count > 0), "{what}: not all services were asked: {asked:?}");
    };

    set("127.0.0.1", &trusted);
    works(&lab, "with the CA");
    certificates_end_soon(&lab, &front);
    set("127.0.0.1", "    verify: false\n");
    works(&lab, "verify: false");
    set("127.0.0.1", "    insecure: true\n");
    works(&lab, "insecure: true");
    set("127.0.0.1", "");
    lab.set_environment(&clouds, &[("OS_CACERT", &certificates.path("ca.pem").display().to_string())]);
    works(&lab, "a named cloud and OS_CACERT");
    lab.set_environment(&clouds, &[]);

    let mut said = String::new();
    let mut note = |what: &str| {
        let text = lab.refused(&["plan"]).replace(&certificates.0.path().display().to_string(), "DIR");
        _ = writeln!(said, "# {what}\n{}\n", front.plain(&text));
        assert_eq!(front.asked(), vec![0; SERVICES.len()], "{what}: something was said all the same");
    };
    note("without the CA");
    set("127.0.0.1", &cacert(&certificates.path("other-ca.pem")));
    note("with another CA");
    set("localhost", &trusted);
    note("under another name");
    set("127.0.0.1", &cacert(&certificates.path("server.key")));
    note("no certificate in the bundle");
    set("127.0.0.1", &cacert(&certificates.path("nowhere.pem")));
    note("no bundle");
    assert!(front.refused.load(Ordering::Relaxed) >= 3);
    insta::assert_snapshot!(said);
}
