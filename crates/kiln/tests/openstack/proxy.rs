//! Stands between Kiln and the services and makes trouble: by turns, so that every run sees the same.

use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::lab::own_project;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// 429 with Retry-After; the service hears nothing.
    Throttled,
    /// The service hears nothing.
    Status(u16),
    /// The connection is cut; the service hears nothing.
    CutBefore,
    /// The service does it, and the answer is lost.
    CutAfter,
    /// The service does it, and something in between says 500.
    FailedAfter,
    Slow,
}

const TROUBLES: [Trouble; 8] = [
    Trouble::CutAfter,
    Trouble::Throttled,
    Trouble::Status(500),
    Trouble::FailedAfter,
    Trouble::CutBefore,
    Trouble::Status(503),
    Trouble::Slow,
    // As if the token had run out.
    Trouble::Status(401),
];
/// Every so many requests one is troubled.
const EVERY: usize = 4;

pub struct Proxy {
    troubled: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    ports: Vec<u16>,
}

pub const SERVICES: [(&str, u16, &str); 5] = [
    ("identity", 5000, "/v3"),
    ("compute", 8774, "/v2.1"),
    ("image", 9292, "/v2"),
    ("network", 9696, "/v2.0"),
    ("block_storage", 8776, "/v3"),
];

impl Proxy {
    pub fn start() -> Proxy {
        let (asked, troubled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let mut ports = Vec::new();
        for (_, service, _) in SERVICES {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            ports.push(listener.local_addr().unwrap().port());
            let (asked, troubled, stop) = (asked.clone(), troubled.clone(), stop.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (asked, troubled) = (asked.clone(), troubled.clone());
                    std::thread::spawn(move || serve(stream.ok()?, service, &asked, &troubled));
                }
            });
        }
        Proxy { troubled, stop, ports }
    }

    /// How many requests had trouble.
    pub fn troubled(&self) -> usize {
        self.troubled.load(Ordering::Relaxed)
    }

    /// A `clouds.yaml` whose services are all behind this.
    pub fn clouds(&self) -> String {
        let at = |n: usize| format!("http://127.0.0.1:{}{}", self.ports[n], SERVICES[n].2);
        let overrides: Vec<String> = (1..SERVICES.len())
            .map(|n| format!("    {}_endpoint_override: {}\n", SERVICES[n].0, at(n)))
            .collect();
        let overrides = overrides.concat();
        let own = own_project();
        format!(
            "clouds:\n  demo:\n    region_name: RegionOne\n{overrides}    auth:\n      auth_url: {}\n      \
             username: {own}\n      password: loopback\n      project_name: {own}\n      \
             user_domain_name: Default\n      project_domain_name: Default\n",
            at(0)
        )
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for port in &self.ports {
            // Wakes the listener, so that it sees that it is to end.
            let _ = TcpStream::connect(("127.0.0.1", *port));
        }
    }
}

/// One request per connection. `None` as soon as either side is gone.
fn serve(mut client: TcpStream, service: u16, asked: &AtomicUsize, troubled: &AtomicUsize) -> Option<()> {
    let request = read_request(&mut client)?;
    let number = asked.fetch_add(1, Ordering::Relaxed);
    let trouble = (number % EVERY == EVERY - 1).then(|| {
        troubled.fetch_add(1, Ordering::Relaxed);
        match TROUBLES[(number / EVERY) % TROUBLES.len()] {
            // There, it would mean that the password is wrong.
            Trouble::Status(401) if service == SERVICES[0].1 => Trouble::Status(500),
            trouble => trouble,
        }
    });
    match trouble {
        Some(Trouble::Throttled) => answer(&mut client, 429, "Retry-After: 1\r\n"),
        Some(Trouble::Status(status)) => answer(&mut client, status, ""),
        Some(Trouble::CutBefore) => Some(()),
        Some(Trouble::CutAfter) => pass_on(&request, service).map(drop),
        Some(Trouble::FailedAfter) => {
            pass_on(&request, service)?;
            answer(&mut client, 500, "")
        }
        Some(Trouble::Slow) => {
            std::thread::sleep(Duration::from_secs(2));
            client.write_all(&pass_on(&request, service)?).ok()
        }
        None => client.write_all(&pass_on(&request, service)?).ok(),
    }
}

fn answer(client: &mut TcpStream, status: u16, headers: &str) -> Option<()> {
    let text =
        format!("HTTP/1.1 {status} Trouble\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n");
    client.write_all(text.as_bytes()).ok()
}

/// With the service's whole answer. The service is told that this connection is for one request.
pub fn pass_on(request: &[u8], service: u16) -> Option<Vec<u8>> {
    let mut upstream = TcpStream::connect(("127.0.0.1", service)).ok()?;
    upstream.write_all(request).ok()?;
    let mut all = Vec::new();
    upstream.read_to_end(&mut all).ok()?;
    Some(all)
}

pub fn read_request(client: &mut impl Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16384];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        let count = client.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length: usize = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok())
        .unwrap_or(0);
    while bytes.len() < end + 4 + length {
        let count = client.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
    }
    let mut request = format!("{head}\r\nConnection: close\r\n\r\n").into_bytes();
    request.extend_from_slice(&bytes[end + 4..]);
    Some(request)
}
